"""Which plans do the two published heuristics prefer: those with little memory, or those with little work?

Experiment E7 of Zhu's dissertation (figures 8.13 to 8.15): qualified plans for 3, 5 and 10 streams by memory and work.
MJoin-Init begins with the plan of least memory, BJTree-Init with one of little work, and each stops as soon as a plan
is qualified.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim
from headrace.experiments.plans.settings import bjtree_init, mjoin_init, random_setting
from headrace.optimizer.joins.cost import Plan

SIZES = {"quick": ((3, 5, 8), 20), "normal": ((3, 5, 10), 40), "full": ((3, 5, 10), 100)}


@dataclass(frozen=True, slots=True)
class Cloud:
    """The qualified plans of settings in which both heuristics found one."""

    streams: int
    pairs: tuple[tuple[Plan, Plan], ...]  # of MJoin-Init and of BJTree-Init

    @property
    def alike(self) -> float:
        """Return the share of settings in which both found plans of the same cost."""
        return sum(math.isclose(one.memory, other.memory) for one, other in self.pairs) / len(self.pairs)

    @property
    def apart(self) -> float:
        """Return the share of settings in which MJoin-Init needs less memory and at least as much work."""
        return sum(
            one.memory < other.memory * (1 - 1e-9) and one.cpu >= other.cpu * (1 - 1e-9) for one, other in self.pairs
        ) / len(self.pairs)

    @property
    def distance(self) -> float:
        """Return the typical ratio of memory, as an order of magnitude."""
        return sum(math.log10(other.memory / one.memory) for one, other in self.pairs) / len(self.pairs)


def run(trial: Trial) -> Outcome:
    """Collect qualified plans for random joins."""
    sizes, settings = SIZES[trial.scale]
    clouds = []
    for done, count in enumerate(sizes):
        trial.progress(f"{count} streams", done, len(sizes))
        chance = random.Random(f"{trial.seed} {count}")
        pairs = []
        for _ in range(settings):
            setting = random_setting(count, chance)
            found = mjoin_init(setting), bjtree_init(setting)
            if all(map(setting.limits.keeps, found)):
                pairs.append(found)
        clouds.append(Cloud(count, tuple(pairs)))
    notes = ("memory in tuples, work in units of the published model per second; each point is one setting",)
    return Outcome(tuple(_findings(clouds)), tuple(map(_panel, clouds)), notes)


def _findings(clouds: list[Cloud]) -> Iterator[Finding]:
    first, last = clouds[0], clouds[-1]
    yield Finding(
        f"{first.streams} streams: settings in which both find the same plan",
        100 * first.alike,
        claim(first.alike >= 0.3),
        paper="mixed",
        unit="%",
    )
    yield Finding(
        f"{last.streams} streams: MJoin-Init with less memory and more work",
        100 * last.apart,
        claim(last.apart >= 0.5),
        paper="separate",
        unit="%",
    )
    distances = [cloud.distance for cloud in clouds]
    yield Finding(
        "memory of BJTree-Init to that of MJoin-Init, by streams",
        ", ".join(f"{cloud.streams}: {10**cloud.distance:,.1f} x" for cloud in clouds),
        claim(distances == sorted(distances)),
        paper="grows with the streams",
    )


def _panel(cloud: Cloud) -> Panel:
    return Panel(
        f"{cloud.streams} streams",
        "memory (tuples)",
        "work (units/s)",
        (
            Series("MJoin-Init", tuple((one.memory, one.cpu) for one, _ in cloud.pairs), kind="marks"),
            Series("BJTree-Init", tuple((other.memory, other.cpu) for _, other in cloud.pairs), kind="marks"),
        ),
        log_x=True,
        log_y=True,
    )
