"""Does a query do better if its scheduling strategy is reconsidered whenever a promise is broken?

A query of eight operators, observed and judged by the engine's own policy, is compared with the same query under each
fixed strategy. Cases: latency alone; a MUST latency beside memory without weight; both as MUST promises, with less and
less memory (QoS book, figures 10.7 to 10.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.control.observation import QueryObservation
from headrace.control.policies.strategy import Past, UseStrategy, judge
from headrace.control.promise_checks import promise_checks, promise_phase
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.qos.three_streams import Watched, feed, network, watch
from headrace.model.qos import Curve, Promise, Qos, Strictness
from headrace.model.time import SECOND
from headrace.testing.simulation.stations import Processor

FIXED = ("path-capacity", "segment", "simplified")
CHOSEN = "chosen"
MB = 2.0**20
HIGH, LOW = (2000.0, 1800.0, 2200.0), (800.0, 950.0, 500.0)
#: Factors of the rates, stretch by stretch: pauses and doublings.
FEED = (1, 1, 2, 0.5, 1, 2, 0, 1, 1, 2, 0.5, 1, 1, 2, 0.5, 1, 2, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class Case:
    """Rates as the share of the processor that they need, and the promises of the query."""

    name: str
    rates: tuple[float, float, float]
    load: float
    latency: tuple[float, Strictness]
    memory: tuple[float, float, Strictness] | None = None  # at first, and from the middle on


CASES = (
    Case("latency alone", HIGH, 0.85, (1.0, Strictness.BEST_EFFORT)),
    Case("memory is not cared for", LOW, 0.75, (0.5, Strictness.MUST), (10 * MB, 1 * MB, Strictness.DONT_CARE)),
    Case("both must hold", HIGH, 0.85, (0.5, Strictness.MUST), (10 * MB, 1 * MB, Strictness.MUST)),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of a step of the feed, of which there are 20, and seconds between two observations."""

    seconds: float
    every: float


