"""The settings of Spark that Headrace chooses, in three tables; docs/cluster.md shows them.

NEEDED ones must have these values: another one that the user gave is an error. The rest is chosen only where the user
has given nothing: ONE_MACHINE if all tasks run in the driver's process, ANYWHERE always.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HostFault
from headrace.hosts.spark.starting.scratch import fits_sockets

#: If this variable is set, the terminal shows tracebacks and Spark's log.
DEBUG = "HEADRACE_DEBUG"
#: The number of state partitions; without a value of the user's, as many as tasks run at once.
PARTITIONS = "spark.sql.shuffle.partitions"
#: Options of the JVM.
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: What only counts when the JVM starts.
AT_START = ("spark.driver.memory", JAVA_OPTIONS)

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: How many separate parts glibc may divide the memory of a process into.
_ARENAS_VARIABLE = "MALLOC_ARENA_MAX"
_ARENAS, _FEW_ARENAS = f"spark.executorEnv.{_ARENAS_VARIABLE}", "2"
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of Spark, and why it has this value."""

    name: str
    value: str
    reason: str

    @property
    def is_of_session(self) -> bool:
        """Return whether a session of a running Spark can have a value of its own."""
        return self.name.startswith("spark.sql.") and not self.name.startswith("spark.sql.ui.")


NEEDED = (
    Setting("spark.sql.streaming.stateStore.providerClass", _PROVIDER, "the other store has no state per key"),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "a snapshot that a power cut tore is made again from the changes",
    ),
    Setting(
        "spark.sql.streaming.noDataMicroBatches.enabled", "false", "a micro-batch is what an offset of ours describes"
    ),
)  # fmt: skip

ANYWHERE = (
    Setting("spark.sql.adaptive.enabled", "false", "Spark turns it off for stateful queries, with a warning"),
    Setting(
        "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled",
        "true",
        "a snapshot that a power cut tore is made again from the changes",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows",
        "false",
        "nobody needs the number; to count, Spark reads each value that is replaced or removed, up to 2 MB of state",
    ),
    Setting("spark.sql.streaming.minBatchesToRetain", "10", "fewer files; a restart needs the last micro-batch"),
    Setting("spark.sql.streaming.stopTimeout", "60000", "a stop waits for the running micro-batch"),
    Setting("spark.executorEnv.POLARS_MAX_THREADS", "1", "one task, one core"),
    Setting(
        _ARENAS,
        _FEW_ARENAS,
        "memory that a thread freed is used by others; glibc keeps it apart in 8 places for each core",
    ),
    Setting("spark.locality.wait", "200ms", "a machine that came back gets a bucket; with 3 s it never did"),
    Setting(
        "spark.scheduler.revive.interval",
        "100ms",
        "a bucket that has waited for its machine goes to a free one; Spark looks for one only once a second",
    ),
    Setting(
        "spark.shuffle.io.connectionCreationTimeout",
        "5s",
        "a task notices that the machine with its input is gone; with Spark's 120 s a micro-batch waited over a minute",
    ),
    Setting(
        "spark.cleaner.periodicGC.interval",
        "5min",
        "shuffle files of old micro-batches go when the driver's JVM collects garbage: after 30 minutes if it has room",
    ),
    Setting("spark.sql.ui.retainedExecutions", "50", "the JVM remembers fewer old micro-batches; 1,000 take 20 MB"),
    Setting("spark.ui.retainedStages", "100", "the same"),
    Setting("spark.ui.retainedJobs", "100", "the same"),
    Setting("spark.ui.retainedTasks", "1000", "the same"),
    Setting("spark.ui.showConsoleProgress", "false", "the terminal belongs to the results, the log to messages"),
    Setting("spark.driver.memory", "2g", "1 GB is little for a JVM that collects results"),
    Setting(_SOCKETS, "true", "a Python stage starts about 40 ms sooner than over TCP"),
    Setting(_SOCKET_FOLDER, "/tmp", "the temporary directory of a container may be too long for a socket"),
)

