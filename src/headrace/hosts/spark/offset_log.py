"""Spark's logs of micro-batches, read without Spark: offsets say what a micro-batch reads, commits that it is done."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.driver.offset import START, Offset
from headrace.errors import HostFault
from headrace.hosts.spark.starting.settings import PARTITIONS
from headrace.storage import files


class SparkLogs(Struct, frozen=True):
    """The last micro-batch that Spark has planned, and the last that is committed; None: none yet."""

    planned: int | None
    committed: int | None


class _Settings(Struct, frozen=True):
    """The second line of an entry of the offset log."""

    conf: dict[str, str]


def read_logs(directory: Path) -> SparkLogs:
    """Return how far Spark is, by the files in the `spark` folder of a checkpoint."""
    newest = [
        max((int(name) for name in files.names(directory / log) if name.isdigit()), default=None)
        for log in ("offsets", "commits")
    ]
    return SparkLogs(*newest)


def read_partitions(directory: Path) -> int | None:
    """Return the number of shuffle partitions that Spark keeps with the last micro-batch; None before the first one.

    It goes on with this number, whatever the settings of a later session say.
    """
    planned = read_logs(directory).planned
    return None if planned is None else partitions_at(directory, planned)


def read_offset(directory: Path, batch: int) -> Offset:
    """Return the end of a micro-batch; before the first one, the beginning."""
    if batch < 0:
        return START
    _, offset = _entry(directory, batch)
    try:
        return msgspec.json.decode(offset, type=Offset)
    except ValueError as error:  # DecodeError is one
        raise _damaged(directory, batch, error) from error


def partitions_at(directory: Path, batch: int) -> int:
    """Return into how many partitions Spark divides the buckets in a micro-batch."""
    settings, _ = _entry(directory, batch)
    try:
        return int(msgspec.json.decode(settings, type=_Settings).conf[PARTITIONS])
    except (ValueError, KeyError) as error:  # DecodeError is a ValueError
        raise _damaged(directory, batch, error) from error


def unfinished_rescaling(directory: Path) -> int | None:
    """Return the number of partitions to which a change was begun and not completed; None if there is none.

    Spark writes it down as a micro-batch that reads nothing and has another number of partitions than the one before.
    """
    logs = read_logs(directory)
    if logs.planned is None or logs.committed is None or logs.planned == logs.committed:
        return None
    after = partitions_at(directory, logs.planned)
    return after if after != partitions_at(directory, logs.planned - 1) else None


def _entry(directory: Path, batch: int) -> tuple[bytes, bytes]:
    """Return the settings and the offset of a micro-batch, as JSON."""
    path = directory / "offsets" / str(batch)
    data = files.read_if_exists(path)
    if data is None:
        raise HostFault(f"{path} is missing", hint="restore the checkpoint from a copy, or start with a new one")
    version, *lines = data.split(b"\n")
    if not version.startswith(b"v") or len(lines) < 2:
        raise _damaged(directory, batch, "it has no version, or not all lines")
    return lines[0], lines[1]


def _damaged(directory: Path, batch: int, why: object) -> HostFault:
    return HostFault(
        f"{directory / 'offsets' / str(batch)} is damaged: {why}",
        hint="restore the checkpoint from a copy, or start with a new one",
    )
