"""Files in the format of sqllogictest: reading, writing, and running them over a finite stream."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

BASE = 1_767_225_600_000_000
#: Results with more values are kept as a hash.
HASHED = 24
STREAM = "at TIMESTAMP, i INT, j BIGINT, d DOUBLE, m DECIMAL(8, 2), t STRING, w STRING, b BOOLEAN, xs ARRAY<BIGINT>"
TABLE = "k BIGINT, name STRING"


@dataclass(frozen=True, slots=True)
class Record:
    """A query: the kinds of its columns, its text, and its values, or their number and hash."""

    kinds: str
    sql: str
    expected: tuple[str, ...]

    def write(self) -> str:
        return "\n".join([f"query {self.kinds} rowsort", self.sql, "----", *self.expected, ""])


def read(path: Path) -> list[Record]:
    """Read a file of queries; lines that begin with # are comments."""
    records = []
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        word, kinds, order = lines[0].split()
        assert (word, order) == ("query", "rowsort"), f"{path}: {lines[0]!r} is not supported"
        cut = lines.index("----")
        records.append(Record(kinds, "\n".join(lines[1:cut]), tuple(lines[cut + 1 :])))
    return records


def shown(rows: Iterable[Sequence[Any]], kinds: str) -> tuple[str, ...]:
    """Return the values of rows as the format writes them, sorted by row; of many their number and hash."""
    texts = sorted([_text(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows)
    values = [text for row in texts for text in row]
    if len(values) <= HASHED:
        return tuple(values)
    digest = hashlib.md5("".join(f"{value}\n" for value in values).encode(), usedforsecurity=False).hexdigest()
    return (f"{len(values)} values hashing to {digest}",)


def _text(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    match kind:
        case "I":
            return str(int(value))
        case "R":
            return f"{float(value) + 0.0:.3f}".replace("-0.000", "0.000")
        case "B":
            return "true" if value else "false"
        case _:
            return value.replace("\n", "@") or "(empty)"


def stream_rows(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Return rows with equal and missing values, at different times of one hour."""
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.12 else value

    return [
        {
            "at": BASE + number * 59_000_000,
            "i": maybe(chance.randint(-3, 6)),
            "j": maybe(chance.randint(0, 4)),
            "d": maybe(chance.randint(-8, 20) / 4),
            "m": maybe(Decimal(chance.randint(-500, 900)) / 100),
            "t": maybe(chance.choice(["", "a", "ab", "b", "Ba", "x y", " a "])),
            "w": maybe(chance.choice(["a", "b", "ab", "c"])),
            "b": maybe(chance.random() < 0.5),
            "xs": maybe([maybe(chance.randint(0, 3)) for _ in range(chance.randrange(4))]),
        }
        for number in range(count)
    ]


def table_rows() -> list[dict[str, Any]]:
    """Return the rows of the stored table; a key is there twice, one is missing."""
    return [{"k": k, "name": name} for k, name in ((0, "zero"), (1, "one"), (1, "a"), (3, "c"), (5, None), (None, "n"))]
