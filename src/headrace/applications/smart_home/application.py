"""A smart home: habits are learned and predicted, and rules act."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.applications.application import Application, Check, Results
from headrace.applications.smart_home.days import START, Days, days, write
from headrace.applications.smart_home.house import actions


@dataclass(frozen=True)
class SmartHome(Application):
    """Light where somebody goes next, stoves that were left on, and burglars in empty houses."""

    homes: int = 4
    days: int = 3

    name = "smart-home"
    title = "Houses that predict where people go next, switch stoves off and notice burglars"
    folder = "smart_home"
    shown = ("stove", "police")
    watched = ("light",)

    def prepare(self, folder: Path, seed: int) -> None:
        write(self._days(seed), folder / "data")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Check that each light follows the habit, and that each stove left on and each burglary is found once."""
        planted = self._days(seed)
        lights = sorted((row["home"], row["next"], _second(row["at"])) for row in results["light"])
        stoves = sorted((row["home"], _second(row["at"])) for row in results["stove"])
        burglaries = sorted((row["home"], row["room"]) for row in results["police"])
        done = [len(actions(folder, what)) for what in ("light", "stove", "alarm")]
        return (
            Check("stoves left on, by house and second", sorted(planted.stoves), stoves),
            Check("burglaries, by house and room", sorted(planted.burglaries), burglaries),
            Check("lights switched on ahead, by house, room and second", planted.lights(), lights),
            Check("actions of the houses: lights, stoves, alarms", [len(lights), len(stoves), len(burglaries)], done),
        )

    def _days(self, seed: int) -> Days:
        return days(seed, homes=self.homes, count=self.days)


def _second(at: dt.datetime) -> int:
    return round((at - START).total_seconds())
