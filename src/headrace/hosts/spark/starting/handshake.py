"""The handshake with a cluster: before the first query, one task on each executor says what is there.

The task must work where nothing of ours is installed, so it is sent by value and imports only the standard library
before it asks for more. It reads a random word that the driver has put into the checkpoint: an executor that cannot
read it would find no commands, and no state either.
"""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from headrace.errors import HostFault
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.starting.executors import registered
from headrace.hosts.spark.starting.jvm import with_log
from headrace.storage import files
from headrace.storage.location import HDFS, ObjectPath
from headrace.storage.object_settings import configured

#: Packages that must have the same version everywhere: their data passes from one process to the other.
PACKAGES = ("pyspark", "polars", "msgspec", "pyarrow", "sqlglot")
#: A difference between clocks that is told; it changes no result.
CLOCK_SECONDS = 5.0
#: Free space for shuffled tuples and cached state below which an executor is told.
DISK_BYTES = 256 << 20
_FILE = "handshake"
_ROUNDS = 3  # of tasks, at most


@dataclass(frozen=True, slots=True)
class Executor:
    """What a task found on the machine of an executor; empty texts for what is not there."""

    host: str
    process: str  # tells it from others of the same host
    python: str
    executable: str
    word: str  # from the checkpoint
    headrace: str  # the version
    import_error: str  # why our package cannot be imported
    packages: Mapping[str, str]  # versions by name
    free_bytes: int
    clock: float


def shake_hands(context: SparkContext, directory: Path, tasks: int, *, is_temporary: bool) -> list[str]:
    """Let one task on each executor look around; return warnings. HostFault if queries could not run there.

    Spark chooses where a task runs. If an executor got none, because it was busy or has just come, all are asked again.
    """
    word = secrets.token_hex(16)
    files.replace(directory / _FILE, word.encode(), durable=False)
    began = time.time()
    look = _probe(str(directory / _FILE), configured())
    executors: list[Executor] = []
    try:
        for _ in range(_ROUNDS):
            answers = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
            executors = distinct([*executors, *(Executor(**answer) for answer in answers)])
            for executor in executors:
                check_executor(executor, word, directory, is_temporary=is_temporary)
            if len(executors) >= (registered(context) or 0):
                break
    except HostFault:
        raise
    except Exception as error:
        raise job_fault(essence(_text_of(error))) from error
    finally:
        files.remove(directory / _FILE, durable=False)
    warnings = [warning for executor in executors for warning in warnings_about(executor, began, time.time())]
    if (silent := (registered(context) or 0) - len(executors)) > 0:
        warnings.append(f"{silent} of {silent + len(executors)} executors had no time to be looked at")
    return warnings


def distinct(executors: Iterable[Executor]) -> list[Executor]:
    """Return what is known of each executor; a host may have several, and one may have run several tasks."""
    return list({(executor.host, executor.process): executor for executor in executors}.values())


def check_executor(executor: Executor, word: str, directory: Path, *, is_temporary: bool = False) -> None:
    """Raise a HostFault that says what an executor lacks."""
    if executor.import_error:
        raise HostFault(
            f"Headrace cannot be imported on {executor.host} by {executor.executable}: {executor.import_error}",
            hint="install headrace there, or send it along: headrace submit",
        )
    own_version = _version("headrace")
    if executor.headrace != own_version:
        raise HostFault(
            f"{executor.host} has Headrace {executor.headrace}, and the driver has {own_version}",
            hint="install the same version everywhere",
        )
    for name, version in own_versions().items():
        if executor.packages.get(name, version) != version:
            raise HostFault(
                f"{executor.host} has {name} {executor.packages[name] or 'not at all'}, and the driver has {version}",
                hint="install the same version everywhere",
            )
    if executor.word != word:
        if is_temporary:
            hint = "without --checkpoint, state is in a folder of this machine; give one that all machines share"
        else:
            hint = "put the checkpoint into a folder that all machines share under the same name"
        if isinstance(directory, ObjectPath):
            hint = "look whether the machine has the package obstore, and credentials for the store"
            if directory.scheme == HDFS:
                hint = "look whether the machine reaches the name node and the data nodes over HTTP (WebHDFS)"
        raise HostFault(f"{executor.host} does not see the checkpoint {directory}", hint=hint)


def warnings_about(executor: Executor, began: float, ended: float) -> Iterator[str]:
    """Yield what is unusual about an executor but harms no result."""
    if executor.free_bytes < DISK_BYTES:
        yield f"{executor.host} has only {executor.free_bytes >> 20} MB of free disk"
    ahead = max(executor.clock - ended, began - executor.clock)
    if ahead > CLOCK_SECONDS:
        yield f"the clock of {executor.host} differs by {ahead:.0f} s from the driver's"


def job_fault(reason: str) -> HostFault:
    """Return the fault for a task that could not even look around."""
    if "Cannot run program" in reason:
        hint = "set PYSPARK_PYTHON to the path of Python on the executors"
    elif "PYTHON_VERSION_MISMATCH" in reason or "different version" in reason:
        hint = "set PYSPARK_PYTHON to the same version of Python on the executors as here " + platform.python_version()
    elif "No module named" in reason:
        hint = "the Python of the executors needs PySpark and Headrace: install them, or use headrace submit"
    else:
        hint = "look at the log of the executors"
    return HostFault(f"the executors cannot run Python tasks: {reason}", hint=with_log(hint))


def own_versions() -> dict[str, str]:
    """Return the versions of the packages that must be equal everywhere, as the driver has them."""
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    return str(importlib.import_module(package).__version__)


def _text_of(error: Exception) -> str:
    java: Any = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.toString())


def _probe(
    file: str, storage: Mapping[str, str], packages: Sequence[str] = PACKAGES
) -> Callable[[Iterable[int]], Iterable[dict[str, Any]]]:
    """Return the task: a function inside a function is sent by value, as the executor may not have this module."""

    def look(_: Iterable[int]) -> Iterator[dict[str, Any]]:
        import importlib
        import os
        import platform
        import shutil
        import socket
        import sys
        import time

        folder = os.environ.get("SPARK_LOCAL_DIRS", os.environ.get("LOCAL_DIRS", ".")).split(",")[0]
        try:
            if "://" in file:
                importlib.import_module("headrace.storage.object_settings").configure(storage)
                place = importlib.import_module("headrace.storage.location").location(file)
                word = importlib.import_module("headrace.storage.files").read(place).decode()
            else:
                with open(file) as stream:
                    word = stream.read()
        except Exception:
            word = ""
        versions = {}
        for name in packages:
            try:
                versions[name] = str(importlib.import_module(name).__version__)
            except Exception:
                versions[name] = ""
        version, failure = "", ""
        try:
            version = str(importlib.import_module("headrace").__version__)
            importlib.import_module("headrace.hosts.spark.processor")
            importlib.import_module("headrace.worker.bucket")
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        yield {
            "host": socket.gethostname(),
            "process": f"{os.getppid()} in {os.getcwd()}",  # Python workers of an executor have one parent
            "python": platform.python_version(),
            "executable": sys.executable,
            "word": word,
            "headrace": version,
            "import_error": failure,
            "packages": versions,
            "free_bytes": shutil.disk_usage(folder if os.path.isdir(folder) else ".").free,
            "clock": time.time(),
        }

    return look
