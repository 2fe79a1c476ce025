"""Does the model predict the latency of a plan among others, if plans take turns as a whole or operator by operator?

16 queries run on one processor in rounds. Each operator is gated: it serves the tuples that wait when its turn begins.
Hierarchical rounds run plan after plan from the leaves up; global rounds run three other plans between any two
operators of the published plan (QoS book, tables 5.3 to 5.5, and the text on lower loads and on exhaustive service).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.analysis.forecast.network import Network
from headrace.analysis.forecast.solver import forecast
from headrace.experiments.experiment import Finding, Outcome, Panel, Range, Scale, Series, Trial, Verdict
from headrace.experiments.judging import claim, fitted, near
from headrace.experiments.qos.workload import TARGET, TARGET_STATIONS, at_load, stations_of, workload
from headrace.experiments.sample import Sample
from headrace.testing.simulation.rounds import SimulatedRounds

PLAN = "plan"
WHAT = (*TARGET_STATIONS, PLAN)
#: Seconds by operator and for the plan: theory, best and worst run.
PUBLISHED: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "hierarchical": {
        "O1": (0.14690, 0.14868, 0.18849),
        "O2": (0.147114, 0.149151, 0.188792),
        "O3": (0.0023277, 0.0024561, 0.00318175),
        "O4": (0.146988, 0.14665, 0.186408),
        "O5": (0.00264285, 0.0025963, 0.0032960),
        PLAN: (0.15111, 0.15127, 0.19204),
    },
    "global": {
        "O1": (0.147114, 0.152936, 0.169569),
        "O2": (0.146114, 0.149876, 0.162786),
        "O3": (0.079383, 0.083768, 0.092675),
        "O4": (0.14690, 0.15308, 0.169223),
        "O5": (0.075269, 0.076646, 0.084885),
        PLAN: (0.246832, 0.257601, 0.285188),
    },
}
#: The largest errors of the forecast that were published.
ERRORS = {"hierarchical": 0.213, "global": 0.135}
LOADS = (0.6, 0.7, 0.8, 0.84)


@dataclass(frozen=True, slots=True)
class Size:
    """Rounds for each seed."""

    seeds: int
    rounds: int


SIZES: Mapping[Scale, Size] = {"quick": Size(2, 150), "normal": Size(6, 700), "full": Size(10, 60_000)}


@dataclass(frozen=True, slots=True)
class Compared:
    """Seconds by operator and for the plan, predicted and simulated."""

    predicted: Mapping[str, float]
    simulated: Mapping[str, Sample]

    def error(self, what: str = PLAN) -> float:
        """Return the relative difference between simulation and forecast."""
        return abs(self.simulated[what].mean - self.predicted[what]) / self.predicted[what]


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Compare both orders at 90 % load, the first also with exhaustive service, and at lower loads."""
    parts = 3 + len(LOADS)
    networks = {"hierarchical": workload(trial.seed), "global": global_order(workload(trial.seed))}
    comparisons: dict[str, Compared] = {}
    for done, (name, network) in enumerate(networks.items()):
        trial.progress(f"{name} rounds", done, parts)
        comparisons[name] = compare(network, size, trial)
    trial.progress("exhaustive service", 2, parts)
    exhaustive = compare(replace(networks["hierarchical"], discipline="exhaustive"), size, trial)
    lower: dict[float, Compared] = {}
    for done, load in enumerate(LOADS):
        trial.progress(f"load {load:.0%}", 3 + done, parts)
        lower[load] = compare(
            at_load(networks["hierarchical"], load), replace(size, seeds=max(2, size.seeds // 2)), trial
        )
    findings = (*_tables(comparisons), *_claims(comparisons, exhaustive, lower))
    notes = (
        f"virtual time: {size.seeds} seeds of {size.rounds:,} rounds "
        f"({0.29 * size.rounds * size.seeds / 60:.0f} min; published: 5 to 8 h)",
        "all queries except the published plan are random, and one published wait (O1) fixes the length of a round, "
        "so that row is no evidence",
        "the rates of the plan's three streams are not published; here all five streams have the same rate",
        "the simulator's column is the forecast of the model, with the misprinted formulas corrected",
    )
    return Outcome(
        findings,
        (*(_panel(name, comparisons[name]) for name in comparisons), _load_panel(lower, comparisons["hierarchical"])),
        notes,
    )


def global_order(network: Network) -> Network:
    """Return one operator of the published plan, then three other plans, and so on; rounds keep their length."""
    others = [stations_of(network, name) for name in network.queries if name != TARGET]
    order = []
    for place, station in enumerate(stations_of(network, TARGET)):
        order.append(station)
        for plan in others[place :: len(TARGET_STATIONS)]:
            order += plan
    return replace(network, stations=tuple(order))


def compare(network: Network, size: Size, trial: Trial) -> Compared:
    """Predict and simulate one network."""
    expected = forecast(network)
    predicted = {name: expected.stations[name].wait for name in TARGET_STATIONS} | {
        PLAN: expected.queries[TARGET].latency
    }
    runs = [SimulatedRounds(network, size.rounds, seed) for seed in trial.seeds(size.seeds)]
    simulated = {name: Sample(tuple(rounds.wait(name) for rounds in runs)) for name in TARGET_STATIONS}
    return Compared(predicted, simulated | {PLAN: Sample(tuple(rounds.latency(TARGET) for rounds in runs))})


def _tables(comparisons: Mapping[str, Compared]) -> Iterator[Finding]:
    for name, compared in comparisons.items():
        for what in WHAT:
            theory, best, worst = PUBLISHED[name][what]
            ours = compared.simulated[what]
            is_fitted = (name, what) == ("hierarchical", "O1")  # the first wait sets how long a round is
            verdict = (fitted if is_fitted else near)(ours, Range(min(theory, best), worst), 0.1)
            yield Finding(f"{name}: {what}", ours.mean, verdict, Range(best, worst), compared.predicted[what], "s")


def _claims(
    comparisons: Mapping[str, Compared], exhaustive: Compared, lower: Mapping[float, Compared]
) -> Iterator[Finding]:
    for name, compared in comparisons.items():
        errors = [compared.error(what) for what in WHAT]
        yield Finding(
            f"{name}: largest error of the forecast",
            100 * max(errors),
            claim(max(errors) <= ERRORS[name]),
            100 * ERRORS[name],
            None,
            "%",
        )
    every = [compared.error(what) for compared in comparisons.values() for what in WHAT]
    mean = sum(every) / len(every)
    yield Finding("error of the forecast on average", 100 * mean, claim(mean < 0.095), "below 9.5 %", None, "%")
    for load, comparison in lower.items():
        off = comparison.error()
        verdict = _surely(off, 2 * comparison.simulated[PLAN].error / comparison.predicted[PLAN], 0.03)
        yield Finding(
            f"load {100 * load:.0f} %: error of the forecast for the plan", 100 * off, verdict, "below 3 %", None, "%"
        )
    ratio = comparisons["global"].predicted[PLAN] / comparisons["hierarchical"].predicted[PLAN]
    yield Finding(
        "global to hierarchical: forecast for the plan", ratio, near(ratio, 1.63, 0.1), 0.246832 / 0.15111, None, "x"
    )
    measured = comparisons["global"].simulated[PLAN].mean / comparisons["hierarchical"].simulated[PLAN].mean
    yield Finding(
        "global to hierarchical: the plan",
        measured,
        near(measured, Range(1.485, 1.703), 0.1),
        Range(1.485, 1.703),
        ratio,
        "x",
    )
    saved = exhaustive.simulated[PLAN].mean / comparisons["hierarchical"].simulated[PLAN].mean
    predicted = exhaustive.predicted[PLAN] / comparisons["hierarchical"].predicted[PLAN]
    gated = comparisons["hierarchical"].simulated[PLAN]
    noise = 2 * math.hypot(exhaustive.simulated[PLAN].error, gated.error) / gated.mean
    yield Finding("exhaustive to gated: the plan", saved, _surely(saved, noise, 1.0), "slightly lower", predicted, "x")


def _surely(value: float, noise: float, limit: float) -> Verdict:
    """Judge whether a value is below a limit in spite of noise; consistent if noise may hide it."""
    if value < limit:
        return "confirmed" if value + noise < limit else "consistent"
    return "consistent" if value - noise < limit else "not confirmed"


def _panel(name: str, compared: Compared) -> Panel:
    series = [
        Series(
            "ours",
            tuple((float(place), 1000 * compared.simulated[what].mean) for place, what in enumerate(WHAT)),
            "bars",
        ),
        Series(
            "forecast",
            tuple((float(place), 1000 * compared.predicted[what]) for place, what in enumerate(WHAT)),
            "bars",
        ),
        Series(
            "published, best run",
            tuple((float(place), 1000 * PUBLISHED[name][what][1]) for place, what in enumerate(WHAT)),
            "marks",
            "ours",
        ),
        Series(
            "published, theory",
            tuple((float(place), 1000 * PUBLISHED[name][what][0]) for place, what in enumerate(WHAT)),
            "marks",
            "forecast",
        ),
    ]
    return Panel(
        f"{name.capitalize()} rounds at 90 %", "operator", "ms", tuple(series), log_y=name == "hierarchical", ticks=WHAT
    )


def _load_panel(lower: Mapping[float, Compared], high: Compared) -> Panel:
    every = {**lower, 0.9: high}
    series = (
        Series("ours", tuple((100 * load, 1000 * compared.simulated[PLAN].mean) for load, compared in every.items())),
        Series(
            "forecast",
            tuple((100 * load, 1000 * compared.predicted[PLAN]) for load, compared in every.items()),
            "dashed",
            "ours",
        ),
    )
    return Panel("Latency of the plan by load", "load, %", "ms", series)
