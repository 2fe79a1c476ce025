"""What detections remember, by key, as immutable chunks of which a page reads and rewrites only those of its own keys.

A chunk has the keys whose hashes begin with the same bits; one that has grown too large is cut in two by the next bit.
A key's memory is a value in it, opened when a tuple of the key comes or when something happens by itself; the times at
which that will be are columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import polars as pl

from headrace.model.time import END
from headrace.operators.arrays import Flags
from headrace.operators.events.occurrence import Memory, Occurrence
from headrace.operators.operator import State

Key: TypeAlias = tuple[Any, ...]

#: Keys of a chunk before it is cut in two.
LIMIT = 256
_NAME = "history-"
_SCHEMA = {
    "key": pl.Binary(),
    "memory": pl.Binary(),
    "hash": pl.UInt64(),
    "held": pl.Int64(),
    "timer": pl.Int64(),
    "death": pl.Int64(),
}
_BITS = 64


class Histories:
    """The memory of each key that has one.

    `times` gives the next timer of a memory and when it is of no use any more.
    """

    def __init__(self, stores: int, times: Callable[[Memory], tuple[int, int]]) -> None:
        self._stores, self._times = stores, times
        self._open: dict[Key, Memory] = {}
        self._hashes: dict[Key, int] = {}
        self._changed: set[Key] = set()
        self._slots: dict[str, _Slot] = {}
        self._cut: set[str] = set()  # beginnings of hashes that more than one slot has
        self._decoder = msgspec.msgpack.Decoder(list[list[Occurrence]])
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def open(self, key: Key, hashed: int) -> Memory:
        """Return a key's memory, to be changed; call `close` afterwards."""
        memory = self._open.get(key)
        if memory is None:
            slot = self._slots.get(self._slot_of(hashed))
            encoded = None if slot is None else slot.open(msgspec.msgpack.encode(key))
            memory = [[] for _ in range(self._stores)] if encoded is None else self._decoder.decode(encoded)
            self._open[key] = memory
            self._hashes[key] = hashed
        self._held -= sum(map(len, memory))
        return memory

    def close(self, key: Key) -> None:
        self._held += sum(map(len, self._open[key]))
        self._changed.add(key)

    def clear(self, key: Key) -> None:
        """Forget all about an open key."""
        memory = self.open(key, self._hashes[key])
        for store in memory:
            store.clear()
        self.close(key)

    def wake(self, bound: int) -> list[tuple[Key, Memory]]:
        """Open the sleeping keys of which a time is before the bound."""
        woken: list[tuple[Key, Memory]] = []
        for slot in self._slots.values():
            for encoded, hashed in slot.due(bound):
                key = tuple(msgspec.msgpack.decode(encoded))
                self.open(key, hashed)
                self._held += sum(map(len, self._open[key]))
                woken.append((key, self._open[key]))
        return woken

    def timer(self) -> int:
        """Return the first instant at which something happens by itself to a sleeping key; END if there is none."""
        return min((slot.times()[0] for slot in self._slots.values()), default=END)

    def state(self) -> dict[str, pl.DataFrame]:
        by_slot: dict[str, list[Key]] = {}
        for key in self._changed:
            by_slot.setdefault(self._slot_of(self._hashes[key]), []).append(key)
        for name, keys in by_slot.items():
            self._store(name, keys)
        self._changed.clear()
        return {_NAME + name: slot.chunk for name, slot in self._slots.items()}

    def give(self, choose: Callable[[Sequence[Key]], Flags]) -> tuple[pl.DataFrame | None, list[Key]]:
        """Give up what is remembered of the keys that are chosen; return it, if there is any, and these keys."""
        given: list[pl.DataFrame] = []
        gone: list[Key] = []
        self.state()
        for name, slot in list(self._slots.items()):
            keys = slot.keys()
            chosen = choose(keys)
            if not chosen.any():
                continue
            given.append(slot.chunk.filter(pl.Series(chosen)))
            gone += [key for key, goes in zip(keys, chosen.tolist(), strict=True) if goes]
            del self._slots[name]
            self._put(name, *slot.only(~chosen))
        for key in gone:
            self._open.pop(key, None)
            self._hashes.pop(key, None)
        self._held -= sum(int(rows["held"].sum()) for rows in given)
        return (pl.concat(given) if given else None), gone

    def take_in(self, given: pl.DataFrame) -> None:
        """Go on with keys that are not known here; they sleep until it is their turn."""
        names = np.array([self._slot_of(hashed) for hashed in given["hash"].to_list()])
        for name in np.unique(names).tolist():
            rows = given.filter(pl.Series(names == name))
            own = self._slots.pop(name, None)
            chunk, asleep = (given.clear(), np.empty(0, np.bool_)) if own is None else own.without(())
            asleep = np.concatenate([asleep, np.ones(rows.height, np.bool_)])
            self._put(name, pl.concat([chunk, rows], rechunk=True), asleep)
        self._held += int(given["held"].sum())

    def restore(self, state: State) -> None:
        for name, chunk in state.items():
            if name.startswith(_NAME):
                self._put(name.removeprefix(_NAME), chunk, np.ones(chunk.height, np.bool_))
        self._held = sum(int(slot.chunk["held"].sum()) for slot in self._slots.values())

    def _slot_of(self, hashed: int) -> str:
        bits = ""
        while bits in self._cut:
            bits += str(hashed >> (_BITS - 1 - len(bits)) & 1)
        return bits

    def _store(self, name: str, keys: Iterable[Key]) -> None:
        """Write what is remembered of open keys into their slot."""
        slot = self._slots.get(name) or _Slot(pl.DataFrame(schema=_SCHEMA), np.empty(0, np.bool_))
        gone: list[bytes] = []
        rows: list[tuple[bytes, bytes, int, int, int, int]] = []
        for key in keys:
            memory, encoded = self._open[key], msgspec.msgpack.encode(key)
            before = slot.memory(encoded)
            after = msgspec.msgpack.encode(memory) if any(memory) else None
            if after != before:
                gone.append(encoded)
                if after is not None:
                    rows.append((encoded, after, self._hashes[key], sum(map(len, memory)), *self._times(memory)))
            if after is None:
                del self._open[key], self._hashes[key]
        if not gone:
            return
        chunk, asleep = slot.without(gone)
        new = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
        self._slots.pop(name, None)
        self._put(name, pl.concat([chunk, new], rechunk=True), np.concatenate([asleep, np.zeros(new.height, np.bool_)]))

    def _put(self, name: str, chunk: pl.DataFrame, asleep: Flags) -> None:
        """Make a chunk a slot, or several if it is too large."""
        self._cut.update(name[:length] for length in range(len(name)))
        if chunk.height > LIMIT and len(name) < _BITS:
            self._cut.add(name)
            bit = (chunk["hash"].to_numpy() >> np.uint64(_BITS - 1 - len(name))) & np.uint64(1)
            for value in (0, 1):
                self._put(f"{name}{value}", chunk.filter(pl.Series(bit == value)), asleep[bit == value])
        elif chunk.height:
            self._slots[name] = _Slot(chunk, asleep)


