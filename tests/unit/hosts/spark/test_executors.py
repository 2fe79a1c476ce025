"""What is said about executors that do not come."""

import pytest

from headrace.hosts.spark.starting.executors import Worker, missing_executors

MASTER = "spark://10.0.0.5:7077"


@pytest.mark.parametrize(
    ("workers", "message", "hint"),
    [
        (None, "no executor has registered within 60 s", "what spark://10.0.0.5:7077 says"),
        ([], "no executor has registered within 60 s: the master has no worker", "start workers"),
        (
            [Worker(1, 1500), Worker(1, 1500)],
            "no executor has registered within 60 s: the master has 2 workers with 1 core and 1500 MB each, and an "
            "executor needs 1 core and 4096 MB",
            "ask for less",
        ),
        (
            [Worker(8, 16000)],
            "no executor has registered within 60 s: the master has a worker with 8 cores and 16000 MB, and an "
            "executor needs 1 core and 4096 MB",
            "other applications may use the workers",
        ),
    ],
)
def test_the_fault_says_what_the_cluster_has_and_what_an_executor_needs(workers, message, hint):
    fault = missing_executors(MASTER, 0, 2, 60.0, workers, 1, 4096)
    assert fault.message == message
    assert hint in fault.hint


def test_some_executors_are_counted():
    assert missing_executors(MASTER, 1, 3, 5.0, None).message == "1 of 3 executors have registered within 5 s"
