"""The scheduling strategy that serves a query best: scores over broken promises, and a guard against circles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headrace.control.promise_checks import PromiseCheck
from headrace.model.qos import Metric, Strictness

#: How well each strategy serves each measure; 4 is best.
RANKS: Mapping[str, Mapping[Metric, int]] = {
    "round-robin": {"latency": 2, "memory": 2, "throughput": 2, "smoothness": 2},
    "path-capacity": {"latency": 4, "memory": 1, "throughput": 4, "smoothness": 4},
    "segment": {"latency": 1, "memory": 4, "throughput": 1, "smoothness": 1},
    "simplified": {"latency": 3, "memory": 3, "throughput": 3, "smoothness": 3},
}
#: From the strictest down.
CLASSES = (Strictness.MUST, Strictness.BEST_EFFORT, Strictness.DONT_CARE)
#: A query goes in circles when it would return to a strategy for the same reason after so many returns.
MAX_RETURNS = 2


class Considered(Struct, frozen=True):
    """A measure that counts, with its weight."""

    measure: Metric
    weight: float


class Change(Struct, frozen=True):
    """A change of strategy in the past: the new strategy, and the measures that were broken and kept then."""

    strategy: str
    broken: frozenset[Metric]
    kept: frozenset[Metric]


class Past(Struct, frozen=True):
    """The changes of a query's strategy in the current phase of its promises."""

    changes: tuple[Change, ...] = ()
    phase: int = 0

    def at(self, phase: int) -> Past:
        """Return the past without its changes if another phase has begun."""
        return self if phase == self.phase else Past((), phase)


class Keep(Struct, frozen=True):
    """Keep the strategy: all promises hold, or no strategy is known to be better.

    `must_is_broken` says that a MUST promise does not hold although no strategy would serve it better; only shedding
    can help.
    """

    scores: dict[str, float] = {}
    must_is_broken: bool = False


class UseStrategy(Struct, frozen=True):
    """Use another strategy."""

    strategy: str
    past: Past
    scores: dict[str, float]
    in_circles: bool = False


Verdict = Keep | UseStrategy


def weigh(checks: Iterable[PromiseCheck]) -> tuple[Considered, ...]:
    """Return the measures that count.

    These are the broken ones of the strictest class that has any, and the kept ones of stricter classes, which count
    less the safer they are.
    """
    known = tuple(checks)
    broken = [check for check in known if not check.is_kept]
    if not broken:
        return ()
    top = min(CLASSES.index(check.strictness) for check in broken)
    strictest = [check for check in broken if CLASSES.index(check.strictness) == top]
    stricter = [check for check in known if check.is_kept and CLASSES.index(check.strictness) < top]
    return (
        *(Considered(check.measure, check.strictness.weight) for check in strictest),
        *(Considered(check.measure, _reduced(check)) for check in stricter),
    )


def scores(considered: Sequence[Considered]) -> dict[str, float]:
    """Return the score of each strategy."""
    return {
        name: sum(measure.weight * ranks[measure.measure] / len(RANKS) for measure in considered)
        for name, ranks in RANKS.items()
    }  # (10.1)


def judge(checks: Sequence[PromiseCheck], current: str, past: Past) -> Verdict:
    """Choose a strategy for one query."""
    broken = frozenset(check.measure for check in checks if not check.is_kept)
    kept = frozenset(check.measure for check in checks if check.is_kept)
    if not broken:
        return Keep()
    worth = scores(weigh(checks))
    best = _best(worth, current)
    in_circles = best != current and _in_circles(best, broken, kept, past)
    if in_circles:
        # serve what is broken now and what was broken before the last change together
        both = [check for check in checks if check.measure in broken | past.changes[-1].broken]
        worth = scores([Considered(check.measure, check.strictness.weight) for check in both])
        best = _best(worth, current)
    if best == current:
        must_is_broken = any(not check.is_kept and check.strictness is Strictness.MUST for check in checks)
        return Keep(worth, must_is_broken)
    return UseStrategy(best, _noted(past, best, broken, kept), worth, in_circles)


def _best(worth: Mapping[str, float], current: str) -> str:
    """Return the strategy with the highest score; the current one if no score is higher."""
    name = max(worth, key=lambda strategy: worth[strategy])
    return name if worth[name] > worth.get(current, 0.0) + 1e-9 else current


def _noted(past: Past, strategy: str, broken: frozenset[Metric], kept: frozenset[Metric]) -> Past:
    return Past((*past.changes, Change(strategy, broken, kept)), past.phase)


def _in_circles(strategy: str, broken: frozenset[Metric], kept: frozenset[Metric], past: Past) -> bool:
    """Return whether this strategy was taken for the same reason, and left for the opposite one, often enough."""
    back = [
        change
        for change in past.changes
        if change.strategy == strategy and change.broken <= broken and change.kept <= kept
    ]
    away = [
        change
        for change in past.changes
        if change.strategy != strategy and change.broken <= kept and change.kept <= broken
    ]
    return len(back) >= MAX_RETURNS and len(away) >= MAX_RETURNS


def _reduced(check: PromiseCheck) -> float:
    lower = CLASSES[CLASSES.index(check.strictness) + 1].weight
    return check.strictness.weight - check.slack * (check.strictness.weight - lower)  # (10.3)
