"""Makes the deployment of a session: on Spark, in this process, or what the caller makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.hosts.host import Deployment
from headrace.hosts.local import LocalDeployment
from headrace.hosts.spark.starting.launch import Launch
from headrace.storage.location import HDFS, ObjectPath

#: Seconds between the starts of micro-batches, at least; Spark alone makes dozens of requests of a store for each.
INTERVAL, HDFS_INTERVAL, STORE_INTERVAL = 0.05, 0.5, 2.0


def interval_for(checkpoint: Path) -> float:
    """Return the seconds between the starts of micro-batches that suit the place of a checkpoint."""
    if not isinstance(checkpoint, ObjectPath):
        return INTERVAL
    return HDFS_INTERVAL if checkpoint.scheme == HDFS else STORE_INTERVAL


def make_deployment(
    host: str | Callable[[Path], Deployment],
    directory: Path,
    buckets: int | None,
    limit: int,
    page: int,
    interval: float,
    *,
    is_temporary: bool,
    launch: Launch,
    restart: bool,
    live: bool,
) -> Deployment:
    """Return the deployment of a directory on a host; the options mean what those of `Session` do."""
    if callable(host):
        return host(directory)
    if host == "local":
        return LocalDeployment(directory, buckets=buckets, limit=limit, page=page, live=live)
    from headrace.hosts.spark.host import SparkDeployment  # here, so that all else works without Java and Spark

    return SparkDeployment(
        directory,
        buckets=buckets,
        limit=limit,
        page=page,
        interval=interval,
        is_temporary=is_temporary,
        launch=launch,
        restart=restart,
    )
