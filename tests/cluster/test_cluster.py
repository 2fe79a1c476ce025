"""Headrace on a Spark cluster whose machines share one folder and are lost while they work: results stay exact."""

import importlib
import random
import re
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.cluster import SPECULATION
from tests.cluster.machine import until
from tests.cluster.marked import marks
from tests.cluster.points import POINTS, Waiting
from tests.spark.crash_case import (
    SCRIPT,
    expected,
    newest_batch,
    script_with,
    wait_for_batches,
    write_data,
    written,
)

from headrace.commands.allotments import PARCELS_PER_BUCKET
from headrace.driver.bucket_numbers import bucket_numbers

#: Counts by an aggregate that tells where it ran; the oracle has count() in its place.
MARKED = """
CREATE QUERY marked AS SELECT auction, {count}(price) AS n, window_end FROM bids [RANGE 2 SECONDS] GROUP BY auction
  INTO FILES (path '{out}/marked', format 'parquet');
"""
#: What moves between buckets, beside the marked counts, while machines are lost.
MOVED = ("counts", "pairs", "totals", "matched")
#: Where they are, unless at all points.
LOST_AT = ("rows are given", "given rows are delivered", "rows are taken in")
AGGREGATE = "CREATE AGGREGATE marked_count(DOUBLE) RETURNS BIGINT FROM PYTHON 'tests.cluster.marked:Count';"


class Case:
    """The queries of the crash tests, with files and a checkpoint of their own in the common folder."""

    def __init__(self, folder, script=SCRIPT):
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        frames = write_data(folder / "data", 5)
        script = script.format(data=folder / "data", out=self.out)
        self.text = AGGREGATE + script + MARKED.format(count="marked_count", out=self.out)
        self.answers = expected(script + MARKED.format(count="count", out=self.out), frames)

    def start(self, driver, limit):
        driver.call("start", checkpoint=str(self.checkpoint), text=self.text, limit=limit, buckets=4)

    def finish(self, driver):
        """Wait for the end; the results are exact, and Spark's query was not started again."""
        outcome = driver.call("drain", checkpoint=str(self.checkpoint))
        assert not outcome["is_restarted"]
        assert outcome["sent"] <= 8000
        self.check()

    def check(self):
        assert written(self.out, self.answers) == self.answers


@pytest.fixture
def case(cluster, request):
    return Case(cluster.common / request.node.name)


def test_queries_are_exact_also_after_their_checkpoint_was_divided_for_more_cores(cluster, driver, case):
    case.start(driver, limit=250)
    wait_for_batches(case.checkpoint, 3)
    driver.call("stop", checkpoint=str(case.checkpoint))
    assert driver.call("rescale", checkpoint=str(case.checkpoint), cores=4) == [4, 2, 4]
    case.start(driver, limit=400)
    case.finish(driver)
    assert {mark.partition for mark in marks(cluster.common)} == {0, 1, 2, 3}
    assert {mark.address for mark in marks(cluster.common)} == set(driver.call("executors"))
    assert driver.call("setting", name="spark.sql.shuffle.orderIndependentChecksum.enabled") != "false"


@pytest.mark.timeout(2400)  # with all points, on a machine with other work
def test_machines_that_are_lost_at_points_of_a_move_of_parcels_change_no_result(cluster, driver, request):
    case = Case(cluster.common / request.node.name, script_with(MOVED) + ";")
    all_points = request.config.getoption("--all-points")
    points = list(POINTS) if all_points else LOST_AT
    waiting, chance = Waiting(cluster.common), random.Random(37)
    case.start(driver, limit=50 if all_points else 130)
    for number, point in enumerate(points):
        waiting.arm(point)
        driver.begin("execute", checkpoint=str(case.checkpoint), text=moves(case.checkpoint, number))
        until(partial(waiting.address, point), what=f"a process when {point}")
        until(lambda: len(driver.call("executors")) == len(cluster.workers), what="all executors")
        machines = {cluster.address(name): name for name in cluster.workers}
        lost = machines.get(waiting.address(point)) or chance.choice(cluster.workers)
        assert (waiting.address(point) in machines) == (POINTS[point] == "worker")
        cluster.switch_off(lost)
        waiting.release(point)
        cluster.switch_on(lost)
    case.finish(driver)
    assert not list((case.checkpoint / "moves").glob("*"))


