"""Spark's logs of micro-batches, read without Spark: offsets say what a micro-batch reads, commits that it is done."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.driver.offset import START, Offset
from headrace.errors import HostFault
from headrace.storage import files


class SparkLogs(Struct, frozen=True):
    """The last micro-batch that Spark has planned, and the last that is committed; None: none yet."""

    planned: int | None
    committed: int | None


def read_logs(directory: Path) -> SparkLogs:
    """Return how far Spark is, by the files in the `spark` folder of a checkpoint."""
    newest = [
        max((int(name) for name in files.names(directory / log) if name.isdigit()), default=None)
        for log in ("offsets", "commits")
    ]
    return SparkLogs(*newest)


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
