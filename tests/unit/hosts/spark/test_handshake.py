"""What a task on each executor finds out, and what is said about it."""

import dataclasses
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from pyspark import cloudpickle

import headrace
from headrace.errors import HostFault
from headrace.hosts.spark.starting.handshake import (
    CLOCK_SECONDS,
    DISK_BYTES,
    Executor,
    _probe,
    check_executor,
    distinct,
    job_fault,
    own_versions,
    warnings_about,
)

FINE = Executor(
    host="worker1", process="7 in /work/0", python="3.12.1", executable="/opt/python", word="secret",
    headrace=headrace.__version__, import_error="", packages=own_versions(), free_bytes=1 << 40, clock=100.0,
)  # fmt: skip
RUN = "import sys, pickle; print(repr(list(pickle.load(open(sys.argv[1], 'rb'))([]))[0]))"
PLACE = Path("/shared/state")


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (
            {"import_error": "No module named 'polars'"},
            "cannot be imported on worker1 by /opt/python",
            "headrace submit",
        ),
        (
            {"headrace": "0.0.9"},
            f"worker1 has Headrace 0.0.9, and the driver has {headrace.__version__}",
            "same version",
        ),
        ({"packages": {"polars": "0.1"}}, "worker1 has polars 0.1, and the driver has", "same version"),
        ({"packages": {"pyarrow": ""}}, "worker1 has pyarrow not at all", "same version"),
        ({"word": ""}, "worker1 does not see the checkpoint /shared/state", "all machines share"),
        ({"word": "of an older run"}, "worker1 does not see the checkpoint", "all machines share"),
    ],
)
def test_what_an_executor_lacks_is_said(change, message, hint):
    check_executor(FINE, "secret", PLACE)
    with pytest.raises(HostFault, match=message) as raised:
        check_executor(dataclasses.replace(FINE, **change), "secret", PLACE)
    assert hint in raised.value.hint


def test_a_temporary_checkpoint_that_only_the_driver_sees_needs_an_option():
    with pytest.raises(HostFault, match="does not see the checkpoint") as raised:
        check_executor(dataclasses.replace(FINE, word=""), "secret", PLACE, is_temporary=True)
    assert "without --checkpoint" in raised.value.hint


def test_two_executors_of_one_host_are_two_however_many_tasks_they_ran():
    other = dataclasses.replace(FINE, process="8 in /work/1", clock=101.0)
    again = dataclasses.replace(FINE, clock=102.0)
    elsewhere = dataclasses.replace(FINE, host="worker2")
    assert distinct([FINE, other, again, elsewhere]) == [again, other, elsewhere]


def test_a_full_disk_and_a_wrong_clock_are_told():
    assert list(warnings_about(FINE, 99.0, 101.0)) == []
    strange = dataclasses.replace(FINE, free_bytes=DISK_BYTES - 1, clock=101.5 + 2 * CLOCK_SECONDS)
    assert list(warnings_about(strange, 99.0, 101.5)) == [
        "worker1 has only 255 MB of free disk",
        "the clock of worker1 differs by 10 s from the driver's",
    ]


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ('Cannot run program "/opt/python": error=2', "PYSPARK_PYTHON"),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9",
            "PYSPARK_PYTHON",
        ),
        ("ModuleNotFoundError: No module named 'pyspark'", "headrace submit"),
    ],
)
def test_a_task_that_cannot_run_has_a_hint(reason, hint):
    fault = job_fault(reason)
    assert reason in fault.message
    assert hint in fault.hint


@pytest.mark.slow
def test_the_task_runs_where_headrace_is_not_installed(tmp_path):
    (tmp_path / "word").write_text("secret")
    (tmp_path / "task").write_bytes(cloudpickle.dumps(_probe(str(tmp_path / "word"), {})))
    # without the site, the packages are there, and ours, which a link in them leads to, is not
    environment = {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-S", "-c", RUN, str(tmp_path / "task")],
        env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    answer = Executor(**eval(done.stdout))
    assert answer.word == "secret"
    assert answer.packages == own_versions()
    assert answer.import_error == "ModuleNotFoundError: No module named 'headrace'"
