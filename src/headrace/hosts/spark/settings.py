"""Spark settings that make small micro-batches cheap; each line is a measured gain (docs/decisions)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

#: If this variable is set, the terminal shows tracebacks and Spark's log.
DEBUG = "HEADRACE_DEBUG"

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: The longest path of a Unix socket (macOS; Linux allows 107 bytes), and what Spark adds to the directory.
_LONGEST_SOCKET, _SOCKET_NAME = 103, len("/.01234567-89ab-cdef-0123-456789abcdef.sock")


def settings(cores: int) -> dict[str, str]:
    """Return the configuration of a Spark session on one machine with `cores` cores."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # on a local disk Spark's default manager forks a process for every file operation
        "spark.sql.streaming.checkpointFileManagerClass": _FILES,
        # a snapshot that a power cut tore is made again from the changes
        "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stopTimeout": "60000",
        **_sockets(),
        "spark.python.daemon.module": "headrace.hosts.spark.daemon",
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": os.environ.get("HEADRACE_DRIVER_MEMORY", "2g"),
        "spark.driver.maxResultSize": "0",
        "spark.log.level": "ERROR",
    }


def _sockets() -> dict[str, str]:
    """Return whether Java and Python speak through Unix sockets, and where these are; their paths must be short."""
    for directory in (tempfile.gettempdir(), "/tmp"):
        if len(directory) + _SOCKET_NAME <= _LONGEST_SOCKET and os.access(directory, os.W_OK):
            return {
                "spark.python.unix.domain.socket.enabled": "true",
                "spark.python.unix.domain.socket.dir": directory,
            }
    return {"spark.python.unix.domain.socket.enabled": "false"}


def python_environment() -> None:
    """Make Spark's workers use this interpreter and find this package."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    package = str(Path(__file__).resolve().parents[3])
    path = os.environ.get("PYTHONPATH", "")
    if package not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, path)))
