"""What does a query gain if it may lose some of its results?

The query has a latency promise that MUST hold, and 0, 10, 20 or 30 % of its results may be lost; its rates double at
times. The engine's policy chooses the best strategy first. If that is not enough it sheds, place by place, and stops
when the promise holds (QoS book, figures 10.12 and 10.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.analysis.forecast.network import Network
from headrace.analysis.shedding.allocation import Shed, shares
from headrace.analysis.shedding.places import Place, QueryPath, choose_places
from headrace.control.observation import QueryObservation
from headrace.control.policies.strategy import Keep, Past, UseStrategy, judge
from headrace.control.promise_checks import promise_checks
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim
from headrace.experiments.qos.shedding import operators_of
from headrace.experiments.qos.three_streams import QUERY, Watched, feed, network, watch
from headrace.model.qos import Curve, Promise, Qos, Strictness
from headrace.model.time import SECOND
from headrace.testing.simulation.stations import Processor

TOLERANCES = (0.0, 0.1, 0.2, 0.3)
RATES, LOAD, LATENCY = (1000.0, 750.0, 500.0), 0.65, 1.0
#: Factors of the rates, stretch by stretch.
FEED = (1, 2, 1, 0.5, 1, 2, 2, 0.5, 1, 2, 0.5, 1)


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of a step of the feed, of which there are 12, and seconds between two observations."""

    seconds: float
    every: float


SIZES: Mapping[Scale, Size] = {"quick": Size(2, 0.2), "normal": Size(10, 0.3), "full": Size(160, 3)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Run the same input with every tolerance."""
    runs: dict[float, Watched] = {}
    for done, tolerance in enumerate(TOLERANCES):
        trial.progress(f"tolerance {tolerance:.0%}", done, len(TOLERANCES))
        runs[tolerance] = simulate(tolerance, size, trial.seed)
    notes = (
        f"virtual time, {len(FEED) * size.seconds:g} s per run (published: about 2,000 s), "
        f"observed every {size.every:g} s",
        f"the costs of operators are not published; here the rates need {LOAD:.0%} of the processor, "
        f"and {2 * LOAD:.0%} while they are doubled",
        "the published curves are not in the text: only their order is judged",
    )
    return Outcome(tuple(_findings(runs)), _panels(runs), notes)


def simulate(tolerance: float, size: Size, seed: int) -> Watched:
    """Run once, starting with segments."""
    plan = network(RATES, LOAD)
    return watch(
        plan, feed(plan, FEED, size.seconds, seed), "segment", Relief(plan, tolerance), every=size.every, seed=seed
    )


class Relief:
    """A policy that chooses better strategies, and sheds at one more place while a MUST promise is still broken."""

    def __init__(self, plan: Network, tolerance: float) -> None:
        self._qos = Qos(latency=Promise(Curve(((0, LATENCY * SECOND),)), Strictness.MUST), error=tolerance)
        self._current, self._past = "segment", Past()
        self._places = places(plan, tolerance)
        self.active = 0

    def __call__(self, processor: Processor, moment: float, observed: QueryObservation) -> str | None:
        checks = promise_checks(self._qos, observed, round(moment * SECOND))
        match judge(checks, self._current, self._past):
            case UseStrategy(strategy=strategy, past=past):
                self._current, self._past = strategy, past
                self._shed(processor, 0)  # first see what it does
                return strategy
            case Keep(must_is_broken=True):
                self._shed(processor, min(len(self._places), self.active + 1))
            case Keep():
                if self.active and all(check.is_kept for check in checks):
                    self._shed(processor, self.active - 1)
        return None

    def _shed(self, processor: Processor, active: int) -> None:
        """Drop as much as allowed at each active place; the last place to start is the first to stop."""
        self.active = active
        processor.shed(shares([Shed(place, place.error) for place in self._places[:active]]))


def places(plan: Network, tolerance: float) -> list[Place]:
    """Return the places to shed at, best first."""
    if not tolerance:
        return []
    ways = {"s1": ("A", "C", "E", "F", "G", "H"), "s2": ("B", "C", "E", "F", "G", "H"), "s3": ("D", "E", "F", "G", "H")}
    paths = [QueryPath(QUERY, way, plan.streams[stream], tolerance) for stream, way in ways.items()]
    return sorted(choose_places(paths, operators_of(plan)), key=lambda place: -place.weight)


def _findings(runs: Mapping[float, Watched]) -> Iterator[Finding]:
    latencies = {tolerance: watched.latency() for tolerance, watched in runs.items()}
    held = {tolerance: watched.memory() for tolerance, watched in runs.items()}
    whole = runs[0.0]
    for tolerance, watched in runs.items():
        yield Finding(
            f"tolerance {100 * tolerance:.0f} %: mean latency", latencies[tolerance], "not comparable", None, None, "s"
        )
        if tolerance:
            lost = 1 - len(watched.seen.times) / len(whole.seen.times)
            yield Finding(
                f"tolerance {100 * tolerance:.0f} %: results lost",
                100 * lost,
                claim(0 < lost <= tolerance),
                "within it",
                None,
                "%",
            )
    for what, values in (("mean latency", latencies), ("mean memory", held)):
        falls = list(values.values()) == sorted(values.values(), reverse=True)
        ratio = values[TOLERANCES[-1]] / values[0.0]
        yield Finding(
            f"{what}: 30 % to 0 %", ratio, claim(falls and ratio < 1), "the lower, the more may be lost", None, "x"
        )
    first = [name for _, name in whole.strategies]
    yield Finding(
        "strategies without tolerance",
        ", then ".join(first),
        claim(first[1:2] == ["path-capacity"]),
        "path-capacity first",
    )
    dropped = [watched.seen.dropped for watched in runs.values()]
    yield Finding(
        "tuples dropped, 0 % and 30 %",
        f"{dropped[0]:,} and {dropped[-1]:,}",
        claim(dropped[0] == 0 < dropped[-1]),
        "none without tolerance",
    )


def _panels(runs: Mapping[float, Watched]) -> tuple[Panel, ...]:
    late, held = [], []
    for tolerance, watched in runs.items():
        name = f"{100 * tolerance:.0f} % may be lost"
        late.append(Series(name, tuple((at, look.latency) for at, look in watched.looks if look.latency is not None)))
        held.append(Series(name, tuple((at, (look.memory or 0.0) / 1000) for at, look in watched.looks)))
    promised = Series("promised", ((0, LATENCY),), "level")
    return Panel("Latency", "time, s", "s", (*late, promised)), Panel("Memory", "time, s", "kB in queues", tuple(held))
