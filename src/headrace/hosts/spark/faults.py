"""What is told of a Spark that fails: of a micro-batch, of a start, of the JVM."""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError

from headrace.errors import HostFault, SourceFault
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.starting.jvm import with_log
from headrace.hosts.spark.telling import culprits_in

#: What a call to the JVM raises if it is gone; an error that Spark itself raises is a Py4JJavaError.
JVM_LOST = (Py4JError, ConnectionError)
#: What Spark says of a context that was stopped by somebody else, such as by a signal to the JVM.
_ENDED = ("stopped SparkContext", "SparkContext was shut down")


def batch_fault(error: Exception, directory: Path) -> HostFault:
    """Return the fault for a micro-batch that Spark gave up, with the queries that it is due to."""
    if _is_of_end(error):
        return _ended(error)
    culprits, what = culprits_in(str(error)), essence(str(error))
    again, repair = "a new session on the same checkpoint tries it again", f"headrace repair --checkpoint {directory}"
    if what.startswith(f"{SourceFault.__name__}: ") and not culprits:
        hint = f"{again}; a file that cannot be read is left out by {repair} --skip-file FILE"
    else:
        dropped = " ".join(f"--drop {name}" for name, _ in culprits) or "--drop QUERY"
        hint = f"{again}; if a query always fails, remove it with {repair} {dropped}"
    fault = HostFault(what.partition(": ")[2] if culprits else f"a micro-batch failed: {what}", hint=with_log(hint))
    fault.culprits, fault.__cause__ = culprits, error
    return fault


def no_start(error: Exception) -> HostFault:
    """Return the fault for queries that Spark could not start again."""
    fault = HostFault(
        f"the queries cannot be started again: {essence(str(error))}",
        hint=with_log("a new session on the same checkpoint goes on where this one was"),
    )
    fault.__cause__ = error
    return fault


def lost_jvm(error: Exception) -> HostFault:
    """Return the fault for a JVM that does not answer; one of Spark's own errors is passed on."""
    if _is_of_end(error):
        return _ended(error)
    if isinstance(error, Py4JJavaError):
        raise error
    fault = HostFault(
        "Spark's JVM has ended, or does not answer",
        hint=with_log(
            "start again to continue from the checkpoint; if it ends again, look whether the machine has enough memory"
        ),
    )
    fault.__cause__ = error
    return fault


def _is_of_end(error: Exception) -> bool:
    return any(text in str(error) for text in _ENDED)


def _ended(error: Exception) -> HostFault:
    fault = HostFault(
        "Spark was stopped, and not by Headrace",
        hint=with_log("start again to continue from the checkpoint: the micro-batch that was running is repeated"),
    )
    fault.__cause__ = error
    return fault
