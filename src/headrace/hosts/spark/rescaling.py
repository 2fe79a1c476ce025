"""Changes the number of Spark partitions into which the buckets of a stopped checkpoint are divided.

Spark fixes the number when a checkpoint is made, and keeps it whatever the settings of a later start are. Its offline
repartitioning writes the state again for another number, as a micro-batch that reads nothing. If the process dies in
between, that micro-batch is in Spark's log and not committed, and the next start completes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.driver.bucket_numbers import bucket_numbers
from headrace.errors import HostFault
from headrace.hosts.host import Rescaled
from headrace.hosts.spark.essence import essence
from headrace.hosts.spark.logs import mend
from headrace.hosts.spark.offset_log import partitions_at, read_logs, unfinished_rescaling
from headrace.hosts.spark.sizing import partitions_for
from headrace.storage import files

#: The attribute of a session that changes the number of partitions; not a public interface of PySpark.
_MANAGER = "_streamingCheckpointManager"


def rescale(directory: Path, cores: int, spark: SparkSession) -> Rescaled:
    """Divide the buckets of a checkpoint that nobody uses into as many partitions as so many cores can use."""
    logs = directory / "spark"
    complete_rescaling(directory, spark)
    mend(logs)
    planned, committed = read_logs(logs).planned, read_logs(logs).committed
    if planned is None or committed is None:
        raise HostFault(
            f"the checkpoint {directory} has no state yet", hint="its first run divides it by the cores that it finds"
        )
    if planned != committed:
        raise HostFault(
            f"micro-batch {planned} of the checkpoint {directory} is not complete",
            hint="run it again, stop it with Ctrl-C, which completes the micro-batch, and then rescale it",
        )
    log = CommandLog(directory / "commands")
    running = log.running(log.count(), Running())
    count = len(running.in_use(bucket_numbers(directory, lambda: _lost_buckets(directory))))
    before, after = partitions_at(logs, planned), partitions_for(count, cores)
    if before != after:
        _repartition(spark, logs, after)
    return Rescaled(count, before, after)


def redivide(directory: Path, partitions: int, spark: SparkSession) -> bool:
    """Divide the buckets into so many partitions before a start; return False if its last micro-batch must be first."""
    logs = read_logs(directory / "spark")
    if logs.planned is None or logs.planned != logs.committed or not _can_repartition(spark):
        return False
    _repartition(spark, directory / "spark", partitions)
    return True


def complete_rescaling(directory: Path, spark: SparkSession) -> None:
    """Complete a change of the number of partitions in the middle of which a process died."""
    mend(directory / "spark")
    partitions = unfinished_rescaling(directory / "spark")
    if partitions is not None:
        _repartition(spark, directory / "spark", partitions)


def _repartition(spark: SparkSession, logs: Path, partitions: int) -> None:
    manager: Any = getattr(spark, _MANAGER, None)
    if manager is None:
        raise HostFault(
            f"Spark {pyspark.__version__} cannot change the number of partitions of a checkpoint",
            hint="use Spark 4.3, or go on with the number that the checkpoint has",
        )
    try:
        manager.repartition(str(logs), partitions)
    except Exception as error:
        raise HostFault(
            f"the state cannot be divided into {partitions} partitions: {essence(str(error))}",
            hint="run the same command again: it continues; the state as it was before is not lost",
        ) from error
    files.force(logs)


def _can_repartition(spark: SparkSession) -> bool:
    return getattr(spark, _MANAGER, None) is not None


def _lost_buckets(directory: Path) -> list[int]:
    raise HostFault(
        f"{directory / 'buckets.json'} is missing", hint="restore the checkpoint from a copy, or start with a new one"
    )