class _Slot:
    """A chunk, where its keys are, and which of them sleep: of these it knows the times."""

    __slots__ = ("_asleep", "_places", "_times", "chunk")

    def __init__(self, chunk: pl.DataFrame, asleep: Flags) -> None:
        self.chunk, self._asleep = chunk, asleep
        self._places: dict[bytes, int] | None = None
        self._times: tuple[int, int] | None = None

    def open(self, key: bytes) -> bytes | None:
        """Return a key's memory; it sleeps no more."""
        place = self._where().get(key)
        if place is not None:
            self._asleep[place], self._times = False, None
        return self.memory(key)

    def memory(self, key: bytes) -> bytes | None:
        place = self._where().get(key)
        return None if place is None else self.chunk["memory"][place]

    def without(self, keys: Iterable[bytes]) -> tuple[pl.DataFrame, Flags]:
        """Return the rows of other keys, the chunk itself if these are all; and which of them sleep."""
        where = self._where()
        places = [place for key in keys if (place := where.get(key)) is not None]
        if not places:
            return self.chunk, self._asleep
        kept = np.ones(self.chunk.height, np.bool_)
        kept[places] = False
        return self.only(kept)

    def only(self, kept: Flags) -> tuple[pl.DataFrame, Flags]:
        """Return some of the rows, and which of them sleep."""
        return self.chunk.filter(pl.Series(kept, dtype=pl.Boolean)), self._asleep[kept]

    def keys(self) -> list[Key]:
        """Return the keys of all rows."""
        return [tuple(msgspec.msgpack.decode(key)) for key in self.chunk["key"].to_list()]

    def times(self) -> tuple[int, int]:
        """Return the first timer and the first death of a key that sleeps."""
        if self._times is None:
            timer, death = (self.chunk[name].to_numpy()[self._asleep] for name in ("timer", "death"))
            self._times = int(timer.min(initial=END)), int(death.min(initial=END))
        return self._times

    def due(self, bound: int) -> list[tuple[bytes, int]]:
        """Return the sleeping keys of which a time is before the bound, and their hashes."""
        if min(self.times()) >= bound:
            return []
        early = (self.chunk["timer"].to_numpy() < bound) | (self.chunk["death"].to_numpy() < bound)
        return self.chunk.select("key", "hash").filter(pl.Series(early & self._asleep)).rows()

    def _where(self) -> dict[bytes, int]:
        if self._places is None:
            self._places = {key: place for place, key in enumerate(self.chunk["key"].to_list())}
        return self._places
