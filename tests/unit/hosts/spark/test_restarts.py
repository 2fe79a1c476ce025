"""A streaming query that Spark ends is started again by its deployment, or not, whatever Spark says of the failure."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from headrace.errors import HostFault, OwnerFault
from headrace.hosts.spark import host, supervisor
from headrace.hosts.spark.host import SparkDeployment
from headrace.storage import owner
from headrace.storage.disk import LocalDisk
from headrace.storage.fence import EPOCH_FILE, is_kept, is_lost, unfenced
from headrace.storage.owner import Ownership

LOST = "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times: Lost task 0.3 in stage 5.0 (executor 1)"


class Query:
    """A streaming query that has ended, as PySpark shows it."""

    def __init__(self, failure: str | None) -> None:
        self.failure = failure

    def awaitTermination(self) -> None: ...

    @property
    def isActive(self) -> bool:
        return False

    def exception(self) -> StreamingQueryException | None:
        return None if self.failure is None else StreamingQueryException(self.failure)

    def stop(self) -> None: ...


class Writer:
    """Starts queries that end for one reason after the other."""

    def __init__(self, *failures: str | None) -> None:
        self.failures: Iterator[str | None] = iter(failures)
        self.started = 0

    def start(self) -> Query:
        self.started += 1
        failure = next(self.failures)
        if failure is not None and failure.startswith("cannot start"):
            raise Refused(failure)
        return Query(failure)


class Refused(Py4JJavaError):  # type: ignore[misc]
    """What Py4J raises if Spark cannot start a query."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.01)


def watch(directory: Path, writer: Writer, *, restart: bool = True) -> SparkDeployment:
    deployment = SparkDeployment(directory, restart=restart)
    query: Any = writer.start()
    deployment.query = query
    deployment._watch(cast(Any, writer), query)
    return deployment


def test_a_query_that_spark_gave_up_is_started_again_until_it_ends_well(tmp_path: Path) -> None:
    writer = Writer(LOST, LOST, None)
    deployment = watch(tmp_path, writer)
    assert writer.started == 3
    assert deployment.failure() is None
    told = [(decided.action, decided.reason) for decided in deployment.control.decisions.all()]
    assert [action for action, _ in told] == ["repeat micro-batch 0 after 0 s"] * 2
    assert told[1][1].startswith("it has failed twice: a micro-batch failed: ")


def test_after_five_failures_for_one_reason_it_stays_down(tmp_path: Path) -> None:
    writer = Writer(*[LOST] * 9)
    deployment = watch(tmp_path, writer)
    assert writer.started == supervisor.FAILURES
    with pytest.raises(HostFault, match="a micro-batch failed"):
        deployment.wait(1)
    assert deployment.control.decisions.all()[-1].action == "stop all queries at micro-batch 0"


def test_without_restarts_it_stays_down_at_once(tmp_path: Path) -> None:
    writer = Writer(LOST)
    deployment = watch(tmp_path, writer, restart=False)
    with pytest.raises(HostFault, match="a micro-batch failed"):
        deployment.wait(1)
    assert deployment.control.decisions.all() == []


def test_an_error_of_ours_before_anything_was_delivered_is_told_at_once(tmp_path: Path) -> None:
    writer = Writer("x\nheadrace.errors.SourceFault: no broker answers")
    with pytest.raises(HostFault, match="no broker answers"):
        watch(tmp_path, writer).wait(1)


def test_one_that_was_replaced_is_not_started_again_whatever_spark_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "lock", lambda file: True)
    ownership = Ownership(tmp_path)
    ownership.take()
    unfenced(tmp_path).replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "of another"}'))
    writer = Writer("Multiple streaming jobs detected for 7")
    deployment = watch(tmp_path, writer)
    assert writer.started == 1
    with pytest.raises(OwnerFault, match="another process has taken over"):
        deployment.wait(1)
    ownership.abandon()
    assert not (tmp_path / "decisions.jsonl").exists()


def test_a_query_that_cannot_be_started_again_at_once_is_started_later(tmp_path: Path) -> None:
    writer = Writer(LOST, "cannot start: the store does not answer", "cannot start: refused", None)
    deployment = watch(tmp_path, writer)
    assert writer.started == 4
    assert deployment.failure() is None
    assert "the queries cannot be started again" in deployment.control.decisions.all()[1].reason


def test_a_store_out_of_reach_ends_nothing_at_once_and_the_owner_is_told_once_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "lock", lambda file: True)
    ownership = Ownership(tmp_path)
    ownership.take()

    def silent(self: Any, path: Path, start: int = 0) -> bytes:
        raise OSError(errno.EIO, "the store does not answer", str(path))

    with monkeypatch.context() as outage:
        outage.setattr(LocalDisk, "read", silent)
        outage.setattr(LocalDisk, "names", silent)
        writer = Writer(*[LOST] * 9)
        deployment = watch(tmp_path, writer)
        assert writer.started == supervisor.FAILURES
        assert not is_lost(tmp_path)
        assert not is_kept(tmp_path)
    unfenced(tmp_path).replace(tmp_path / EPOCH_FILE, lambda file: file.write(b'{"token": "of another"}'))
    with pytest.raises(OwnerFault, match="another process has taken over"):
        deployment.wait(1)
    ownership.abandon()


class BusyQuery(Query):
    """A streaming query whose micro-batch takes longer than a stop waits; being stopped, it fails."""

    def __init__(self) -> None:
        super().__init__(None)
        self.status = {"isTriggerActive": True}

    @property
    def isActive(self) -> bool:
        return self.failure is None

    def stop(self) -> None:
        self.failure = "Job 3 cancelled part of cancelled job group"


def test_a_micro_batch_that_a_stop_interrupts_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "STOP_SECONDS", 0.01)
    deployment = SparkDeployment(tmp_path)
    query: Any = BusyQuery()
    deployment.query = query
    deployment._delivery_fault = HostFault("buckets 0, 2 have not reported in a micro-batch")  # a part of the rows came
    deployment.stop()
    assert query.failure is not None
    assert deployment.failure() is None