ONE_MACHINE = (
    Setting("spark.driver.host", "127.0.0.1", "nothing listens outside of the machine"),
    Setting("spark.driver.bindAddress", "127.0.0.1", "nothing listens outside of the machine"),
    Setting("spark.ui.enabled", "false", "it would show a single query, whatever runs inside"),
    Setting("spark.log.level", "ERROR", "warnings are about clusters"),
    Setting("spark.driver.maxResultSize", "0", "tasks share the memory of the driver anyway"),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        LOCAL_FILES,
        "on a local disk Spark's default manager forks a process for every file operation",
    ),
    Setting(
        "spark.python.daemon.module",
        "headrace.hosts.spark.daemon",
        "workers start from compiled modules and do not collect garbage after every task (10 to 20 ms)",
    ),
)


#: For the plans of our own queries alone: tuples are processed in Python, Spark passes on some rows for each task.
PLANS = (
    Setting("spark.sql.codegen.wholeStage", "false", "to write a program takes longer than some rows without one"),
    Setting("spark.sql.ui.explainMode", "simple", "Spark makes this text of every plan, and nobody reads it"),
)


def chosen_settings(given: Mapping[str, str], *, is_local: bool) -> dict[str, str]:
    """Return the settings of a new Spark in addition to those that the user gave; HostFault if these contradict."""
    check_needed(given)
    table = {setting.name: setting.value for setting in (*ANYWHERE, *(ONE_MACHINE if is_local else ()))}
    if is_local:
        table |= _sockets()
    if os.environ.get("HEADRACE_DRIVER_MEMORY"):
        table["spark.driver.memory"] = os.environ["HEADRACE_DRIVER_MEMORY"]
    if os.environ.get(_ARENAS_VARIABLE):
        table[_ARENAS] = os.environ[_ARENAS_VARIABLE]
    needed = {setting.name: setting.value for setting in NEEDED}
    return needed | {name: value for name, value in table.items() if name not in given}


def session_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session of ours in a Spark that somebody else has started with `given` settings.

    The session is ours alone, so settings of the program that it comes from are no contradiction.
    """
    ours = {setting.name: setting.value for setting in ANYWHERE if setting.is_of_session and setting.name not in given}
    return {setting.name: setting.value for setting in NEEDED} | ours


def missing_settings(given: Mapping[str, str]) -> list[Setting]:
    """Return what a Spark that somebody else has started lacks, because only its start could have set it."""
    return [
        setting
        for setting in ANYWHERE
        if not setting.is_of_session and setting.name not in AT_START and setting.name not in given
    ]


def check_needed(given: Mapping[str, str]) -> None:
    """Raise a HostFault if a setting that the user gave contradicts one that Headrace needs."""
    for setting in NEEDED:
        value = given.get(setting.name, setting.value)
        if value.strip().lower() != setting.value.lower():
            raise HostFault(
                f"the setting {setting.name} is {value}, and Headrace needs {setting.value}: {setting.reason}",
                hint=f"remove it where it was set, or start with --conf {setting.name}={setting.value}",
            )


def _sockets() -> dict[str, str]:
    """Return whether Java and Python speak through Unix sockets, and where these are."""
    for directory in (tempfile.gettempdir(), "/tmp"):
        if fits_sockets(directory) and os.access(directory, os.W_OK):
            return {_SOCKETS: "true", _SOCKET_FOLDER: directory}
    return {_SOCKETS: "false"}


def process_environment(given: Mapping[str, str], *, is_local: bool) -> None:
    """Let Spark's processes use an interpreter that has this package, and the JVM of the driver few arenas of memory.

    On one machine it is this one. On a cluster it is the one that the user chose, or else the same path as here.
    """
    os.environ.setdefault(_ARENAS_VARIABLE, given.get(_ARENAS, _FEW_ARENAS))
    if is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    elif "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = given.get("spark.pyspark.python", sys.executable)
    package = str(Path(__file__).resolve().parents[4])
    path = os.environ.get("PYTHONPATH", "")
    if package not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, path)))
