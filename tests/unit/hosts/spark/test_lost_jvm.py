"""A deployment whose JVM has died, such as by the kernel for lack of memory, says so instead of failing somewhere."""

from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from headrace.driver.pause import is_paused
from headrace.errors import HostFault
from headrace.hosts.spark.faults import batch_fault
from headrace.hosts.spark.host import SparkDeployment


class QueryWithoutJvm:
    """A streaming query as PySpark has it, when no JVM answers."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def awaitTermination(self) -> None:
        raise self.error

    @property
    def isActive(self) -> bool:
        raise self.error

    def stop(self) -> None:
        raise self.error


ERRORS = [
    Py4JNetworkError("An error occurred while trying to connect to the Java server"),
    Py4JError("An error occurred while calling o82.isActive"),
    ConnectionRefusedError(111, "Connection refused"),
]


class Writer:
    """A writer whose streams cannot be started again."""

    def start(self) -> None:
        raise AssertionError("nothing can start without a JVM")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_lost_jvm_is_one_fault_with_advice_and_the_deployment_can_be_closed(tmp_path: Path, error: Exception) -> None:
    deployment = SparkDeployment(tmp_path)
    query: Any = QueryWithoutJvm(error)
    deployment.query = query
    deployment._watch(cast(Any, Writer()), query)
    with pytest.raises(HostFault, match="JVM has ended") as raised:
        deployment.wait(1.0)
    assert "start again to continue" in str(raised.value.hint)
    assert deployment.failure() is raised.value
    deployment.stop()
    assert not is_paused(tmp_path)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_jvm_that_is_lost_while_the_deployment_stops_is_told(tmp_path: Path, error: Exception) -> None:
    deployment = SparkDeployment(tmp_path)
    query: Any = QueryWithoutJvm(error)
    deployment.query = query
    with pytest.raises(HostFault, match="JVM has ended"):
        deployment.stop()
    assert not is_paused(tmp_path)


class StoppedContext(Py4JJavaError):  # type: ignore[misc]
    """What Spark raises once a signal has ended it."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        return "An error occurred while calling o246.stop.\n: Cannot call methods on a stopped SparkContext."


def test_a_spark_that_a_signal_ended_is_no_fault_of_headrace(tmp_path: Path) -> None:
    deployment = SparkDeployment(tmp_path)
    query: Any = QueryWithoutJvm(StoppedContext())
    deployment.query = query
    with pytest.raises(HostFault, match="Spark was stopped, and not by Headrace") as raised:
        deployment.stop()
    assert "is repeated" in str(raised.value.hint)
    assert not is_paused(tmp_path)


def test_a_micro_batch_that_ended_with_spark_asks_for_no_repair(tmp_path: Path) -> None:
    text = "=== Streaming Query ===\nJob 12 cancelled because SparkContext was shut down"
    fault = batch_fault(Exception(text), tmp_path)
    assert "Spark was stopped" in str(fault)
    assert "repair" not in str(fault.hint)
