"""How often do the published heuristics find a plan within limits, compared with a search of all plans?

Experiment E5 of Zhu's dissertation (figure 8.10): joins of 3 to 20 streams, 100 random settings each. Its exhaustive
search lists whole plans and ran out of memory at 8 streams. Ours goes by sets of streams.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim
from headrace.experiments.plans.settings import Setting, bjtree_init, mjoin_init, random_setting
from headrace.model.join_tree import all_trees
from headrace.optimizer.joins.cost import Plan
from headrace.optimizer.joins.exact import exact_front
from headrace.optimizer.joins.fitting import Fitter
from headrace.optimizer.joins.front import Limits, front, qualified

#: Streams, settings of each, the most streams of the exact search, and of the enumeration of all trees.
SIZES = {
    "quick": ((3, 4, 5, 6, 8), 10, 5, 4),
    "normal": ((3, 4, 5, 6, 7, 8, 10, 12), 30, 7, 5),
    "full": (tuple(range(3, 21)), 100, 8, 5),
}


@dataclass(slots=True)
class Row:
    """What the searches found for one number of streams: counts of settings."""

    streams: int
    settings: int = 0
    mjoin: int = 0  # plans of MJoin-Init that are qualified
    bjtree: int = 0
    either: int = 0
    exact: int | None = None
    worse: int = 0  # settings in which the exact search misses a plan of a heuristic
    enumerated: int = 0  # settings whose trees were all listed
    different: int = 0  # of these, those with another front

    def share(self, count: int | None) -> float:
        """Return a count as a share of the settings."""
        return math.nan if count is None else count / self.settings


def run(trial: Trial) -> Outcome:
    """Search plans for random joins."""
    streams, settings, exact_up_to, listed_up_to = SIZES[trial.scale]
    rows = []
    for done, count in enumerate(streams):
        trial.progress(f"{count} streams", done, len(streams))
        rows.append(measure(count, settings, trial.seed, exact=count <= exact_up_to, listed=count <= listed_up_to))
    notes = (
        f"{settings} settings of each size; the published search took 100",
        "limits are drawn between the least and the most that the plans of the heuristics need, on a logarithmic scale",
    )
    return Outcome(tuple(_findings(rows)), (_panel(rows),), notes)


def measure(count: int, settings: int, seed: int, *, exact: bool, listed: bool) -> Row:
    """Search plans for random joins of one size."""
    chance, row = random.Random(f"{seed} {count}"), Row(count, exact=0 if exact else None)
    for number in range(settings):
        setting = random_setting(count, chance)
        row.settings += 1
        answers = [mjoin_init(setting), bjtree_init(setting)]
        kept = [setting.limits.keeps(plan) for plan in answers]
        row.mjoin, row.bjtree, row.either = row.mjoin + kept[0], row.bjtree + kept[1], row.either + any(kept)
        if row.exact is not None:
            best = exact_front(setting.model)
            row.exact += bool(qualified(best, setting.limits))
            row.worse += not all(_is_reached(plan, best) for plan in answers)
            if listed and (count < 5 or number < 5):
                row.enumerated += 1
                row.different += not _is_same(best, _listed(setting))
    return row


def _listed(setting: Setting) -> tuple[Plan, ...]:
    fitter = Fitter(setting.model)
    return front(fitter.plan(tree) for tree in all_trees(range(len(setting.model.graph.streams))))


def _is_same(one: tuple[Plan, ...], other: tuple[Plan, ...]) -> bool:
    costs = [[(plan.cpu, plan.memory) for plan in plans] for plans in (one, other)]
    return len(costs[0]) == len(costs[1]) and all(
        math.isclose(ours, theirs, rel_tol=1e-9)
        for plans in zip(*costs, strict=True)
        for ours, theirs in zip(*plans, strict=True)
    )


def _is_reached(plan: Plan, best: tuple[Plan, ...]) -> bool:
    """Return whether the front has a plan that is no worse in either respect."""
    limits = Limits(plan.cpu * (1 + 1e-9), plan.memory * (1 + 1e-9))
    return bool(qualified(best, limits))


def _findings(rows: list[Row]) -> Iterator[Finding]:
    searched = [row for row in rows if row.exact is not None]
    for name, ratios in (
        ("MJoin-Init", [row.mjoin / max(1, row.exact or 0) for row in searched]),
        ("BJTree-Init", [row.bjtree / max(1, row.exact or 0) for row in searched]),
        ("the better of both", [row.either / max(1, row.exact or 0) for row in searched]),
    ):
        least = min(ratios)
        yield Finding(
            f"{name}: qualified plans to those of the exact search, least of all sizes",
            100 * least,
            "confirmed" if least >= 0.9 else "consistent" if least >= 0.75 else "not confirmed",
            paper="near the exact search" if name != "the better of both" else None,
            unit="%",
        )
    largest = max(row.streams for row in searched)
    yield Finding(
        "search of all plans",
        f"by sets of streams, up to {largest} here",
        "not comparable",
        paper="by lists of plans: out of memory at 8",
    )
    yield Finding(
        "settings in which the exact search is worse than a heuristic",
        sum(row.worse for row in searched),
        claim(not any(row.worse for row in searched)),
    )
    yield Finding(
        f"fronts that differ from those of all trees ({sum(row.enumerated for row in rows)} settings)",
        sum(row.different for row in rows),
        claim(not any(row.different for row in rows)),
    )


def _panel(rows: list[Row]) -> Panel:
    searched = [row for row in rows if row.exact is not None]
    return Panel(
        "Settings in which a qualified plan is found",
        "streams",
        "share of settings",
        (
            Series("all plans", tuple((row.streams, row.share(row.exact)) for row in searched)),
            Series("MJoin-Init", tuple((row.streams, row.share(row.mjoin)) for row in rows)),
            Series("BJTree-Init", tuple((row.streams, row.share(row.bjtree)) for row in rows)),
        ),
    )
