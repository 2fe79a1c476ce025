"""What detections remember, by key, as immutable chunks: a page rewrites only the slots of its own keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
import polars as pl

from headrace.operators.events.occurrence import Memory, Occurrence
from headrace.operators.operator import State

Key: TypeAlias = tuple[Any, ...]

_SLOTS = 64
_NAME = "history-"
_SCHEMA = {"key": pl.Binary(), "memory": pl.Binary()}


class Histories:
    """The memory of each key that has one."""

    def __init__(self, stores: int) -> None:
        self._stores = stores
        self._memories: dict[Key, Memory] = {}
        self._slots: dict[int, dict[Key, tuple[bytes, bytes]]] = {}
        self._slot_of: dict[Key, int] = {}
        self._chunks: dict[int, pl.DataFrame] = {}
        self._changed: set[Key] = set()
        self._decoder = msgspec.msgpack.Decoder(list[list[Occurrence]])
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def __iter__(self) -> Iterator[tuple[Key, Memory]]:
        return iter(self._memories.items())

    def open(self, key: Key, hashed: int) -> Memory:
        """A key's memory, to be changed; say `close` afterwards."""
        memory = self._memories.get(key)
        if memory is None:
            memory = self._memories[key] = [[] for _ in range(self._stores)]
            self._slot_of[key] = hashed % _SLOTS
        self._held -= sum(map(len, memory))
        return memory

    def close(self, key: Key) -> None:
        self._held += sum(map(len, self._memories[key]))
        self._changed.add(key)

    def clear(self, key: Key) -> None:
        """Forget all about a key."""
        memory = self.open(key, 0)
        for store in memory:
            store.clear()
        self.close(key)

    def state(self) -> dict[str, pl.DataFrame]:
        touched: set[int] = set()
        for key in self._changed:
            slot = self._slots.setdefault(self._slot_of[key], {})
            memory = self._memories[key]
            before = slot.get(key)
            if any(memory):
                encoded = msgspec.msgpack.encode(memory)
                if before is None or before[1] != encoded:
                    slot[key] = (msgspec.msgpack.encode(key) if before is None else before[0], encoded)
                    touched.add(self._slot_of[key])
            else:
                if slot.pop(key, None) is not None:
                    touched.add(self._slot_of[key])
                del self._memories[key], self._slot_of[key]
        self._changed.clear()
        for number in touched:
            rows = list(self._slots[number].values())
            if rows:
                self._chunks[number] = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
            else:
                self._chunks.pop(number, None)
        return {f"{_NAME}{number}": chunk for number, chunk in self._chunks.items()}

    def restore(self, state: State) -> None:
        for name, chunk in state.items():
            if not name.startswith(_NAME):
                continue
            number = int(name.removeprefix(_NAME))
            self._chunks[number] = chunk
            for key_bytes, encoded in chunk.iter_rows():
                key = tuple(msgspec.msgpack.decode(key_bytes))
                self._memories[key] = self._decoder.decode(encoded)
                self._slot_of[key] = number
                self._slots.setdefault(number, {})[key] = (key_bytes, encoded)
                self._held += sum(map(len, self._memories[key]))
