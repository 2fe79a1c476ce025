"""Generated traffic: cars that report every 30 seconds, accidents among them, and much that only looks like one."""

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
#: Cars that come within so many miles of what blocks a lane go at walking pace.
SIGHT, CREEP = 2.0, 12.0
COLUMNS = ("at", "carId", "speed", "exp_way", "dir", "lane", "xpos")


class Lane(NamedTuple):
    """A lane in one direction; cars go along it from mile 0 to the end."""

    exp_way: int
    dir: int
    lane: int


class Place(NamedTuple):
    """Where an accident is notified."""

    exp_way: int
    dir: int
    lane: int
    segment: int


class Report(NamedTuple):
    """What a car tells: seconds since the start, and its position as the road's signs count it."""

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
    """A car that enters a lane at a mile and a time; it stands between some times, and is then towed away or drives on."""

    number: int
    lane: Lane
    enters: float
    mile: float
    cruise: float
    stands: tuple[tuple[float, float], ...] = ()
    towed: bool = True


@dataclass(frozen=True, slots=True)
class Slow:
    """Cars creep towards a mile of a lane between two times."""

    lane: Lane
    mile: float
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """All reports in the order of their arrival, and the accidents: place, and the minute in which the first car stopped."""

    reports: tuple[Report, ...]
    accidents: tuple[tuple[Place, int], ...]


def traffic(seed: int, *, accidents: int = 5, cars: int = 120) -> Traffic:
    """Traffic with so many accidents, and one of each kind of what is none."""
    chance = random.Random(seed)
    lanes = [
        Lane(way, 0, lane) for way in range(WAYS) for lane in range(LANES)
    ]  # the other direction is left for one that only looks like it
    chance.shuffle(lanes)
    staged = _Staged(chance)
    planted = []
    for i in range(accidents):
        lane = lanes[i]._replace(dir=chance.randrange(DIRECTIONS))
        mile, begin = staged.somewhere(), chance.uniform(10, 25) * 60
        planted.append((_place(lane, mile), begin))
        staged.accident(lane, mile, begin, vehicles=1 + i % 2)
        if i == 0:  # the same place again, later
            planted.append((_place(lane, mile), begin + 40 * 60))
            staged.accident(lane, mile, begin + 40 * 60, vehicles=2)
    staged.pretences(lanes[accidents:])
    for _ in range(cars):
        lane = Lane(chance.randrange(WAYS), chance.randrange(DIRECTIONS), chance.randrange(LANES))
        staged.car(lane, enters=chance.uniform(-30, 80) * 60, mile=0.0)
    reports = [
        report for car in staged.cars for report in _drive(car, staged.slow, random.Random(f"{seed}/{car.number}"))
    ]
    arrival = [(report.at + chance.uniform(0, 4), report) for report in reports]  # the network takes up to four seconds
    return Traffic(
        tuple(report for _, report in sorted(arrival)),
        tuple(sorted((place, int(begin // 60)) for place, begin in planted)),
    )


def write(reports: Sequence[Report], folder: Path, *, parts: int = 3) -> None:
    """Write reports as CSV files, in the order of their arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-len(reports) // parts)
    for part in range(parts):
        with (folder / f"{part}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(COLUMNS)
            for at, car, speed, lane, xpos in reports[part * each : (part + 1) * each]:
                out.writerow(
                    (
                        f"{START + dt.timedelta(seconds=at):%Y-%m-%d %H:%M:%S.%f}",
                        car,
                        f"{speed:.1f}",
                        *lane,
                        f"{xpos:.4f}",
                    )
                )


class _Staged:
    """Cars and what slows them down, as they are thought up."""

    def __init__(self, chance: random.Random) -> None:
        self.cars: list[Car] = []
        self.slow: list[Slow] = []
        self._chance = chance

    def somewhere(self, segments: range = range(4, 16)) -> float:
        """A mile far enough in its segment that cars slow down in the same one, seen from either direction."""
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
        """A car that comes to stand near a mile."""
        self.car(lane, enters=begin - 180, mile=mile - 3.0, stands=((begin, begin + minutes * 60),), towed=towed)

    def jam(self, lane: Lane, mile: float, begin: float, end: float, *, arrivals: int = 3) -> None:
        """A time in which cars creep, and some that come then."""
        self.slow.append(Slow(lane, mile, begin, end))
        for i in range(arrivals):
            there = (
                begin + (end - begin) * (i + 0.5) / arrivals
            )  # one mile a minute, so three minutes before it is three miles away
            self.car(lane, enters=there - 180, mile=mile - SIGHT - 3.0)

    def accident(self, lane: Lane, mile: float, begin: float, *, vehicles: int) -> None:
        """Cars that stand for eight minutes; others slow down behind them, some before it is known that they stand."""
        for i in range(vehicles):
            self.stop(lane, mile, begin + 10 * i, 8)
        self.jam(lane, mile, begin, begin + 480, arrivals=4)

    def pretences(self, lanes: Sequence[Lane]) -> None:
        """What is no accident, one of each kind."""
        begin = self._chance.uniform(20, 30) * 60
        mile = self.somewhere(range(16, 19))  # no accident is there, so a neighbouring lane is free
        alone, short, crowd, beside, later, across, before, twice = lanes[:8]
        self.stop(alone, mile, begin, 10)  # nobody slows down
        self.stop(short, mile, begin, 0.75, towed=False)  # on its way again after two reports
        self.jam(short, mile, begin, begin + 300)
        self.jam(crowd, mile, begin, begin + 300)  # nobody stands
        beside = beside._replace(dir=1)
        self.stop(beside, mile, begin, 10)  # others slow down in the next lane
        self.jam(beside._replace(lane=(beside.lane + 1) % LANES), mile, begin, begin + 480)
        self.stop(later, mile, begin, 20)  # others slow down, but after more than ten minutes
        self.jam(later, mile, begin + 13 * 60, begin + 18 * 60)
        self.stop(across, mile, begin, 10)  # in the other direction
        self.jam(across._replace(dir=1), ROAD - mile, begin, begin + 480)
        self.jam(before, mile, begin - 480, begin - 240)  # first slow, then one that stands
        self.stop(before, mile, begin, 10)
        again = begin + 240  # the same car stands, goes on a little and stops again: it is the only one that slows down
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
    """The mile that the road's signs say; they count from one end, whichever way one goes."""
    return round(mile if lane.dir == 0 else ROAD - mile, 4)
