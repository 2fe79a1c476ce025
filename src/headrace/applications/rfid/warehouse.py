"""Generated readings of a warehouse: packing lines, seals, gates, and products that get lost."""

from __future__ import annotations

import csv
import datetime as dt
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

START = dt.datetime(2026, 1, 1, 6, tzinfo=dt.UTC).replace(tzinfo=None)
#: Columns behind the time, by stream.
COLUMNS = {
    "cases": ("line", "box"),
    "products": ("line", "tag"),
    "seals": ("line", "seal"),
    "gate_items": ("gate", "tag"),
    "gate_cases": ("gate", "box"),
}
#: The largest delay of a reading, in seconds.
DELAYS = {"products": 2.5, "gate_items": 1.5}

Reading: TypeAlias = tuple[float, int, str]  # seconds since the start, line or gate, what was read


@dataclass(slots=True)
class Warehouse:
    """Readings by stream, and the truth: pairs of case and product, case and seal, items by case, missing products."""

    readings: dict[str, list[Reading]] = field(default_factory=lambda: {stream: [] for stream in COLUMNS})
    packed: list[tuple[str, str]] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    shipped: list[tuple[str, int]] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)


def warehouse(seed: int, *, lines: int = 3, cases: int = 40) -> Warehouse:
    """Generate a shift of some lines with some cases each; about every tenth case loses a product."""
    chance = random.Random(seed)
    made = Warehouse()
    for line in range(1, lines + 1):
        at = chance.uniform(1, 10)
        free = 60.0  # when the line's gate can take the next case
        for number in range(cases):
            box, length = f"B-{line}{number:03d}", chance.uniform(8, 25)
            made.readings["cases"].append((at, line, box))
            count = chance.randint(2, 6)
            tags = [f"{box}/{i}" for i in range(count)]
            for i, tag in enumerate(tags):
                # the last one may be read at the instant of the next case; it belongs to this case, which came before
                last = i == count - 1 and number < cases - 1 and chance.random() < 0.2
                put = at + length if last else at + length * (i + chance.uniform(0.1, 0.9)) / count
                made.readings["products"].append((put, line, tag))
            made.packed += [(box, tag) for tag in tags]
            sealed = at + length + chance.uniform(2, 60)
            made.readings["seals"].append((sealed, line, ""))  # _seal gives names, in order of time
            lost = chance.choice(tags) if chance.random() < 0.1 else None
            kept = [tag for tag in tags if tag != lost]
            made.missing += [(box, lost)] if lost is not None else []
            free = max(free, at + length + 90) + chance.uniform(6, 9)
            made.readings["gate_items"] += [(free - chance.uniform(0.5, 4.5), line, tag) for tag in kept]
            made.readings["gate_cases"].append((free, line, box))
            if kept:
                made.shipped.append((box, len(kept)))
            at += length
    _seal(made, lines)
    for stream, delay in DELAYS.items():  # arrival is not in order of time
        made.readings[stream] = [
            reading
            for _, reading in sorted(
                (reading[0] + chance.uniform(0, delay), reading) for reading in made.readings[stream]
            )
        ]
    for stream in COLUMNS.keys() - DELAYS.keys():
        made.readings[stream].sort()
    return made


def write(made: Warehouse, folder: Path) -> None:
    """Write a CSV file for each stream, in the order of arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    for stream, readings in made.readings.items():
        with (folder / f"{stream}.csv").open("w", newline="") as file:
            out: Any = csv.writer(file)
            out.writerow(("at", *COLUMNS[stream]))
            out.writerows(
                (f"{START + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S.%f}", place, what)
                for at, place, what in readings
            )


def _seal(made: Warehouse, lines: int) -> None:
    """Number the seals in order of time; each closes the first open case of its line."""
    made.readings["seals"] = [
        (at, line, f"S-{number:04d}") for number, (at, line, _) in enumerate(sorted(made.readings["seals"]))
    ]
    for line in range(1, lines + 1):
        boxes = [box for _, where, box in made.readings["cases"] if where == line]
        seals = [seal for _, where, seal in made.readings["seals"] if where == line]
        made.closed += zip(boxes, seals, strict=True)
