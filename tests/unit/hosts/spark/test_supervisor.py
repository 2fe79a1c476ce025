"""A micro-batch that Spark gave up is repeated after growing pauses, unless a person must look."""

import errno
import os
from pathlib import Path

import pytest

from headrace.control.decisions import GiveUp
from headrace.errors import HeadraceError, HostFault, InternalError, OwnerFault, QueryError, SinkFault
from headrace.hosts.host import file_fault
from headrace.hosts.spark.supervisor import FAILURES, LONGEST_PAUSE, Again, Supervisor


def lost(task: int = 1) -> HostFault:
    return HostFault(f"a micro-batch failed: Task {task} in stage {3 * task}.0 failed 4 times: executor {task} lost")


def test_pauses_grow_and_the_fifth_failure_for_the_same_reason_is_the_last() -> None:
    supervisor = Supervisor()
    verdicts = [supervisor.failed(7, lost(task), is_ours=False) for task in range(FAILURES)]
    assert [verdict.pause for verdict in verdicts[:-1] if isinstance(verdict, Again)] == [1, 2, 4, 8]
    assert isinstance(verdicts[0], Again)
    assert verdicts[0].decision.action == "repeat micro-batch 7 after 1 s"
    assert verdicts[0].decision.reason.startswith("it has failed once: a micro-batch failed: Task 0")
    assert isinstance(verdicts[-1], GiveUp)
    assert verdicts[-1].action == "stop all queries at micro-batch 7"
    assert verdicts[-1].reason.startswith("it has failed 5 times, again and again for the same reason")


def test_failures_for_other_reasons_and_of_other_micro_batches_do_not_add_up() -> None:
    supervisor = Supervisor()
    letters = "abcdefghij"
    others = [supervisor.failed(7, HostFault(f"reason {letter}"), is_ours=False) for letter in letters]
    assert [verdict.pause for verdict in others if isinstance(verdict, Again)][-2:] == [LONGEST_PAUSE] * 2
    for batch in range(8, 20):
        verdict = supervisor.failed(batch, lost(), is_ours=False)
        assert isinstance(verdict, Again)
        assert verdict.pause == 1


def test_a_delivered_micro_batch_begins_the_count_again() -> None:
    supervisor = Supervisor()
    for _ in range(3):
        for _ in range(FAILURES - 1):
            assert isinstance(supervisor.failed(7, lost(), is_ours=False), Again)
        supervisor.delivered()


@pytest.mark.parametrize("fault", [OwnerFault("taken over"), QueryError("text"), InternalError("ours")])
def test_some_faults_do_not_pass_by_themselves(fault: HeadraceError) -> None:
    supervisor = Supervisor()
    supervisor.delivered()
    assert supervisor.failed(7, fault, is_ours=True) is None


def test_a_disk_that_is_full_for_a_while_needs_no_person() -> None:
    supervisor = Supervisor()
    supervisor.delivered()
    full = file_fault(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "state/progress.json"), Path("state"))
    verdicts = [supervisor.failed(7, full, is_ours=True) for _ in range(FAILURES)]
    assert [type(verdict) for verdict in verdicts] == [Again] * (FAILURES - 1) + [GiveUp]
    assert full.message == "state/progress.json cannot be read or written: No space left on device"


def test_a_fault_that_is_due_to_a_query_is_not_repeated() -> None:
    fault = lost()
    fault.culprits = (("q", 1),)
    assert Supervisor().failed(7, fault, is_ours=False) is None


def test_a_sink_that_never_was_reached_is_told_at_once_and_one_that_was_is_tried_again() -> None:
    supervisor = Supervisor()
    assert supervisor.failed(0, SinkFault("no broker answers"), is_ours=True) is None
    supervisor.delivered()
    assert isinstance(supervisor.failed(1, SinkFault("no broker answers"), is_ours=True), Again)


def test_nothing_is_started_again_if_somebody_else_does_that() -> None:
    assert Supervisor(restarts=False).failed(7, lost(), is_ours=False) is None
