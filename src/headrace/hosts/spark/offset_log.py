"""Spark's logs of micro-batches, read without Spark: offsets say what a micro-batch reads, commits that it is done."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from headrace.driver.offset import START, Offset
from headrace.errors import HostFault
from headrace.storage import files


class SparkLogs(Struct, frozen=True):
    """The last micro-batch that Spark has planned, and the last that is committed; None: none yet."""

    planned: int | None
    committed: int | None


class _Conf(Struct, frozen=True):
    """Settings that Spark keeps with a micro-batch."""

    partitions: int | None = field(default=None, name="spark.sql.shuffle.partitions")


class _Metadata(Struct, frozen=True):
    """The second line of an entry of the offset log."""

    conf: _Conf = _Conf()


_metadata = msgspec.json.Decoder(_Metadata, strict=False)  # the settings are texts


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
    data = None if planned is None else files.read_if_exists(directory / "offsets" / str(planned))
    try:
        return None if data is None else _metadata.decode(data.split(b"\n", 2)[1]).conf.partitions
    except (ValueError, IndexError):  # Spark refuses it, and says so
        return None


def read_offset(directory: Path, batch: int) -> Offset:
    """Return the end of a micro-batch; before the first one, the beginning."""
    if batch < 0:
        return START
    path = directory / "offsets" / str(batch)
    data = files.read_if_exists(path)
    if data is None:
        raise HostFault(f"{path} is missing", hint="restore the checkpoint from a copy, or start with a new one")
    try:
        version, _, offset = data.split(b"\n", 2)
        if not version.startswith(b"v"):
            raise ValueError("it has no version")
        return msgspec.json.decode(offset.split(b"\n")[0], type=Offset)
    except ValueError as error:  # DecodeError is one
        raise HostFault(
            f"{path} is damaged: {error}", hint="restore the checkpoint from a copy, or start with a new one"
        ) from error
