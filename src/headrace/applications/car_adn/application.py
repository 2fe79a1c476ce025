"""Accidents on a motorway, detected by events over continuous queries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.applications.application import Application, Check, Results
from headrace.applications.car_adn.duty import AMBULANCES, calls
from headrace.applications.car_adn.traffic import START, Place, Traffic, nearest, traffic, write, write_stations


@dataclass(frozen=True)
class CarAdn(Application):
    """Which standing cars are accidents, and which drivers to warn."""

    accidents: int = 5
    cars: int = 120

    name = "car-adn"
    title = "Accidents on a motorway, notified once each"
    folder = "car_adn"
    shown = ("notify",)
    watched = ("warned", "ambulance", "toll")

    def prepare(self, folder: Path, seed: int) -> None:
        write(self._traffic(seed).reports, folder / "data" / "cars")
        write_stations(folder / "data" / "stations.csv")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Check that each accident is notified once, and that exactly the cars that approach one are warned."""
        planted = self._traffic(seed)
        notified = sorted(((place_of(row), row["at"]) for row in results["notify"]), key=lambda item: item[1])
        causes, remaining = [], sorted(planted.accidents, key=lambda item: item[1])
        for place, at in notified:
            minute = (at - START) / dt.timedelta(minutes=1)
            cause = next(
                (accident for accident in remaining if accident[0] == place and 0 <= minute - accident[1] <= 10), None
            )
            if cause is not None:
                remaining.remove(cause)
            causes.append(cause or (place, int(minute)))
        warnings = sum(
            1
            for place, at in notified
            for report in planted.reports
            if (report.lane.exp_way, report.lane.dir) == place[:2]
            and 1 <= (place.segment - report.place.segment) * (1 - 2 * place.dir) <= 2
            and at <= START + dt.timedelta(seconds=report.at) <= at + dt.timedelta(minutes=5)
        )
        return (
            Check("accidents notified, by place and minute", list(planted.accidents), sorted(causes)),
            Check("calls to the police", len(planted.accidents), len(calls(folder))),
            Check("warnings to cars that approach one", warnings, len(results["warned"])),
            Check(
                "ambulances, by place and station",
                sorted((*place, nearest(place)) for place, _ in notified),
                sorted((*place_of(row), row["station"]) for row in results["ambulance"]),
            ),
            Check("calls to ambulances", len(notified), len(calls(folder, AMBULANCES))),
            Check(
                "cars that pay no toll, by accident",
                sorted(_delayed(planted, [(place_of(row), row["at"], row["stopped"]) for row in results["notify"]])),
                sorted((row["carId"], row["since"]) for row in results["toll"]),
            ),
        )

    def _traffic(self, seed: int) -> Traffic:
        return traffic(seed, accidents=self.accidents, cars=self.cars)


def _delayed(planted: Traffic, notified: Sequence[tuple[Place, dt.datetime, int]]) -> set[tuple[int, dt.datetime]]:
    """Return the cars that report less than 20 miles an hour from the segment of an accident, in its ten minutes."""
    return {
        (report.car, at)
        for place, at, stopped in notified
        for report in planted.reports
        if (report.lane.exp_way, report.lane.dir, report.place.segment) == (place.exp_way, place.dir, place.segment)
        and round(report.speed, 1) < 20
        and report.car != stopped
        and at <= START + dt.timedelta(seconds=report.at) <= at + dt.timedelta(minutes=10)
    }


def place_of(row: Mapping[str, Any]) -> Place:
    """Return the place of a notification."""
    return Place(row["exp_way"], row["dir"], row["lane"], row["segment"])
