"""FILES as a sink: one file for each micro-batch that has results, never seen half-written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.files.folders import by_folder, check_folders, folder_columns
from headrace.connectors.files.retention import Retention, keep_of
from headrace.connectors.formats.json_lines import json_lines, without_nesting
from headrace.connectors.formats.parquet_writing import Codec, write_parquet
from headrace.connectors.options import check_names, duration, near, require
from headrace.errors import NameFault, SinkFault, TypeFault
from headrace.model.page import Page
from headrace.model.qos import parse_size
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.model.types import DataType, Type
from headrace.storage import files
from headrace.storage.location import ObjectPath, absolute, location
from headrace.storage.storage import OBJECTS

FORMATS = ("parquet", "csv", "json")
OPTIONS = ("path", "format", "compression", "roll_bytes", "roll_interval", "partition_by", "keep")
#: The codecs of Parquet. The lowest level of zstd takes two thirds of the time of the usual one, for files as small.
CODECS: dict[str, tuple[Codec, int | None]] = {
    "zstd": ("zstd", 1),
    "snappy": ("snappy", None),
    "lz4": ("lz4", None),
    "none": ("uncompressed", None),
}
#: Results wait until there are enough for a file if one of these is given.
_ROLLING = ("roll_bytes", "roll_interval", "partition_by")
_STAGING = "_staging"
#: In a store, orphans are looked for after so many micro-batches.
_SWEPT_AFTER = 16
#: The name under which a task stages results begins with its micro-batch.
_STAGED = re.compile(r"b(\d+)-", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go and how they are written."""

    directory: Path
    format: str
    is_rolling: bool  # whether results of several micro-batches make one file
    codec: str = "zstd"


@dataclass(frozen=True, slots=True)
class Roll:
    """When what waits becomes a file: at so many bytes, or after so many seconds."""

    size: float
    seconds: float


def target(connector: Connector) -> Target:
    """Read and check the options of a FILES sink."""
    check_names(connector, OPTIONS)
    path = absolute(location(str(require(connector, "path", "'out/results'"))))
    form = str(connector.options.get("format", "parquet"))
    if form not in FORMATS:
        raise NameFault(f"FILES cannot write format {form!r}", hint=near(form, FORMATS))
    codec = str(connector.options.get("compression", "zstd")).lower()
    if "compression" in connector.options and form != "parquet":
        raise NameFault(f"FILES: format {form!r} has no compression", hint="leave it out, or write format 'parquet'")
    if codec not in CODECS:
        raise NameFault(f"FILES cannot compress by {codec!r}", hint=near(codec, CODECS))
    roll_of(connector)
    keep_of(connector)
    is_rolling = not connector.options.keys().isdisjoint(_ROLLING)
    return Target(path, form, is_rolling, codec)


def roll_of(connector: Connector) -> Roll:
    """Read when the results that wait become a file; either option alone has a default for the other."""
    value = connector.options.get("roll_bytes", "128 MB")
    try:
        size = float(value) if isinstance(value, int | float) else parse_size(str(value))
    except ValueError as error:
        raise TypeFault(f"option 'roll_bytes': {error}") from None
    if size < 1:
        raise TypeFault(f"option 'roll_bytes' is {value!r}", hint="write a size such as '64 MB'")
    return Roll(size, duration(connector.options, "roll_interval", "1 minute") / SECOND)


def check_files_sink(connector: Connector, schema: Schema) -> None:
    """Refuse wrong options and directories that cannot be made or written; touches nothing."""
    there = target(connector).directory
    check_folders(connector, schema)
    if isinstance(there, ObjectPath):
        try:
            files.names(there)
        except OSError as error:
            raise SinkFault(
                f"{there} cannot be reached: {error.strerror}", hint="correct the option path, or the credentials"
            ) from error
        return
    try:
        while not there.exists():
            there = there.parent
    except OSError as error:
        raise SinkFault(f"{there} cannot be made: {error.strerror}", hint="choose another path") from error
    if not there.is_dir():
        raise SinkFault(f"{there} is a file, not a directory", hint="choose another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise SinkFault(
            f"no permission to write in {there}", hint="choose another path, or give this user the right to write there"
        )


