"""How state of parcels goes from one bucket to another: through a file of the checkpoint, between two micro-batches.

A bucket gives parcels away when it has done all the work of a micro-batch. The delivery names the files of the attempt
that counts (`progress.json`), the next offset repeats the names, and the bucket that has the parcels from then on takes
them in before anything else.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from headrace.commands.allotments import Allotment, moved_parcels
from headrace.commands.key_splits import changed_parcels, transfers
from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import Guard
from headrace.engine.whole_state import NOTHING, Whole, give_whole, take_whole, times_of
from headrace.errors import HostFault
from headrace.graph.graph import VertexId
from headrace.graph.place import Lay
from headrace.model.parcels import Moved
from headrace.operators.arrays import Flags
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.operator import State
from headrace.operators.partitioning import Keys
from headrace.storage import files
from headrace.worker.chunk_cache import decode_chunk, digest_of, encode_chunk

#: The folder of a checkpoint that holds parcels on their way.
FOLDER = "moves"


class Given(Struct, frozen=True, omit_defaults=True):
    """What a bucket gives of its parcels to another: chunks of state by vertex, and guards that go with them.

    Vertices without keys may go as a whole, with the bounds that they have reached.
    """

    state: dict[VertexId, dict[str, bytes]]
    guards: list[Guard] = []
    whole: dict[VertexId, dict[str, bytes]] = {}
    reached: dict[VertexId, int] = {}
    owed: dict[VertexId, int] = {}


_given = msgspec.msgpack.Decoder(Given)


class Chosen:
    """Says which rows belong to parcels: those whose keys have their hashes."""

    def __init__(self, parcels: Collection[int], count: int) -> None:
        self._is_chosen = np.zeros(count, np.bool_)
        self._is_chosen[list(parcels)] = True

    def __call__(self, rows: pl.DataFrame, keys: Keys) -> Flags:
        """Return which rows belong to the parcels; without keys there is one parcel."""
        if not keys:
            return np.full(rows.height, self._is_chosen[0])
        hashes = hash_columns(evaluate(rows, keys))
        return self._is_chosen[(hashes % np.uint64(len(self._is_chosen))).astype(np.int64)]


class Moves:
    """The files of a checkpoint in which parcels are on their way."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def write(self, name: str, data: bytes) -> str:
        """Write a file and return its whole name, which ends in a checksum.

        Another attempt of the same task writes the same rows: it does not matter whose file of a name it is.
        """
        whole = f"{name}-{_checksum(data)}"
        files.replace(self._folder / whole, data)
        return whole

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise a fault if it is not what was written."""
        path, hint = self._folder / name, "restore the checkpoint folder from a copy"
        data = files.read_if_exists(path)
        if data is None:
            raise HostFault(f"{path} is missing", hint=hint)
        if not _is_whole(data, name):
            raise HostFault(f"{path} is damaged: it is not what was written", hint=hint)
        return data


def give(
    engine: Engine,
    number: int,
    batch: int,
    lays: Mapping[VertexId, Lay],
    allotments: tuple[Mapping[str, Allotment], Mapping[str, Allotment]],
    moves: Moves,
) -> list[Moved]:
    """Give away the parcels that leave a bucket between two allotments; return what was written for whom."""
    moved: list[Moved] = []
    gives: list[tuple[str, _Give]] = [(name, _give_split) for name in changed_parcels(*allotments)]
    gives += [(name, _give_leaving) for name in moved_parcels(*allotments)]
    for name, give_some in gives:
        vertices = {vertex: lay.keys for vertex, lay in lays.items() if lay.allotment == name}
        for bucket, gift in give_some(engine, number, vertices, allotments, name).items():
            given = Given(
                _encoded(gift.state),
                engine.guards.of_groups(vertices),
                _encoded(gift.whole.state),
                gift.whole.reached,
                gift.whole.owed,
            )
            if given.state or given.guards or given.reached:
                data = msgspec.msgpack.encode(given)
                parts = (*gift.state.values(), *gift.whole.state.values())
                rows = sum(chunk.height for state in parts for chunk in state.values())
                file = moves.write(f"b{batch}-{name}-{number}-{bucket}", data)
                moved.append(Moved(file, bucket, gift.parcels, rows, len(data)))
    return moved


class _Gift(Struct, frozen=True):
    """What a bucket gets: of how many parcels, rows by vertex, and what goes as a whole."""

    parcels: int
    state: Mapping[VertexId, State]
    whole: Whole = NOTHING


#: By the bucket that gets it.
_Gifts: TypeAlias = dict[int, _Gift]
_Allotments: TypeAlias = tuple[Mapping[str, Allotment], Mapping[str, Allotment]]
_Give: TypeAlias = Callable[[Engine, int, Mapping[VertexId, tuple[Keys, ...]], _Allotments, str], _Gifts]


def _give_leaving(
    engine: Engine,
    number: int,
    vertices: Mapping[VertexId, tuple[Keys, ...]],
    allotments: _Allotments,
    name: str,
) -> _Gifts:
    """Give away parcels that leave for another bucket."""
    leaving: dict[int, list[int]] = {}
    for parcel, (old, new) in moved_parcels(*allotments)[name].items():
        if old == number:
            leaving.setdefault(new, []).append(parcel)
    if not leaving:
        return {}
    specs = {vertex: engine.network.vertices[vertex].spec for vertex in vertices}
    if not all(spec.hindrance is None for spec in specs.values()):  # it has no keys, so one parcel
        return {bucket: _Gift(1, {}, give_whole(engine, vertices)) for bucket in leaving}
    timed = [vertex for vertex, spec in specs.items() if spec.has_own_time]
    times = times_of(engine, timed) if timed else NOTHING
    count = allotments[1][name].parcels
    return {
        bucket: _Gift(len(parcels), dict(engine.give(vertices, Chosen(parcels, count))), times)
        for bucket, parcels in leaving.items()
    }


def _give_split(
    engine: Engine,
    number: int,
    vertices: Mapping[VertexId, tuple[Keys, ...]],
    allotments: _Allotments,
    name: str,
) -> _Gifts:
    """Give away, copy and forget rows of joins that have parcels in several buckets, or may have."""
    sent: dict[int, dict[VertexId, dict[str, list[pl.DataFrame]]]] = {}
    counts: Counter[int] = Counter()
    for vertex, keys in vertices.items():
        for actions, alike in transfers(*allotments, name, number, len(keys)).items():
            chosen = Chosen(alike, allotments[1][name].parcels)
            counts.update({bucket: len(alike) for bucket in {bucket for each in actions for bucket in each.to}})
            for port, action in enumerate(actions):
                rows = engine.copy(vertex, port, keys, chosen) if action.to else {}
                for bucket in action.to if rows else ():
                    for chunk, frame in rows.items():
                        sent.setdefault(bucket, {}).setdefault(vertex, {}).setdefault(chunk, []).append(frame)
                if not action.keeps:
                    engine.forget(vertex, port, keys, chosen)
    gifts: _Gifts = {}
    for bucket, count in sorted(counts.items()):
        state = {
            vertex: {chunk: pl.concat(frames) for chunk, frames in chunks.items()}
            for vertex, chunks in sent.get(bucket, {}).items()
        }
        gifts[bucket] = _Gift(count, state)
    return gifts


def _encoded(states: Mapping[VertexId, State]) -> dict[VertexId, dict[str, bytes]]:
    return {vertex: {chunk: encode_chunk(rows) for chunk, rows in state.items()} for vertex, state in states.items()}


def take_in(engine: Engine, number: int, moved: Iterable[Moved], moves: Moves) -> int:
    """Take in the parcels that others gave to a bucket; return how many files they were in."""
    own = [file.name for file in moved if file.bucket == number]
    for name in own:
        state, whole, guards = decode_given(moves.read(name), name)
        engine.take_in(state)
        take_whole(engine, whole)
        engine.guards.take_over(guards)
    return len(own)


def decode_given(data: bytes, name: str) -> tuple[Mapping[VertexId, State], Whole, list[Guard]]:
    """Return what a file holds: rows of some keys, what goes as a whole, and guards."""
    try:
        given = _given.decode(data)
        state, whole = (
            {vertex: {n: decode_chunk(chunk) for n, chunk in c.items()} for vertex, c in chunks.items()}
            for chunks in (given.state, given.whole)
        )
    except ValueError as error:  # DecodeError is one
        hint = "restore the checkpoint from a copy"
        raise HostFault(f"{FOLDER}/{name} is damaged: {error}", hint=hint) from error
    return state, Whole(whole, given.reached, given.owed), given.guards


def _checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def _is_whole(data: bytes, name: str) -> bool:
    """Return whether a file has the content of its name, in which earlier versions had a digest."""
    end = name.rpartition("-")[2]
    return end == (_checksum(data) if len(end) == 8 else digest_of(data).hex()[:16])


def delete(directory: Path, moved: Sequence[Moved]) -> None:
    """Delete files of parcels that are where they belong."""
    files.remove(*(directory / FOLDER / file.name for file in moved), durable=False)


def sweep_half_done(directory: Path) -> int:
    """Delete what workers were writing when they were killed, while no task runs; count it."""
    return files.sweep(directory / FOLDER)


def sweep(directory: Path, waiting: Sequence[Moved]) -> None:
    """Delete the files of attempts that failed, and those that came back after a power cut."""
    folder, names = directory / FOLDER, {file.name for file in waiting}
    files.remove(*(folder / name for name in files.names(folder) if name not in names), durable=False)
