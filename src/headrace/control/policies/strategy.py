"""Which scheduling strategy a query is best served by: scores over what is broken, a look ahead, and a guard against going in circles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headrace.analysis.forecast.verification import Measure
from headrace.control.standing import Standing
from headrace.model.qos import Strictness

#: How well each strategy serves each measure; 4 is best.
RANKS: Mapping[str, Mapping[Measure, int]] = {
    "round-robin": {"latency": 2, "memory": 2, "throughput": 2},
    "path-capacity": {"latency": 4, "memory": 1, "throughput": 4},
    "segment": {"latency": 1, "memory": 4, "throughput": 1},
    "simplified": {"latency": 3, "memory": 3, "throughput": 3},
}
#: From the strictest down.
CLASSES = (Strictness.MUST, Strictness.BEST_EFFORT, Strictness.DONT_CARE)
#: To come back to a strategy for the same reason so often is to go in circles.
MOST_RETURNS = 2


class Considered(Struct, frozen=True):
    """A measure that counts, and how much."""

    measure: Measure
    weight: float


class Change(Struct, frozen=True):
    """A change of strategy in the past: to what, and which measures were broken and kept then."""

    strategy: str
    broken: frozenset[Measure]
    kept: frozenset[Measure]


class Past(Struct, frozen=True):
    """What a query's strategy was changed to and why, since the stretch of its promises began."""

    changes: tuple[Change, ...] = ()
    stretch: int = 0

    def at(self, stretch: int) -> Past:
        """Forget all when another stretch of the promises begins."""
        return self if stretch == self.stretch else Past((), stretch)


class Keep(Struct, frozen=True):
    """All promises hold, or nothing better is known."""

    scores: dict[str, float] = {}


class Switch(Struct, frozen=True):
    """Use another strategy."""

    strategy: str
    past: Past
    scores: dict[str, float]
    in_circles: bool = False


class Relieve(Struct, frozen=True):
    """No strategy would do better, and a promise that must hold does not: shed."""

    scores: dict[str, float]


class Relax(Struct, frozen=True):
    """All promises hold: what is shed may end."""


Verdict = Keep | Switch | Relieve | Relax


def weigh(found: Iterable[Standing]) -> tuple[Considered, ...]:
    """Broken measures of the strictest class that has any, and kept ones of stricter classes, the less the safer they are."""
    standing = tuple(found)
    broken = [each for each in standing if not each.is_kept]
    if not broken:
        return ()
    top = min(CLASSES.index(each.strictness) for each in broken)
    counted = [
        Considered(each.measure, each.strictness.weight) for each in broken if CLASSES.index(each.strictness) == top
    ]
    return (
        *counted,
        *(
            Considered(each.measure, _reduced(each))
            for each in standing
            if each.is_kept and CLASSES.index(each.strictness) < top
        ),
    )


def scores(considered: Sequence[Considered]) -> dict[str, float]:
    """What each strategy would be worth."""
    return {
        name: sum(each.weight * ranks[each.measure] / len(RANKS) for each in considered)
        for name, ranks in RANKS.items()
    }  # (10.1)


def judge(found: Sequence[Standing], current: str, past: Past, *, shedding: bool) -> Verdict:
    """What to do about one query; `shedding` says whether anything is shed for it now."""
    broken = frozenset(each.measure for each in found if not each.is_kept)
    kept = frozenset(each.measure for each in found if each.is_kept)
    if not broken:
        return Relax() if shedding else Keep()
    worth = scores(weigh(found))
    best = _best(worth, current)
    if best == current:
        return _otherwise(found, worth)
    if not _in_circles(best, broken, kept, past):
        return Switch(best, _noted(past, best, broken, kept), worth)
    before = past.changes[-1].broken
    both = [each for each in found if each.measure in broken | before]
    worth = scores([Considered(each.measure, each.strictness.weight) for each in both])
    best = _best(worth, current)
    if best == current:
        return _otherwise(found, worth)
    return Switch(best, _noted(past, best, broken, kept), worth, in_circles=True)


def _otherwise(found: Sequence[Standing], worth: dict[str, float]) -> Verdict:
    must = any(not each.is_kept and each.strictness is Strictness.MUST for each in found)
    return Relieve(worth) if must else Keep(worth)


def _best(worth: Mapping[str, float], current: str) -> str:
    """The most valuable strategy; the current one if none is worth more."""
    name = max(worth, key=lambda strategy: worth[strategy])
    return name if worth[name] > worth.get(current, 0.0) + 1e-9 else current


def _noted(past: Past, strategy: str, broken: frozenset[Measure], kept: frozenset[Measure]) -> Past:
    return Past((*past.changes, Change(strategy, broken, kept)), past.stretch)


def _in_circles(strategy: str, broken: frozenset[Measure], kept: frozenset[Measure], past: Past) -> bool:
    """Whether this would be to come back, once more, though what was broken is kept now and the other way round."""
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
    return len(back) >= MOST_RETURNS and len(away) >= MOST_RETURNS


def _reduced(standing: Standing) -> float:
    lower = CLASSES[CLASSES.index(standing.strictness) + 1].weight
    return standing.strictness.weight - standing.slack * (standing.strictness.weight - lower)  # (10.3)
