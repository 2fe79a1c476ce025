"""Random damage to everything that is read as bytes: files of users, and the files and rows of a checkpoint.

Reading gives a value, or one of our errors; nothing else may happen. What has a checksum gives the value that was
written, or an error.
"""

from __future__ import annotations

import io
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import polars as pl

from headrace.catalog.definitions import Connector, Query, Stream, Timing
from headrace.catalog.journal import Entry, Journal
from headrace.commands.command import AddQuery, Command, DropQuery, encode_commands
from headrace.commands.log import CommandLog
from headrace.commands.repairs import Repair, add_repairs, read_repairs
from headrace.commands.running import Running
from headrace.connectors.files.source import FilesSource
from headrace.connectors.files.tables import infer_schema
from headrace.connectors.formats import text
from headrace.connectors.kafka.client import Records
from headrace.connectors.kafka.records import Arrow, Reading
from headrace.connectors.spool import stream_spool
from headrace.driver.bucket_numbers import bucket_numbers
from headrace.driver.offset import Offset, StreamAt
from headrace.driver.progress import Progress, read_progress, write_progress
from headrace.engine.remembered import Remembered
from headrace.errors import HeadraceError, InternalError
from headrace.graph.graph import Graph
from headrace.hosts.local import LocalDeployment, MemoryStore, Saved
from headrace.hosts.spark.offset_log import read_offset
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import Type
from headrace.storage import sealed
from headrace.storage.fence import EPOCH_FILE
from headrace.storage.owner import Ownership, epoch_of
from headrace.worker.chunk_cache import encode_chunk
from headrace.worker.lane_times import LaneTimes
from headrace.worker.moving import Given, Moves, decode_given
from headrace.worker.saved_state import Extra, SavedState
from headrace.worker.task_times import TaskTimes, leave_times, with_times
from headrace.worker.wire import BucketNote, Control, Report, TaskCounts, decode_control, decode_report, encode

#: Reading takes longer than this (seconds) only if it never ends.
_PATIENCE = 20.0
_SCHEMA = Schema(
    (
        Field("at", Type.TIMESTAMP),
        Field("k", Type.INT),
        Field("v", Type.DOUBLE),
        Field("name", Type.STRING),
        Field("flag", Type.BOOLEAN),
        Field("raw", Type.BINARY),
        Field("day", Type.DATE),
    )
)
_ROWS = pl.DataFrame(
    {
        "at": [f"2026-01-01T00:00:{second:02d}" for second in range(12)],
        "k": [*range(11), None],
        "v": [0.5 * number for number in range(12)],
        "name": ["a", "ü", "", None, 'with "quotes"', "x, y", "é" * 9, "b", "c", "d", "line", "z"],
        "flag": [True, False, None] * 4,
        "raw": ["AAEC", None, ""] * 4,
        "day": ["2026-01-01"] * 12,
    }
)
_TYPED = _ROWS.with_columns(
    pl.col("at").str.to_datetime(time_unit="us"), pl.col("raw").str.decode("base64"), pl.col("day").str.to_date()
)


@dataclass(frozen=True, slots=True)
class Target:
    """Bytes, and how they are read. `is_value` says whether a value may come out, if the bytes have a checksum."""

    name: str
    data: bytes
    read: Callable[[bytes], Any]
    is_value: Callable[[Any], bool] | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """What damaged bytes led to."""

    target: str
    seed: int
    reason: str


def damage(chance: random.Random, data: bytes, most: int = 3) -> bytes:
    """Return bytes with some changes: bits flipped, parts cut, doubled, zeroed, or put in."""
    changed = bytearray(data)
    for _ in range(min(most, chance.choice((1, 1, 1, 2, 3)))):
        at, length = chance.randrange(len(changed) + 1), chance.choice((1, 2, 4, 8, 64))
        match chance.randrange(8):
            case 0 | 1 if changed:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at:]
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + chance.choice((length, len(changed)))]
            case 5:
                changed[at:at] = chance.randbytes(length)
            case 6:
                changed[at : at + length] = bytes(len(changed[at : at + length]))
            case _:
                changed[at : at + length] = chance.choice((b"\xff", b"\x7f")) * len(changed[at : at + length])
    return bytes(changed)


def check(target: Target, seed: int) -> Wrong | None:
    """Read damaged bytes; return what is wrong with what happens, None if nothing is."""
    # a second change may remove the checksum, and content without one is that of an earlier version
    most = 3 if target.is_value is None else 1
    damaged = damage(random.Random(f"{target.name}/{seed}"), target.data, most)
    try:
        with _limited():
            value = target.read(damaged)
    except InternalError as error:
        return Wrong(target.name, seed, f"an internal error: {error}")
    except HeadraceError as error:
        return None if error.message else Wrong(target.name, seed, "an empty message")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # native code of libraries may panic, which is no Exception
        return Wrong(target.name, seed, f"{type(error).__name__}: {str(error)[:200]}")
    if target.is_value is not None and not target.is_value(value):
        return Wrong(target.name, seed, f"another value than was written: {str(value)[:200]}")
    return None