def moves(checkpoint, number):
    """Return statements by which half of the parcels go to another bucket, and those of a join to all buckets."""
    buckets = bucket_numbers(checkpoint, list)
    half = ", ".join(map(str, range(number % 2, PARCELS_PER_BUCKET * len(buckets), 2)))
    places = dict.fromkeys(MOVED, f"BUCKET {buckets[number % len(buckets)]}")
    if number % 2:
        places["matched"] = "ALL BUCKETS"
    return "; ".join(f"MOVE PARCELS {half} OF {query} TO {place}" for query, place in places.items())


def test_a_machine_may_be_lost_when_one_bucket_task_has_finished_and_another_runs(cluster, driver, case, request):
    losses = request.config.getoption("--losses")
    case.start(driver, limit=200 if losses == 1 else 40)
    for number in range(losses):
        lost, other = cluster.workers[number % 2], cluster.workers[1 - number % 2]
        with cluster.held(lost):
            until(lambda: driver.call("tasks") == {"running": 1, "finished": 1}, what="one task of two")
            cluster.switch_off(lost)
        is_last = number + 1 == losses
        switch_on_while_held(cluster, driver, lost, held=other, load=0.4 if is_last else None)
    # once it is back, it gets a bucket within three micro-batches
    returned = newest_batch(case.checkpoint) + 1  # the one that runs now
    wait_for_batches(case.checkpoint, 5)
    batches = {mark.batch for mark in marks(cluster.common) if mark.address == cluster.address(lost)}
    assert min(batch for batch in batches if batch > returned) <= returned + 3
    case.finish(driver)


def switch_on_while_held(cluster, driver, name, *, held, load=None):
    """Switch a machine on again; no micro-batch ends before Spark has an executor on it.

    With a load, each task takes so many seconds longer from then on: Spark lets a short one wait for the machine on
    which its state is.
    """
    with cluster.held(held):
        cluster.switch_on(name)
        until(lambda: len(driver.call("executors")) == len(cluster.workers), what="all executors")
        if load is not None:
            (cluster.common / "load").mkdir()
            (cluster.common / "load" / str(load)).touch()


def test_a_killed_driver_is_replaced_by_one_that_lets_fast_machines_overtake_a_slow_one(cluster, drivers, driver, case):
    chance = random.Random(41)
    case.start(driver, limit=150)
    wait_for_batches(case.checkpoint, chance.randint(2, 4))
    time.sleep(chance.random() * 0.5)  # somewhere within a micro-batch
    drivers.lose()
    another = drivers.get(SPECULATION)
    assert another.machine.address != driver.machine.address
    case.start(another, limit=200)
    with cluster.held("worker-2"):
        before = newest_batch(case.checkpoint)
        until(lambda: newest_batch(case.checkpoint) >= before + 2, what="a copy of each held task")
    case.finish(another)


def test_a_checkpoint_that_only_the_driver_sees_is_one_sentence(cluster, driver, case):
    if cluster.rack.kind != "namespaces":
        pytest.skip("all machines see one disk")
    with pytest.raises(RuntimeError, match=r"HostFault: worker-\d does not see the checkpoint") as raised:
        driver.call("start", checkpoint=str(driver.machine.disk / "state"), text=case.text)
    assert "KeyError" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("absent", r"the executors cannot run Python tasks: .*Cannot run program", "set PYSPARK_PYTHON to the path"),
        (
            "bare",
            r"Headrace cannot be imported on worker-\d by .*: ModuleNotFoundError",
            "send it along: headrace submit",
        ),
        ("other", r"the executors cannot run Python tasks: .*PYTHON_VERSION_MISMATCH", "the same version of Python"),
    ],
    ids=["absent", "bare", "other"],
)
def test_machines_without_the_right_python_are_one_sentence_before_anything_is_written(
    cluster, driver, case, kind, message, hint
):
    folder = cluster.common / f"python-{kind}"
    options = {
        "absent": {"python": str(folder / "python")},
        "bare": {"python": str(folder / "python")},
        "other": {"version": "3.9"},
    }
    if kind == "bare":
        make_bare_python(folder)
    checkpoint = str(folder / "checkpoint")
    told = driver.call("tests.cluster.jobs:refused", checkpoint=checkpoint, text=case.text, **options[kind])
    assert re.search(message, told["message"])
    assert "\n" not in told["message"]
    assert hint in told["hint"]
    assert set(told["files"]) <= {"epoch.json", "owner.json", "spark.log"}
    assert not case.out.exists()


def make_bare_python(folder):
    """Make a Python that has PySpark and nothing else."""
    (folder / "modules").mkdir(parents=True)
    for name in ("pyspark", "py4j"):
        (folder / "modules" / name).symlink_to(Path(str(importlib.import_module(name).__file__)).parent)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/modules exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
