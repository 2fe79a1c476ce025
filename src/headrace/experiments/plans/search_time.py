"""How long does the search for a join plan take, as the number of streams grows?

Experiment E6 of Zhu's dissertation (figures 8.11 and 8.12): a search of all plans explodes, the two heuristics are
polynomial. Counts do not depend on the machine: whole plans, which the published search lists, and divisions of sets of
streams, which ours looks at.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim
from headrace.experiments.plans.settings import Setting, bjtree_init, mjoin_init, random_join
from headrace.optimizer.joins.cost import Model
from headrace.optimizer.joins.exact import count_divisions, exact_front
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.search import EXACT_RUNNING

#: The most streams of the exact search, streams of the heuristics, and settings of each.
SIZES = {
    "quick": (5, (3, 4, 5, 6, 8), 3),
    "normal": (7, (3, 4, 5, 6, 7, 8, 10, 12), 5),
    "full": (8, tuple(range(3, 21)), 20),
}
#: What a search may take while queries run.
TARGET = 0.050  # seconds, for six streams
#: Trees over so many streams, each of which the published search lists.
PLANS = {2: 1, 3: 4, 4: 26, 5: 236, 6: 2_752, 7: 39_208, 8: 660_032}


def run(trial: Trial) -> Outcome:
    """Time the searches in processor time, so that other work of the machine does not count."""
    exact_up_to, sizes, settings = SIZES[trial.scale]
    times: dict[str, dict[int, float]] = {"all plans": {}, "MJoin-Init": {}, "BJTree-Init": {}}
    for done, count in enumerate(sizes):
        trial.progress(f"{count} streams", done, len(sizes))
        chance = random.Random(f"{trial.seed} {count}")
        # no plan is qualified, so that the heuristics go on to their end
        joins = [Setting(random_join(count, chance), Limits(0.0, math.inf)) for _ in range(settings)]
        downward = [Setting(setting.model, Limits(0.0, 0.0)) for setting in joins]
        if count <= exact_up_to:
            times["all plans"][count] = _median(lambda setting: exact_front(setting.model), joins)
        times["MJoin-Init"][count] = _median(mjoin_init, joins)
        times["BJTree-Init"][count] = _median(bjtree_init, downward)
    notes = (f"processor time of one core, median of {settings} random joins of each size",)
    return Outcome(tuple(_findings(times)), tuple(_panels(times)), notes)


def degree(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of a line through the logarithms of points: the degree of a polynomial that grows like them."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    return statistics.linear_regression(xs, ys).slope


def _median(search: Callable[[Setting], object], joins: Sequence[Setting]) -> float:
    taken = []
    for setting in joins:
        fresh = Setting(Model(setting.model.graph, setting.model.costs), setting.limits)
        began = time.process_time()
        search(fresh)
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def _findings(times: dict[str, dict[int, float]]) -> Iterator[Finding]:
    exact = times["all plans"]
    largest = max(exact)
    growth = exact[largest] / exact[largest - 1]
    earlier = exact[largest - 1] / exact[largest - 2]
    yield Finding(
        f"search of all plans: growth from {largest - 1} to {largest} streams",
        f"{growth:.1f} x, after {earlier:.1f} x",
        claim(growth > 2.5),
        paper="explodes",
    )
    for name in ("MJoin-Init", "BJTree-Init"):
        found = degree([(count, taken) for count, taken in times[name].items() if count >= 4])
        yield Finding(
            f"{name}: growth with the number of streams", f"n to the {found:.1f}", claim(found < 6), paper="polynomial"
        )
    yield Finding(
        "8 streams: divisions to look at, instead of plans to list",
        f"{count_divisions(8):,} instead of {PLANS[8]:,}",
        claim(count_divisions(8) < PLANS[8]),
        paper="lists of plans fill the memory",
    )
    if EXACT_RUNNING in exact:
        yield Finding(
            f"search of all plans, {EXACT_RUNNING} streams (target: at most 50 ms)",
            exact[EXACT_RUNNING],
            claim(exact[EXACT_RUNNING] <= TARGET),
            unit="s",
        )


def _panels(times: dict[str, dict[int, float]]) -> Iterator[Panel]:
    yield Panel(
        "Time of a search",
        "streams",
        "processor time (ms)",
        tuple(
            Series(name, tuple((count, 1000 * taken) for count, taken in found.items()))
            for name, found in times.items()
        ),
        log_y=True,
    )
    yield Panel(
        "What a search of all plans looks at",
        "streams",
        "plans, divisions",
        (
            Series("plans (published)", tuple((count, float(plans)) for count, plans in PLANS.items())),
            Series("divisions of sets (ours)", tuple((count, float(count_divisions(count))) for count in PLANS)),
        ),
        log_y=True,
    )