def failures(targets: Iterable[Target], seeds: Iterable[int]) -> list[Wrong]:
    """Return what is wrong with the reading of these targets, damaged by each of the seeds."""
    known = list(targets)
    tried = (check(target, seed) for seed in seeds for target in known)
    return [wrong for wrong in tried if wrong is not None]


def targets(folder: Path) -> list[Target]:
    """Return all that is read as bytes; files are made in a folder."""
    rows = _TYPED.with_columns(pl.lit(0, dtype=pl.Int64).alias(TS))
    return [*_files(folder), *_records(), *_checkpoint(folder, rows), *_tasks(folder, rows)]


def _files(folder: Path) -> Iterator[Target]:
    """Yield files of users."""
    forms = {
        "csv": _ROWS.write_csv().encode(),
        "json": _ROWS.write_ndjson().encode(),
        "parquet": _written(lambda file: _TYPED.write_parquet(file, row_group_size=5, compression="uncompressed")),
        "arrow": _written(lambda file: _TYPED.write_ipc(file)),
    }
    for form, data in forms.items():
        path = folder / "files" / f"a.{form}"
        path.parent.mkdir(exist_ok=True)
        connector = Connector("FILES", {"path": str(path), "format": form})
        yield Target(f"{form} file", data, partial(_read_file, path, connector))
        yield Target(f"columns of a file of {form}", data, partial(_infer, path, connector))


def _records() -> Iterator[Target]:
    """Yield records of Kafka."""
    lines = _ROWS.write_ndjson().encode().splitlines()
    yield Target("json record", lines[4], lambda data: _read_record(text.Json(), data))
    csv = _ROWS.write_csv(include_header=False).encode().splitlines()
    form = text.Csv(tuple(_SCHEMA.names), ",", "")
    yield Target("csv record", csv[4], lambda data: _read_record(form, data))
    yield Target("text record", csv[4], lambda data: _read_record(text.Plain(_SCHEMA.names[0]), data))
    table = _written(lambda file: _TYPED.write_ipc_stream(file, compat_level=pl.CompatLevel.oldest()))
    yield Target("arrow record", table, lambda data: _read_record(Arrow(), data))


def _checkpoint(folder: Path, rows: pl.DataFrame) -> Iterator[Target]:
    """Yield the durable files of a checkpoint."""
    stream = Stream("s", _SCHEMA, Connector("MEMORY", {}), Timing.EXTERNAL, "at", 1)
    graph = Graph(())
    query = AddQuery("q", graph, (stream,), (Connector("MEMORY", {}),), _SCHEMA)
    journal = Journal(folder / "catalog.jsonl")
    entries = [Entry("CREATE STREAM s ...", stream), Entry("CREATE QUERY q", Query("q", "SELECT 1", _SCHEMA, ()))]
    for entry in entries:
        journal.append(entry)
    yield _file(
        "journal",
        folder / "catalog.jsonl",
        lambda: Journal(folder / "catalog.jsonl").read(),
        lambda read: all(entry in entries for entry in read),
    )
    commands: list[Command] = [query, DropQuery("q")]
    sealed.replace(folder / "00000000.json", encode_commands(commands))
    yield _file("commands", folder / "00000000.json", lambda: CommandLog(folder).between(0, 2), commands)
    snapshots = folder / "snapshots"
    running = Running(queries=(query,), commands=300)
    sealed.replace(snapshots / "snapshot-00000300.json", msgspec.json.encode(running))
    yield _file(
        "snapshot", snapshots / "snapshot-00000300.json", lambda: CommandLog(snapshots).running(300, Running()), running
    )
    repairs, known = folder / "repairs", (Repair("q", 3), Repair("ü", 4))
    add_repairs(repairs, known)
    yield _file("repairs", repairs / "repairs.json", lambda: read_repairs(repairs), known)
    progress = Progress(newest={"s": 5}, bounds={"q": 3}, lanes={"s": {"0": 1}})
    write_progress(folder, progress)
    yield _file("progress", folder / "progress.json", lambda: read_progress(folder), progress)
    owned = folder / "owned"
    ownership = Ownership(owned)
    ownership.take()
    epoch = epoch_of(owned)
    ownership.abandon()
    yield _file("epoch", owned / EPOCH_FILE, lambda: epoch_of(owned), lambda value: value in (epoch, None))
    given = msgspec.msgpack.encode(Given({"v": {"rows": encode_chunk(rows)}}))
    name = Moves(folder).write("b1-a-0-1", given)
    yield _file("parcels", folder / "moves" / name, lambda: Moves(folder).read(name), given)
    yield Target("parcels that were read", given, lambda data: decode_given(data, name))
    numbered = folder / "numbered"
    numbers = bucket_numbers(numbered, lambda: [3, 1])
    yield _file("buckets", numbered / "buckets.json", lambda: bucket_numbers(numbered, lambda: numbers), numbers)
    yield from _spools(folder, rows)
    yield from _logs(folder)


