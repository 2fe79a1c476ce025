"""Generated days of houses: people follow habits, now and then something goes wrong."""

from __future__ import annotations

import csv
import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START = dt.datetime(2026, 3, 2, tzinfo=dt.UTC).replace(tzinfo=None)
DAY = 24 * 3600
ROOMS = ("bedroom", "bathroom", "kitchen", "living", "hall")
#: Columns behind the time, by stream.
COLUMNS = {"motion": ("home", "room"), "doors": ("home", "door", "state"), "power": ("home", "device", "watts")}
#: The largest delay of a record, in seconds.
DELAY = 4.0
#: How often a step in the morning and in the evening follows the habit.
FAITHFUL = 0.85


@dataclass(slots=True)
class Days:
    """Records by stream, and what was planted: stoves left on (home, second), burglaries (home, room)."""

    records: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {stream: [] for stream in COLUMNS})
    stoves: list[tuple[int, int]] = field(default_factory=list)
    burglaries: list[tuple[int, str]] = field(default_factory=list)

    def lights(self) -> list[tuple[int, str, int]]:
        """Return home, room and second of each light that the habits of the day before switch on."""
        found: list[tuple[int, str, int]] = []
        for home in sorted({record[1] for record in self.records["motion"]}):
            entered = sorted((at, room) for at, where, room in self.records["motion"] if where == home)
            steps = [
                (at, before, room)
                for (_, before), (at, room) in zip([(0, None), *entered], entered, strict=False)
                if before != room
            ]
            for at, _, room in steps:
                likely = _habits(steps, at // DAY - 1).get(room)
                if likely is not None:
                    found.append((home, likely, at))
        return sorted(found)


def _habits(steps: list[tuple[int, str | None, str]], day: int) -> dict[str, str]:
    """Return the room that followed most often each room on a day, or on the last day before it with a habit."""
    known: dict[str, str] = {}
    for earlier in range(day + 1):
        counts = Counter((before, room) for at, before, room in steps if at // DAY == earlier and before is not None)
        for before in {before for before, _ in counts}:
            (room, most), *_ = sorted(
                ((room, n) for (origin, room), n in counts.items() if origin == before),
                key=lambda item: -item[1],
            )
            if most >= 3:
                known[before] = room
    return known


def days(seed: int, *, homes: int = 4, count: int = 3) -> Days:
    """Generate some days of some houses; each house has habits of its own."""
    chance = random.Random(seed)
    made = Days()
    for home in range(1, homes + 1):
        rooms = chance.sample(ROOMS, len(ROOMS))
        habit = dict(zip(rooms, rooms[1:] + rooms[:1], strict=True))
        for day in range(count):
            _live(made, chance, home, day, habit)
    for records in made.records.values():  # arrival is not in order of time
        records[:] = [
            record
            for _, record in sorted(((record[0] + chance.uniform(0, DELAY), record) for record in records), key=_first)
        ]
    return made


def _first(item: tuple[float, tuple[Any, ...]]) -> float:
    return item[0]


def _live(made: Days, chance: random.Random, home: int, day: int, habit: dict[str, str]) -> None:
    """Let a day pass: at home in the morning, away, at home in the evening."""
    at = _walk(made, chance, home, day * DAY + 6 * 3600, 60, habit)
    cooking = at + 600
    forgets = chance.random() < 0.3
    made.records["motion"].append((cooking, home, "kitchen"))
    made.records["power"] += [(cooking + 60, home, "stove", 40.0), (cooking + 120, home, "stove", 1800.0)]
    if forgets:  # the kitchen stays empty
        made.stoves.append((home, cooking + 120))
        made.records["power"].append((cooking + 900, home, "stove", 0.0))
        left = cooking + 1200
    else:
        made.records["motion"].append((cooking + 400, home, "kitchen"))
        made.records["power"].append((cooking + 500, home, "stove", 0.0))
        left = cooking + 700
    made.records["motion"].append((left - 20, home, "hall"))
    made.records["doors"] += [(left - 10, home, "front", "open"), (left, home, "front", "closed")]
    if chance.random() < 0.4:  # through a window
        room = chance.choice(ROOMS)
        made.burglaries.append((home, room))
        made.records["motion"].append((left + 2 * 3600, home, room))
        made.records["doors"].append((left + 2 * 3600 - 15, home, "terrace", "open"))
    back = day * DAY + 17 * 3600 + chance.randrange(1800)
    made.records["doors"] += [(back, home, "front", "open"), (back + 5, home, "front", "closed")]
    _walk(made, chance, home, back + 60, 60, habit)


def _walk(made: Days, chance: random.Random, home: int, at: int, count: int, habit: dict[str, str]) -> int:
    """Let somebody go from room to room, mostly by habit; return when the walk ends."""
    room = chance.choice(ROOMS)
    for _ in range(count):
        made.records["motion"].append((at, home, room))
        others = [other for other in ROOMS if other != room]
        room = habit[room] if chance.random() < FAITHFUL else chance.choice(others)
        at += chance.randrange(20, 200)
    return at


def write(made: Days, folder: Path) -> None:
    """Write a CSV file for each stream, in the order of arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    for stream, records in made.records.items():
        with (folder / f"{stream}.csv").open("w", newline="") as file:
            out: Any = csv.writer(file)
            out.writerow(("at", *COLUMNS[stream]))
            out.writerows((f"{START + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S}", *rest) for at, *rest in records)
