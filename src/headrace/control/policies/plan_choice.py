"""Whether a join of several inputs goes on with its plan, or changes to a better one.

A change must pay for itself, and last. So a plan has to win two looks running, save a fifth of the work, and return
twice the price of the change within the time that plans have stayed best lately. The second look waits until the plan
that runs has wasted as much as the change takes, and at most some seconds: so cheap changes follow a drift at once. A
plan whose prediction proved wrong is barred for some minutes, so that the optimizer does not swing. Winners are
remembered by the statistics that they won with: if these come back, one look is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.join_tree import Tree, canonical
from headrace.model.time import SECOND
from headrace.optimizer.joins.choose import choose
from headrace.optimizer.joins.cost import Plan
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import Estimates

#: A change must save this share of the work, and so many busy seconds per second.
LEAST_SHARE, LEAST_WORK = 0.2, 0.02
#: It must return so many times its price within the time that plans stay best, which is at least so long (seconds).
RETURN, HORIZON = 2.0, 30.0
#: The longest time until the look that confirms another, in seconds.
CONFIRMING = 4.0
#: A change that pays off this soon (seconds) may go to another plan than the one that won before.
CHEAP = 0.5
#: The shortest time between two changes: times its price, so that changes take a hundredth of the time at most, within
#: these seconds; and times the duration of the last change.
PRICES, LEAST_PAUSE, PAUSE = 100.0, 1.0, 10.0
PAUSE_TIMES = 10.0
#: A prediction is wrong if the work is more than so many times as much; its plan is barred for this time (seconds).
WRONG, BARRED = 2.0, 300.0
#: At so many looks running.
TRIALS = 2
#: How many winners are remembered, and over how many of their spells the horizon is a mean.
LIBRARY, SPELLS = 64, 4

Signature = tuple[int, ...]


class Look(Struct, frozen=True):
    """What is known at one look: the running plan and the front, in seconds of work per second and bytes.

    `price` returns the seconds of work of a change to a plan. `work` is what the running plan has taken per second
    since the last look (None: too few tuples), `predicted` what would be expected of it by samples of keys alone.
    `is_drifting` if the data differ by far more than chance allows from those of a look some seconds ago.
    """

    time: int
    running: Plan
    plans: Sequence[Plan]
    limits: Limits
    price: Callable[[Plan], float]
    signature: Signature = ()
    work: float | None = None
    predicted: float = 0.0
    scarce_memory: bool = False
    is_drifting: bool = False


class ChoiceMemory(Struct, frozen=True):
    """What is remembered of one join from look to look; times in microseconds, spells in seconds."""

    winner: Tree | None = None
    won: int = 0  # when it became the best
    spells: tuple[float, ...] = ()
    changed: int | None = None
    lasted: float = 0.0  # seconds that the last change took
    library: Mapping[Signature, Tree] = {}
    barred: Mapping[str, int] = {}  # until when, by the text of the tree
    confirming: float | None = None  # seconds until another look is to confirm a better plan, if there is one
    unproved: int = 0  # looks at a new plan that its work may exceed the prediction, before it is barred

    @property
    def horizon(self) -> float:
        """Return for how long a plan may be expected to stay the best, in seconds."""
        return max(HORIZON, sum(self.spells) / len(self.spells)) if self.spells else HORIZON

    def is_barred(self, plan: Plan, time: int) -> bool:
        """Return whether a plan may not be chosen at a time."""
        return self.barred.get(_name(plan.tree), 0) > time


class Choice(Struct, frozen=True):
    """The outcome of a look: the best plan, whether to change to it, and why, or why not.

    `wrong` is how many times its prediction the running plan needs, if it has just been barred.
    """

    best: Plan
    changes: bool
    why: str
    wrong: float = 0.0


def decide(memory: ChoiceMemory, look: Look) -> tuple[ChoiceMemory, Choice]:
    """Decide about the plan of one join."""
    memory, wrong = _checked(memory, look)
    allowed = [plan for plan in look.plans if not memory.is_barred(plan, look.time)] or [look.running]
    best = choose(allowed, look.limits, scarce="memory" if look.scarce_memory else "cpu")
    saved = look.running.cpu - best.cpu
    must = not look.limits.keeps(look.running) and look.limits.keeps(best)
    is_same = canonical(best.tree) == canonical(look.running.tree)
    if not must and saved < max(LEAST_SHARE * look.running.cpu, LEAST_WORK):
        memory = replace(_won(memory, look, look.running.tree), confirming=None)
        why = "it runs" if is_same else _too_little(saved, look.running.cpu)
        return memory, Choice(best, False, why, wrong)
    known = memory.library.get(look.signature)
    price = look.price(best)
    is_second = canonical(best.tree) in (memory.winner, known)
    if memory.confirming is not None and price <= CHEAP * saved:
        is_second = True  # the plan that runs has lost twice
    memory = _won(memory, look, best.tree)
    memory = replace(memory, confirming=None if is_second else _patience(look, saved, price))
    why_not = _hindrance(memory, look, saved, price, must=must, is_second=is_second)
    if why_not:
        return memory, Choice(best, False, why_not, wrong)
    memory = replace(memory, changed=look.time, unproved=TRIALS)
    return memory, Choice(best, True, _reason(look, best, saved, price, must=must), wrong)


def ended(memory: ChoiceMemory, seconds: float) -> ChoiceMemory:
    """Return the memory after a change of plan that took some seconds."""
    return replace(memory, lasted=seconds)


def signature_of(estimates: Estimates) -> Signature:
    """Return statistics rounded to powers of two: rates, and selectivities of pairs."""
    count = len(estimates.graph.streams)
    rates = (stream.rate for stream in estimates.graph.streams)
    pairs = (estimates.selectivity(1 << one | 1 << other) for other in range(count) for one in range(other))
    return tuple(round(math.log2(max(value, 1e-9))) for value in (*rates, *pairs))


def _checked(memory: ChoiceMemory, look: Look) -> tuple[ChoiceMemory, float]:
    """Compare what a new plan takes with what samples say of it; a plan that needs far more at two looks is barred.

    Both are of the same time: data that have changed since are no wrong prediction. Nor is a machine that was busy with
    something else for a moment.
    """
    barred = {name: until for name, until in memory.barred.items() if until > look.time}
    memory = replace(memory, barred=barred)
    if not memory.unproved or look.work is None:
        return memory, 0.0
    off = look.work / look.predicted if look.predicted > 0 else 1.0
    if off <= WRONG or look.work - look.predicted < LEAST_WORK:
        return replace(memory, unproved=0), 0.0
    memory = replace(memory, unproved=memory.unproved - 1)
    if memory.unproved:
        return memory, 0.0
    until = look.time + round(BARRED * SECOND)
    # the statistics with which it won mislead
    library = {found: tree for found, tree in memory.library.items() if tree != canonical(look.running.tree)}
    return replace(memory, barred={**barred, _name(look.running.tree): until}, library=library), off


def _won(memory: ChoiceMemory, look: Look, tree: Tree) -> ChoiceMemory:
    """Remember the winner of a look, and how long the one before stayed the best."""
    winner = canonical(tree)
    library = dict(memory.library)
    library.pop(look.signature, None)
    library[look.signature] = winner
    while len(library) > LIBRARY:
        library.pop(next(iter(library)))
    if memory.winner is None:
        return replace(memory, winner=winner, won=look.time, library=library)
    if memory.winner == winner:
        return replace(memory, library=library)
    spell = (look.time - memory.won) / SECOND
    return replace(memory, winner=winner, won=look.time, spells=(*memory.spells, spell)[-SPELLS:], library=library)


def _patience(look: Look, saved: float, price: float) -> float:
    """Return the seconds until a better plan is to be confirmed: those in which as much is wasted as it takes.

    Without a drift of the data the two looks might see the same noise, so they are further apart.
    """
    return min(CONFIRMING, price / saved) if look.is_drifting and saved > 0 else CONFIRMING


def _hindrance(memory: ChoiceMemory, look: Look, saved: float, price: float, *, must: bool, is_second: bool) -> str:
    """Return why a better plan is not taken yet; nothing if it is."""
    if not is_second:
        return "was not the best plan at the look before"
    if not must and saved * memory.horizon < RETURN * price:
        return f"the change takes {price:.2f} s of work, and pays off only after {price / saved:.0f} s"
    if memory.changed is not None:
        pause = min(PAUSE, max(LEAST_PAUSE, PRICES * price))
        rest = max(pause, PAUSE_TIMES * memory.lasted) - (look.time - memory.changed) / SECOND
        if rest > 0:
            return f"the plan has just changed; {rest:.0f} s to wait"
    return ""


def _reason(look: Look, best: Plan, saved: float, price: float, *, must: bool) -> str:
    said = f"{best.cpu:.2g} s of work per second instead of {look.running.cpu:.2g}"
    if must:
        exceeded = "memory" if look.running.memory > look.limits.memory else "processor"
        said += f"; the plan of before exceeds what it may use of {exceeded}"
    if saved > 0:
        said += f"; the change takes {price * 1e3:.0f} ms and pays off after {price / saved:.0f} s"
    return said


def _too_little(saved: float, of: float) -> str:
    share = max(0.0, saved) / of if of > 0 else 0.0
    if share >= LEAST_SHARE:
        return f"saves {saved * 1e3:.1f} ms of work per second, less than {LEAST_WORK * 1e3:.0f} ms"
    return f"saves {share:.0%} of the work, less than {LEAST_SHARE:.0%}"


def _name(tree: Tree) -> str:
    return str(canonical(tree))
