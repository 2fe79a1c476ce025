"""Generated traffic: cars that report every 30 seconds, accidents, and situations that only resemble accidents."""

from __future__ import annotations

import csv
import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

START = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC).replace(tzinfo=None)
MINUTES = 90
REPORT = 30.0  # seconds
ROAD, SEGMENT = 100.0, 5.0  # miles
WAYS, DIRECTIONS, LANES = 4, 2, 4
#: Cars within this many miles of an obstacle creep at this speed (miles, miles per hour).
SIGHT, CREEP = 2.0, 12.0
COLUMNS = ("at", "carId", "speed", "exp_way", "dir", "lane", "xpos")


class Lane(NamedTuple):
    """A lane in one direction; cars drive from mile 0 to its end."""

    exp_way: int
    dir: int
    lane: int


class Place(NamedTuple):
    """The place that a notification of an accident names."""

    exp_way: int
    dir: int
    lane: int
    segment: int


class Report(NamedTuple):
    """A car's report: seconds since the start, speed, and position by the road signs."""

    at: float
    car: int
    speed: float
    lane: Lane
    xpos: float

    @property
    def place(self) -> Place:
        return Place(*self.lane, int(self.xpos // SEGMENT))


@dataclass(frozen=True, slots=True)
class Car:
    """A car that enters a lane at a mile and a time. It may stand for some periods, then drives on or is towed away."""

    number: int
    lane: Lane
    enters: float
    mile: float
    cruise: float
    stands: tuple[tuple[float, float], ...] = ()
    towed: bool = True


@dataclass(frozen=True, slots=True)
class Slow:
    """A period in which cars creep toward a mile of a lane."""

    lane: Lane
    mile: float
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """All reports in order of arrival, and the accidents: place, and the minute in which the first car stopped."""

    reports: tuple[Report, ...]
    accidents: tuple[tuple[Place, int], ...]


def traffic(seed: int, *, accidents: int = 5, cars: int = 120) -> Traffic:
    """Generate traffic with this many accidents, and one of each situation that only resembles an accident."""
    chance = random.Random(seed)
    lanes = [
        Lane(way, 0, lane) for way in range(WAYS) for lane in range(LANES)
    ]  # the other direction is left for one that only looks like it
    chance.shuffle(lanes)
    plan = _Plan(chance)
    planted = []
    for i in range(accidents):
        lane = lanes[i]._replace(dir=chance.randrange(DIRECTIONS))
        mile, begin = plan.somewhere(), chance.uniform(10, 25) * 60
        planted.append((_place(lane, mile), begin))
        plan.accident(lane, mile, begin, vehicles=1 + i % 2)
        if i == 0:  # the same place again, later
            planted.append((_place(lane, mile), begin + 40 * 60))
            plan.accident(lane, mile, begin + 40 * 60, vehicles=2)
    plan.decoys(lanes[accidents:])
    for _ in range(cars):
        lane = Lane(chance.randrange(WAYS), chance.randrange(DIRECTIONS), chance.randrange(LANES))
        plan.car(lane, enters=chance.uniform(-30, 80) * 60, mile=0.0)
    reports = [report for car in plan.cars for report in _drive(car, plan.slow, random.Random(f"{seed}/{car.number}"))]
    arrival = [
        (report.at + chance.uniform(0, 4), report) for report in reports
    ]  # transmission takes up to four seconds
    return Traffic(
        tuple(report for _, report in sorted(arrival)),
        tuple(sorted((place, int(begin // 60)) for place, begin in planted)),
    )


def write(reports: Sequence[Report], folder: Path, *, parts: int = 3) -> None:
    """Write reports as CSV files, in order of arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(reports) // parts)
    for part in range(parts):
        with (folder / f"{part}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(COLUMNS)
            for at, car, speed, lane, xpos in reports[part * size : (part + 1) * size]:
                out.writerow(
                    (
                        f"{START + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S.%f}",
                        car,
                        f"{speed:.1f}",
                        *lane,
                        f"{xpos:.4f}",
                    )
                )


def stations() -> dict[str, tuple[int, int]]:
    """Return where ambulances wait: expressway and segment."""
    places = (("east", 2), ("west", 17))
    return {f"{name} {way}": (way, segment + way // 2) for way in range(WAYS) for name, segment in places}


def nearest(place: Place) -> str:
    """Return the station that is nearest to a place on its expressway; of two the first by name."""
    on_way = [(name, segment) for name, (way, segment) in stations().items() if way == place.exp_way]
    return min((abs(segment - place.segment), name) for name, segment in on_way)[1]


def write_stations(path: Path) -> None:
    """Write the stations as a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("station", "exp_way", "segment"))
        out.writerows((name, way, segment) for name, (way, segment) in stations().items())


class _Plan:
    """The cars and slow zones that have been planned so far."""

    def __init__(self, chance: random.Random) -> None:
        self.cars: list[Car] = []
        self.slow: list[Slow] = []
        self._chance = chance

    def somewhere(self, segments: range = range(4, 16)) -> float:
        """Return a mile deep enough in its segment that cars slow down in the same segment, in either direction."""
        return SEGMENT * self._chance.choice(segments) + self._chance.uniform(2.5, 4.5)

    def car(
        self,
        lane: Lane,
        *,
        enters: float,
        mile: float,
        stands: tuple[tuple[float, float], ...] = (),
        towed: bool = True,
    ) -> None:
        self.cars.append(Car(len(self.cars) + 1, lane, enters, mile, self._chance.uniform(52, 68), stands, towed))

    def stop(self, lane: Lane, mile: float, begin: float, minutes: float, *, towed: bool = True) -> None:
        """Add a car that stops near a mile."""
        self.car(lane, enters=begin - 180, mile=mile - 3.0, stands=((begin, begin + minutes * 60),), towed=towed)

    def jam(self, lane: Lane, mile: float, begin: float, end: float, *, arrivals: int = 3) -> None:
        """Add a period in which cars creep, and cars that arrive in it."""
        self.slow.append(Slow(lane, mile, begin, end))
        for i in range(arrivals):
            there = (
                begin + (end - begin) * (i + 0.5) / arrivals
            )  # one mile a minute, so three minutes before it is three miles away
            self.car(lane, enters=there - 180, mile=mile - SIGHT - 3.0)

    def accident(self, lane: Lane, mile: float, begin: float, *, vehicles: int) -> None:
        """Add cars that stand for eight minutes, and others that slow down behind them, some before four reports."""
        for i in range(vehicles):
            self.stop(lane, mile, begin + 10 * i, 8)
        self.jam(lane, mile, begin, begin + 480, arrivals=4)

    def decoys(self, lanes: Sequence[Lane]) -> None:
        """Add situations that are no accidents, one of each kind."""
        begin = self._chance.uniform(20, 30) * 60
        mile = self.somewhere(range(16, 19))  # accidents are elsewhere, so a neighboring lane is free
        alone, short, crowd, beside, later, across, before, twice = lanes[:8]
        self.stop(alone, mile, begin, 10)  # no car slows down
        self.stop(short, mile, begin, 0.75, towed=False)  # drives on after two reports
        self.jam(short, mile, begin, begin + 300)
        self.jam(crowd, mile, begin, begin + 300)  # no car stands
        beside = beside._replace(dir=1)
        self.stop(beside, mile, begin, 10)  # others slow down in the next lane
        self.jam(beside._replace(lane=(beside.lane + 1) % LANES), mile, begin, begin + 480)
        self.stop(later, mile, begin, 20)  # others slow down, but after more than ten minutes
        self.jam(later, mile, begin + 13 * 60, begin + 18 * 60)
        self.stop(across, mile, begin, 10)  # in the other direction
        self.jam(across._replace(dir=1), ROAD - mile, begin, begin + 480)
        self.jam(before, mile, begin - 480, begin - 240)  # cars slow down before one stands
        self.stop(before, mile, begin, 10)
        again = begin + 240  # the same car stops twice: it is the only one that slows down
        self.car(twice, enters=begin - 180, mile=mile - 5.0, stands=((begin, begin + 165), (again, again + 300)))


def _drive(car: Car, slow: Sequence[Slow], chance: random.Random) -> Iterator[Report]:
    ahead = [zone for zone in slow if zone.lane == car.lane]
    at, mile = car.enters + chance.uniform(0, REPORT), car.mile
    leaves = car.stands[-1][1] if car.stands and car.towed else MINUTES * 60
    while at < min(MINUTES * 60, leaves) and mile < ROAD:
        if any(begin <= at < end for begin, end in car.stands):
            speed = 0.0
        elif any(zone.begin <= at < zone.end and 0 < zone.mile - mile < SIGHT for zone in ahead):
            speed = CREEP
        else:
            speed = car.cruise * chance.uniform(0.97, 1.03)
        if at >= 0:
            yield Report(at, car.number, speed, car.lane, _sign(car.lane, mile))
        at, mile = at + REPORT, mile + speed * REPORT / 3600


def _place(lane: Lane, mile: float) -> Place:
    return Report(0, 0, 0, lane, _sign(lane, mile)).place


def _sign(lane: Lane, mile: float) -> float:
    """Return the mile on the road signs, which count from one end in both directions."""
    return round(mile if lane.dir == 0 else ROAD - mile, 4)