SIZES: Mapping[Scale, Size] = {"quick": Size(1, 0.2), "normal": Size(4, 0.25), "full": Size(50, 3)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Run every case with every strategy."""
    by_case: dict[str, dict[str, Watched]] = {}
    parts = [(case, name) for case in CASES for name in (CHOSEN, *FIXED)]
    for done, (case, name) in enumerate(parts):
        trial.progress(f"{case.name}: {name}", done, len(parts))
        by_case.setdefault(case.name, {})[name] = simulate(case, name, size, trial.seed)
    notes = (
        f"virtual time, {len(FEED) * size.seconds:g} s per run (published: about 1,000 s), "
        f"observed every {size.every:g} s (published: 3 s)",
        "rates are published; costs of operators are not, so they are set to a load of 75 or 85 %, "
        "before the rates double at times",
        "strategies are chosen by observations, starting with segments; "
        f"the memory promise falls after {len(FEED) * size.seconds / 2:g} s",
    )
    return Outcome(tuple(_findings(by_case, size)), _panels(by_case, size), notes)


def promises(case: Case, size: Size) -> Qos:
    """Return the promises as the query would write them; memory changes in the middle."""
    seconds, strictness = case.latency
    latency = Promise(Curve(((0, seconds * SECOND),)), strictness)
    if case.memory is None:
        return Qos(latency=latency)
    before, after, care = case.memory
    half = round(len(FEED) * size.seconds / 2 * SECOND)
    return Qos(latency=latency, memory=Promise(Curve(((0, before), (half - 1, before), (half, after))), care))


def simulate(case: Case, name: str, size: Size, seed: int) -> Watched:
    """Run once, with a fixed strategy or with one that is judged at each observation."""
    plan = network(case.rates, case.load)
    arrivals = feed(plan, FEED, size.seconds, seed)
    if name != CHOSEN:
        return watch(plan, arrivals, name, None, every=size.every, seed=seed)
    return watch(plan, arrivals, "segment", _Judge(promises(case, size), size.every), every=size.every, seed=seed)


class _Judge:
    """A judge that remembers what was chosen and why, and looks slightly ahead."""

    def __init__(self, qos: Qos, every: float) -> None:
        self._qos, self._lookahead = qos, round(every / 2 * SECOND)
        self._current, self._past = "segment", Past()

    def __call__(self, processor: Processor, moment: float, observed: QueryObservation) -> str | None:
        elapsed = round(moment * SECOND)
        self._past = self._past.at(promise_phase(self._qos, elapsed))
        verdict = judge(promise_checks(self._qos, observed, elapsed, self._lookahead), self._current, self._past)
        if not isinstance(verdict, UseStrategy):
            return None
        self._current, self._past = verdict.strategy, verdict.past
        return verdict.strategy


def broken(watched: Watched, case: Case, size: Size, measure: str) -> float:
    """Return the share of observations at which a promise did not hold."""
    qos = promises(case, size)
    kept = [
        check.is_kept
        for moment, observed in watched.looks
        for check in promise_checks(qos, observed, round(moment * SECOND))
        if check.measure == measure
    ]
    return 1 - sum(kept) / len(kept) if kept else 0.0


def _findings(by_case: Mapping[str, Mapping[str, Watched]], size: Size) -> Iterator[Finding]:
    latency, careless, both = CASES
    half = len(FEED) * size.seconds / 2
    runs = by_case[latency.name]
    names = [name for _, name in runs[CHOSEN].strategies]
    yield Finding(
        "latency alone: strategies, in turn",
        ", then ".join(names),
        claim(names == ["segment", "path-capacity"]),
        "segment, then path-capacity",
    )
    after = runs[CHOSEN].strategies[-1][0] + size.seconds
    ratio = runs[CHOSEN].latency(after) / runs["path-capacity"].latency(after)
    yield Finding("latency alone: then, to fixed path-capacity", ratio, near(ratio, 1.0, 0.1), "equal", None, "x")
    best = min(FIXED, key=lambda name: runs[name].latency())
    yield Finding("latency alone: fixed strategy with the least", best, claim(best == "path-capacity"), "path-capacity")

    runs = by_case[careless.name]
    names = [name for _, name in runs[CHOSEN].strategies[1:]]
    yield Finding(
        "memory is not cared for: chosen",
        ", then ".join(names) or "nothing",
        claim(set(names) <= {"path-capacity"}),
        "path-capacity only",
    )
    changes = [at for at, _ in runs[CHOSEN].strategies if at > half]
    yield Finding(
        "memory is not cared for: changes when its promise falls", float(len(changes)), claim(not changes), "none"
    )

    runs = by_case[both.name]
    names = [name for _, name in runs[CHOSEN].strategies]
    first = names[1] if len(names) > 1 else "none"
    yield Finding(
        "both must hold: first choice", first, claim(first == "path-capacity"), "path-capacity, as memory is loose"
    )
    later = [(at, name) for at, name in runs[CHOSEN].strategies if at >= half]
    saving = [name for _, name in later if name in ("segment", "simplified")]
    description = ", ".join(f"{name} at {at:.3g} s" for at, name in later[:4]) or "none"
    yield Finding(
        f"both must hold: once memory is tight ({half:g} s)", description, claim(bool(saving)), "segment or simplified"
    )
    ratio = runs[CHOSEN].memory(half) / max(1.0, runs["path-capacity"].memory(half))
    yield Finding(
        "both must hold: memory then, to fixed path-capacity", ratio, claim(ratio < 0.9), "drops visibly", None, "x"
    )
    shares = {
        name: (broken(watched, both, size, "latency"), broken(watched, both, size, "memory"))
        for name, watched in runs.items()
    }
    for place, measure in enumerate(("latency", "memory")):
        ours = shares[CHOSEN][place]
        others = {name: shares[name][place] for name in FIXED}
        description = f"{ours:.1%}; " + ", ".join(f"{name} {share:.1%}" for name, share in others.items())
        yield Finding(
            f"both must hold: looks at which {measure} is broken",
            description,
            claim(ours <= min(others.values())),
            "less than any fixed strategy",
        )
    sums = {name: sum(pair) for name, pair in shares.items()}
    least = min(sums, key=lambda name: sums[name])
    yield Finding("both must hold: fewest broken promises in all", least, claim(least == CHOSEN), CHOSEN)


def _panels(by_case: Mapping[str, Mapping[str, Watched]], size: Size) -> tuple[Panel, ...]:
    panels = []
    for case in CASES:
        curves = [
            Series(name, tuple((at, look.latency) for at, look in watched.looks if look.latency is not None))
            for name, watched in by_case[case.name].items()
        ]
        panels.append(
            Panel(
                f"{case.name.capitalize()}: latency",
                "time, s",
                "s",
                (*curves, Series("promised", ((0, case.latency[0]),), "level")),
            )
        )
    case = CASES[-1]
    held = [
        Series(name, tuple((at, look.memory / MB) for at, look in watched.looks if look.memory and look.memory > 1e4))
        for name, watched in by_case[case.name].items()
    ]
    end, half = len(FEED) * size.seconds, len(FEED) * size.seconds / 2
    promised = Series("promised", ((0, 10), (half, 10), (half, 1), (end, 1)), "dashed")
    panels.append(Panel(f"{case.name.capitalize()}: memory", "time, s", "MB", (*held, promised), log_y=True))
    return tuple(panels)