def _spools(folder: Path, rows: pl.DataFrame) -> Iterator[Target]:
    spool = stream_spool("s", folder)
    spool.append(rows)
    (file,) = spool.files()
    yield _file("spool", spool.path(file), lambda: spool.read(file), rows.equals)


def _logs(folder: Path) -> Iterator[Target]:
    """Yield the logs of offsets and decisions, and what a local deployment leaves."""
    offset = Offset(time=5, commands=2, streams={"s": StreamAt(at=[1, 2], fresh=3)})
    logged = b'v1\n{"batchWatermarkMs":0}\n' + msgspec.json.encode(offset)
    path = folder / "offsets" / "0"
    yield Target("offset", logged, lambda data: _with_file(path, data, lambda: read_offset(folder, 0)))
    stores: dict[int, tuple[int | None, dict[str, bytes]]] = {0: (None, {"a": b"\x00\x01"})}
    saved = Saved(batch=2, offset=offset, stores=stores)
    local = folder / "local"
    sealed.replace(local / "local.msgpack", msgspec.msgpack.encode(saved))

    def start() -> tuple[Offset, dict[str, bytes]]:
        deployment = LocalDeployment(local)
        deployment.start()
        return deployment.offset, deployment.stores[0].values

    yield _file("local state", local / "local.msgpack", start, (offset, stores[0][1]))


def _tasks(folder: Path, rows: pl.DataFrame) -> Iterator[Target]:
    """Yield rows and notes between tasks, and the state of a bucket."""
    control = Control(time=5, bounds={"s": 3}, commands=[b"{}"], lanes={"s": {"0": 1}})
    yield Target("control", encode(control), decode_control)
    yield Target("report", encode(Report(buckets=[BucketNote(1)], time=3, bounds={"q": 3})), decode_report)
    notes = folder / "notes"
    leave_times(notes, 5, 0, TaskTimes(7, {"a": 3}))
    counts = TaskCounts(task=0)
    yield _file("task times", notes / "5.task0", lambda: with_times(notes, 5, counts), None)
    LaneTimes(notes).tell(5, "name", 12345)
    yield _file("lane times", notes / "5.name", lambda: LaneTimes(notes).ask(5, "name", 0.0), None)
    state, extra = SavedState(0, None), Extra(bounds={"s": 1}, time=3, engine=Remembered())
    store = MemoryStore()
    chunks = {"vertex": {"small": rows, "large": pl.DataFrame({"x": np.arange(5000)})}}
    state.save(1, store, chunks, extra, {})
    manifest = store.values["manifest"]

    def is_same(loaded: tuple[Mapping[str, Mapping[str, pl.DataFrame]], Extra]) -> bool:
        frames = loaded[0]["vertex"]
        return loaded[1] == extra and all(frames[name].equals(frame) for name, frame in chunks["vertex"].items())

    yield Target("manifest", manifest, lambda data: _load({**store.values, "manifest": data}), is_same)
    large = "vertex/large"
    yield Target("chunk", store.values[large], lambda data: _load({**store.values, large: data}), is_same)


def _file(name: str, path: Path, read: Callable[[], Any], written: Any) -> Target:
    """Return a file of a checkpoint; `written` is its value, or a function that says whether a value is right."""
    is_value = None if written is None else written if callable(written) else lambda value: bool(value == written)
    return Target(name, path.read_bytes(), lambda data: _with_file(path, data, read), is_value)


def _with_file(path: Path, data: bytes, read: Callable[[], Any]) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return read()


def _load(values: Mapping[str, bytes]) -> Any:
    store = MemoryStore()
    store.values = dict(values)
    return SavedState(0, None).load(store)


def _read_file(path: Path, connector: Connector, data: bytes) -> int:
    """Read a file as a stream, in two splits; return how many rows came."""
    path.write_bytes(data)
    source = FilesSource(Stream("s", _SCHEMA, connector, Timing.INTERNAL), path.parent)
    for other in path.parent.glob("sources/*/*"):
        other.unlink()
    end = source.latest(None, now=0, limit=1000)
    pieces = [piece for split in source.splits(None, end, parallel=2) for piece in source.read(split)]
    return sum(piece.rows.height + (0 if piece.bad is None else piece.bad.height) for piece in pieces)


def _infer(path: Path, connector: Connector, data: bytes) -> Schema:
    path.write_bytes(data)
    return infer_schema(connector)


def _read_record(form: Any, data: bytes) -> Any:
    records = Records(np.array([7]), np.array([1000]), [b"k"], [data])
    return Reading("topic", form, None, None).slice_of(records, 0, [1], _SCHEMA, _SCHEMA)


def _written(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


@contextmanager
def _limited() -> Iterator[None]:
    """Raise an error if something takes too long; only in the main thread of a process."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it took more than {_PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
