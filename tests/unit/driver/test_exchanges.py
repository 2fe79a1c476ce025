"""The parts of an exchange: written by tasks, named by the delivery, read by several tasks, and deleted."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import polars as pl
import pytest

from headrace.connectors.spool import Spooled, exchange_spool
from headrace.driver.exchanges import ReadParts, next_exchange, parts_after, sweep_parts
from headrace.driver.offset import ExchangeAt, Offset
from headrace.driver.progress import Progress, read_progress
from headrace.hosts.checkup import check_up
from headrace.model.streams import exchange_stream, is_exchange_stream
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.storage.location import location
from headrace.storage.storage import mounted
from headrace.testing.clock import VirtualClock
from headrace.testing.deployment import host
from headrace.testing.deployment.disk import SimulatedDisk
from headrace.testing.deployment.host import SimulatedDeployment

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
STATEMENTS = """
CREATE STREAM s (at TIMESTAMP, k INT, v INT) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM t (at TIMESTAMP, k INT, w INT) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS
SELECT v, w, count(*) AS c, window_end
FROM (SELECT s.k, s.v, t.w FROM s [RANGE 10 SECONDS] JOIN t [RANGE 10 SECONDS] ON s.k = t.k) [RANGE 20 SECONDS]
GROUP BY v, w INTO MEMORY
"""
ROWS = 60


def deployed(tmp_path: Path) -> Session:
    """Return a session whose deployment is a model of Spark with four buckets."""

    def make(directory: Path) -> SimulatedDeployment:
        return SimulatedDeployment(directory, VirtualClock(1_800_000_000 * SECOND), buckets=range(4))

    return Session(tmp_path, host=make)


def push(session: Session, first: int = 0) -> None:
    times = [BEGIN + dt.timedelta(seconds=second) for second in range(first, first + ROWS)]
    session.push("s", [{"at": at, "k": i % 7, "v": i % 5} for i, at in enumerate(times)])
    session.push("t", [{"at": at, "k": i % 7, "w": i % 3} for i, at in enumerate(times)])


def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowance: int) -> Counter[str]:
    monkeypatch.setattr(host, "ALLOWANCE", allowance)
    with deployed(tmp_path) as session:
        session.execute(STATEMENTS)
        push(session)
        session.drain(60)
        return Counter(map(str, session.results("q")))


def test_the_answer_does_not_depend_on_the_number_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, several, all_of_them = (
        answers(tmp_path / name, monkeypatch, allowance)
        for name, allowance in (("one", 10**9), ("some", 1600), ("all", 0))
    )
    assert one == several == all_of_them
    assert one.total() > 10


def test_several_tasks_read_the_parts_that_several_tasks_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "ALLOWANCE", 0)
    with deployed(tmp_path) as session:
        session.execute(STATEMENTS)
        push(session)
        deployment = session.deployment
        assert isinstance(deployment, SimulatedDeployment)
        assert deployment.step()
        waiting = read_progress(tmp_path).parts
        assert waiting is not None
        ((origin, names),) = waiting.items()
        assert sorted(name.split("-")[2] for name in names) == ["t0", "t1", "t2", "t3"]
        start = deployment._logs.offset(0)
        end = deployment._planner.latest(start, deployment.now())
        assert end.exchanges[origin].parts == names
        tasks = deployment._planner.tasks(start, end)
        readers = [task.number for task in tasks if any(is_exchange_stream(work.stream) for work in task.work)]
        assert readers == [0, 1]
        splits = [work.split for task in tasks for work in task.work if work.stream == exchange_stream(origin)]
        assert [Spooled(*part).name for split in splits for part in split] == names


def test_a_part_that_the_delivery_has_not_named_is_not_read_and_not_kept(tmp_path: Path) -> None:
    with deployed(tmp_path) as session:
        session.execute(STATEMENTS)
        push(session)
        deployment = session.deployment
        assert isinstance(deployment, SimulatedDeployment)
        assert deployment.step()
        ((origin, names),) = (read_progress(tmp_path).parts or {}).items()
        spool = exchange_spool(origin, tmp_path)
        lost = spool.put_part(0, pl.DataFrame({"other": [1]}), "t77-1")  # of a micro-batch that was planned again
        dropped = exchange_spool("gone-1", tmp_path)
        dropped.put_part(0, pl.DataFrame({"other": [1]}))
        while deployment.step():
            pass
        named = (read_progress(tmp_path).parts or {}).get(origin, [])
        assert lost not in spool.all()
        assert not dropped.all()
        assert {part.name for part in spool.all()} <= {*named, *names}
        session.drain(60)
        assert session.results("q")


def test_parts_are_not_swept_once_a_later_micro_batch_has_been_delivered(tmp_path: Path) -> None:
    spool = exchange_spool("panes-1", tmp_path)
    part = spool.put_part(3, pl.DataFrame({"k": [1]}), "t0-1")
    end = Offset(time=10, exchanges={"panes-1": ExchangeAt(at=3, parts=[])})
    assert not sweep_parts(end, Progress(parts={}, time=11), tmp_path)  # it may be repeated, and reads the part
    assert spool.all() == [part]
    assert sweep_parts(end, Progress(parts={"panes-1": [part.name]}, time=10), tmp_path)
    assert spool.all() == [part]
    assert sweep_parts(end, Progress(parts={}, time=9), tmp_path)
    assert spool.all() == []


def test_in_a_store_the_parts_of_several_micro_batches_are_deleted_by_one_request() -> None:
    class Counting(SimulatedDisk):
        removed = 0

        def remove(self, paths: Iterable[Path], *, durable: bool = True) -> None:
            self.removed += 1
            super().remove(paths, durable=durable)

    checkpoint = location("s3://lake/state")
    with mounted(checkpoint, Counting()) as store:
        assert isinstance(store, Counting)
        read_parts = ReadParts(checkpoint)
        for batch in range(20):
            origins = ("panes-1", "panes-2")
            parts = {
                origin: [exchange_spool(origin, checkpoint).put_part(batch, pl.DataFrame({"k": [1]}), "t0-1").name]
                for origin in origins
            }
            exchanges = {origin: ExchangeAt(at=batch + 1, parts=parts[origin]) for origin in origins}
            read_parts.add(Offset(time=batch, exchanges=exchanges))
            read_parts.add(Offset(time=batch, exchanges=dict.fromkeys(origins, ExchangeAt(at=batch + 1, parts=[]))))
        assert store.removed == 1
        assert [part.number for part in exchange_spool("panes-1", checkpoint).all()] == [16, 17, 18, 19]


def test_what_an_earlier_version_exchanged_is_found_by_listing(tmp_path: Path) -> None:
    spool = exchange_spool("panes-1", tmp_path)
    spool.put(3, pl.DataFrame({"k": [1]}))
    spool.put(4, pl.DataFrame({"k": [2]}))
    at = next_exchange("panes-1", ExchangeAt(at=4), Progress(exchanges={"panes-1": 7}), tmp_path)
    assert at == ExchangeAt(at=5, bound=7, parts=["000000000004-1.arrow"])
    assert next_exchange("panes-1", at, Progress(parts={}), tmp_path) == ExchangeAt(at=5, bound=7, parts=[])


def test_parts_wait_as_long_as_no_micro_batch_reads_their_exchange(tmp_path: Path) -> None:
    old, new = Spooled(3, 1, "t0-1"), Spooled(4, 2, "t0-1")
    before = Progress(parts={"early": [old.name], "read": [old.name]})
    written = {"early": [new], "read": [new]}
    after = parts_after(4, written, before, tmp_path, unread={"early"})
    assert after == {"early": [old.name, new.name], "read": [new.name]}
    again = parts_after(4, written, msgspec.structs.replace(before, parts=after), tmp_path, unread={"early"})
    assert again == after  # the delivery was repeated


def test_a_part_that_is_gone_is_a_problem_of_the_checkpoint(tmp_path: Path) -> None:
    with deployed(tmp_path) as session:
        session.execute(STATEMENTS)
        push(session)
        deployment = session.deployment
        assert isinstance(deployment, SimulatedDeployment)
        assert deployment.step()
    assert check_up(tmp_path).problems == ()
    ((origin, names),) = (read_progress(tmp_path).parts or {}).items()
    (exchange_spool(origin, tmp_path).directory / names[0]).unlink()
    assert any("was deleted before it was read" in problem for problem in check_up(tmp_path).problems)