class FilesSink:
    """Writes `part-<batch>.<format>` files, replacing what an earlier try left."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        check_files_sink(connector, schema)
        self._target = target(connector)
        self._schema = schema
        self._folders = folder_columns(connector)
        self._newest: int | None = None  # batch that was begun; a later one is written for the first time
        self._may_have_orphans = False  # staged by attempts of tasks that were lost
        self._next_sweep = 0  # batch from which on they are looked for
        self._is_local = not isinstance(self._target.directory, ObjectPath)
        keep = keep_of(connector)
        self.retention = None if keep is None else Retention(keep, self._target.directory)
        if not self._is_local:
            return
        try:
            self._target.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkFault(
                f"{self._target.directory} cannot be made: {error.strerror}", hint="choose another path"
            ) from error

    def stage(self, page: Page, name: str) -> str:
        """Write results from a task, out of sight; hand the returned name to `write` on the driver."""
        staging = self._target.directory / _STAGING
        try:
            self._put(staging / f"{name}.{self._target.format}", page.visible())
        except OSError as error:
            raise self._fault(error) from error
        return name

    def write(self, batch: int, pages: Sequence[Page], staged: Sequence[str] = ()) -> None:
        """Write the pages of a batch into one file and adopt its staged files."""
        stem, form, directory = f"part-{batch:012d}", self._target.format, self._target.directory
        may_be_repeated = self._newest is None or batch <= self._newest
        self._newest = batch
        try:
            frames = [page.visible() for page in pages if len(page)]
            if frames:
                self._check_present()
                self._put(directory / f"{stem}.{form}", pl.concat(frames))
            elif may_be_repeated:
                files.remove(directory / f"{stem}.{form}")
            parts = [directory / f"{stem}-{number:05d}.{form}" for number in range(len(staged))]
            self._adopt([directory / _STAGING / f"{name}.{form}" for name in staged], parts)
            if may_be_repeated:
                # an earlier try may have left more parts, with gaps if it died here
                stale = [name for name in files.names(directory) if _is_part(name, stem, len(staged))]
                files.remove(*(directory / name for name in stale))
            self._remove_orphans(batch, is_staging=bool(staged))
            self.expire()
        except OSError as error:
            raise self._fault(error) from error

    def put(self, stem: str, rows: pl.DataFrame) -> None:
        """Write rows into one file, or one in each folder."""
        self._check_present()
        for folder, part in by_folder(rows, self._folders):
            self._put(self._target.directory / folder / f"{stem}.{self._target.format}", part)

    def expire(self) -> None:
        """Delete files that are kept no longer."""
        if self.retention is not None:
            self.retention.expire(self._written_folders())

    def sweep(self) -> int:
        """Delete what tasks staged and nobody adopted, and files that were being written, while no task runs."""
        staging = self._target.directory / _STAGING
        hidden = sum(
            files.sweep(directory) for directory in (self._target.directory, staging, *self._written_folders())
        )
        staged = [staging / name for name in files.names(staging)]
        files.remove(*staged, durable=False)
        return hidden + len(staged)

    def close(self) -> None:
        """Remove the empty staging directory; what a failed batch staged stays until the next start."""
        files.remove_empty(self._target.directory / _STAGING)

    def _check_present(self) -> None:
        """Raise an OSError if the directory went away, such as one on a disk that was unmounted."""
        if self._is_local:
            self._target.directory.stat()

    def _written_folders(self) -> Iterable[Path]:
        """Return the folders of the sink that may hold files that were being written; object stores have none."""
        if not self._folders or not self._is_local:
            return ()
        return self._target.directory.glob("*=*/" + "*=*/" * (len(self._folders) - 1))

    def _adopt(self, sources: Sequence[Path], destinations: Sequence[Path]) -> None:
        """Give staged files their final names; those that have them already were renamed before the driver died."""
        moves = list(zip(sources, destinations, strict=True))
        move = files.move if self._is_local else OBJECTS.adopt  # the next sweep deletes old names
        try:
            move(moves)
        except FileNotFoundError:
            move([(source, destination) for source, destination in moves if _is_staged(source, destination)])

    def _remove_orphans(self, batch: int, *, is_staging: bool) -> None:
        """Delete what attempts of tasks staged that were lost; in a store, whose requests cost, not each time.

        There it also deletes what has been copied to its final name.
        """
        if (is_staging or self._may_have_orphans) and batch >= self._next_sweep:
            staging = self._target.directory / _STAGING
            orphans = [name for name in files.names(staging) if is_orphan(name, batch)]
            files.remove(*(staging / name for name in orphans), durable=False)
            self._next_sweep = batch if self._is_local else batch + _SWEPT_AFTER
            self._may_have_orphans = False
        self._may_have_orphans |= is_staging

    def _put(self, path: Path, rows: pl.DataFrame) -> None:
        names = [name for name in self._schema.names if name in rows.columns]
        files.replace_encoded(path, lambda file: self._encode(rows.select(names), file), shared=True)

    def _encode(self, rows: pl.DataFrame, file: BinaryIO) -> None:
        if self._target.format == "parquet":
            write_parquet(rows, file, *CODECS[self._target.codec])
            return
        rows = rows.with_columns(
            [
                column
                for field in self._schema
                if field.name in rows.columns
                and (column := as_text(field.name, field.type, self._target.format)) is not None
            ]
        )
        if self._target.format == "csv":
            without_nesting(rows).write_csv(file)
        else:
            file.write(json_lines(rows))

    def _fault(self, error: OSError) -> SinkFault:
        return SinkFault(
            f"results cannot be written to {self._target.directory}: {error.strerror}",
            hint="free space or give the right to write; then start again",
        )


def _is_staged(source: Path, destination: Path) -> bool:
    """Return whether a staged file has not got its final name yet."""
    if files.exists(source):
        return True
    if not files.exists(destination):
        raise SinkFault(
            f"the staged file {source} was deleted",
            hint="do not delete files in the _staging directory while queries run",
        )
    return False


def _is_part(name: str, stem: str, first: int) -> bool:
    """Return whether a file is a part of a batch with at least this number, and not one of several batches."""
    number = name.removeprefix(f"{stem}-").split(".")[0]
    return name.startswith(f"{stem}-") and number.isdigit() and len(number) < 12 and int(number) >= first


def is_orphan(name: str, batch: int) -> bool:
    """Return whether what a task staged under a name belongs to a micro-batch before `batch`, so nobody adopts it."""
    match = _STAGED.match(name)
    return match is not None and int(match[1]) < batch


def staged_in(directory: str) -> list[Path]:
    """Return the files that tasks staged in the directory of a sink."""
    staging = location(directory) / _STAGING
    return [staging / name for name in files.names(staging)]


def as_text(name: str, type_: DataType, form: str) -> pl.Expr | None:
    """Convert a column to a type that the format has and that the FILES source reads back."""
    if type_ is Type.TIMESTAMP:
        return pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.6f")
    if type_ is Type.INTERVAL:
        return pl.col(name).dt.total_microseconds()
    if type_ is Type.BINARY:
        return pl.col(name).bin.encode("base64")
    if type_ is Type.DATE and form == "json":
        return pl.col(name).dt.strftime("%Y-%m-%d")
    return None
