"""How long does a change of plan take: at once, or with two plans side by side?

Experiments E8 to E10 of Zhu's dissertation (figures 16.1 to 16.4): from ((A B) C) D to A ((B C) D), with the real
operator in virtual time. The published formula (16.1) counts compared pairs and inserted rows. It takes intermediate
states to be purged by their newest part and so to be twice as large; ours are purged by their oldest part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.experiments.experiment import Finding, Outcome, Panel, Series, Trial
from headrace.experiments.judging import claim, near
from headrace.experiments.sample import Sample
from headrace.model.join_tree import Tree, parse_tree
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.optimizer.joins.cost import Costs
from headrace.testing.simulation.box import Chain, Run, simulate

OLD, NEW = parse_tree("(((A B) C) D)", "ABCD"), parse_tree("(A ((B C) D))", "ABCD")
#: A compared pair and an inserted row cost one unit each.
PAIRS = Costs(store=1.0, candidate=1.0)
KEYS = (10, 20, 50)
WINDOWS = {"quick": (1.0, 2.0), "normal": (1.0, 2.0, 5.0), "full": (1.0, 2.0, 5.0, 8.0)}
SEEDS = {"quick": 2, "normal": 8, "full": 20}
#: Units per second of a processor, for the crossing of figure 16.4.
CAPACITY = 50_000.0


@dataclass(frozen=True, slots=True)
class Length:
    """How long changes take: units of work at once, predicted by two formulas, and seconds of two plans together."""

    chain: Chain
    moving: Sample
    published: float
    oldest: float  # the formula for states that are purged by their oldest part
    parallel: Sample


def run(trial: Trial) -> Outcome:
    """Change the plan of joins with different windows and rates."""
    windows, seeds = WINDOWS[trial.scale], trial.seeds(SEEDS[trial.scale])
    by_window = []
    for done, window in enumerate(windows):
        trial.progress(f"window of {window:g} s", done, len(windows) + 3)
        by_window.append(measure(Chain((10, 10, 10, 10), KEYS, window), seeds))
    by_rate = []
    for done, rate in enumerate((10, 20, 40)):
        trial.progress(f"{rate} tuples/s of B", len(windows) + done, len(windows) + 3)
        by_rate.append(measure(Chain((20, rate, 20, 20), KEYS, 1.0), seeds))
    notes = (
        "units: compared pairs and inserted rows; means over seeds, with random arrivals",
        "a change with two plans ends when no row from before can meet a new one: one window, as rows are purged by "
        "their oldest part; the dissertation purges by the newest and needs two",
        f"crossing: formula (16.1) at {CAPACITY:,.0f} units per second against two windows",
    )
    return Outcome(tuple(_findings(by_window, by_rate)), tuple(_panels(by_window, by_rate)), notes)


def measure(chain: Chain, seeds: range) -> Length:
    """Change the plan after two windows, once at once and once with both plans."""
    moving = Sample(tuple(_units(_changed(chain, "moving", seed)) for seed in seeds))
    parallel = Sample(tuple(_seconds(_changed(chain, "parallel", seed)) for seed in seeds[:2]))
    return Length(chain, moving, published(chain, 2.0), published(chain, 1.0), parallel)


def published(chain: Chain, parts: float) -> float:
    """Return (16.1) in units; `parts` is 2 for states that are purged by their newest part, else 1."""
    _, b, c, d = (rate * chain.window for rate in chain.rates)
    _, bc, cd = chain.selectivities
    return b * c * (1 + bc) + parts * b * c * d * (bc + bc * cd)


def _changed(chain: Chain, how: How, seed: int) -> Run:
    start = 2.5 * chain.window
    is_done = False

    def policy(time: float, seen: BoxSeen, tick: float) -> tuple[Tree, How, int] | None:
        nonlocal is_done
        if time < start or is_done:
            return None
        is_done = True
        return NEW, how, 0

    seconds = start + (3 * chain.window if how == "parallel" else 1.0)
    return simulate(chain, OLD, seconds, costs=PAIRS, seed=seed, policy=policy, tick=chain.window / 20)


def _units(run: Run) -> float:
    """Return the work of the change itself: that of its moment less that of the tuples in it."""
    return run.change_work[0]


def _seconds(run: Run) -> float:
    start, end = run.changes[0]
    return end - start


def _findings(by_window: list[Length], by_rate: list[Length]) -> Iterator[Finding]:
    for length in by_window:
        window = length.chain.window
        yield Finding(
            f"E8: a change at once, window of {window:g} s",
            length.moving.mean,
            near(length.moving, length.published, 0.15),
            paper=length.published,
            unit="units",
        )
        yield Finding(
            f"the same, if rows are purged by their oldest part, {window:g} s",
            length.moving.mean,
            near(length.moving, length.oldest, 0.15),
            simulator=length.oldest,
            unit="units",
        )
    growth = by_window[-1].moving.mean / by_window[0].moving.mean
    factor = by_window[-1].chain.window / by_window[0].chain.window
    yield Finding(
        f"E8: growth if the window is {factor:g} times as long",
        growth,
        claim(growth > factor**1.8),
        paper="polynomial",
        unit="x",
    )
    for length in by_window:
        window = length.chain.window
        yield Finding(
            f"E8: both plans, window of {window:g} s",
            length.parallel.mean,
            near(length.parallel, 2 * window, 0.15),
            paper=2 * window,
            unit="s",
        )
        yield Finding(
            f"the same, if rows are purged by their oldest part, window of {window:g} s",
            length.parallel.mean,
            near(length.parallel, window, 0.15),
            simulator=window,
            unit="s",
        )
    lengths = [length.parallel.mean for length in by_rate]
    yield Finding(
        "E9: both plans, by the rate of B",
        ", ".join(f"{length:.2f} s" for length in lengths),
        claim(max(lengths) < 1.15 * min(lengths)),
        paper="flat",
    )
    units = [length.moving.mean for length in by_rate]
    yield Finding(
        "E9: at once, by the rate of B",
        ", ".join(f"{count:,.0f}" for count in units),
        claim(units == sorted(units) and units[-1] > 2 * units[0]),
        paper="rises",
    )
    crossing = _crossing()
    yield Finding(
        "E10: windows from which both plans are faster (model)",
        f"{crossing:.2g} s",
        claim(0.1 < crossing < 100),
        paper="beyond some window",
    )


def _crossing() -> float:
    """Return the window at which (16.1) takes as long as two windows, with the rates of E10."""
    low, high = 0.01, 1000.0
    for _ in range(60):
        middle = (low * high) ** 0.5
        taken = published(Chain((10, 1000 / 12, 1000 / 12, 1000 / 12), (10, 10, 10), middle), 2.0) / CAPACITY
        low, high = (middle, high) if taken < 2 * middle else (low, middle)
    return low


def _panels(by_window: list[Length], by_rate: list[Length]) -> Iterator[Panel]:
    xs = [length.chain.window for length in by_window]
    yield Panel(
        "E8: a change at once",
        "window (s)",
        "units",
        (
            Series("ours", tuple(zip(xs, (length.moving.mean for length in by_window), strict=True))),
            Series("(16.1), oldest part", tuple((x, y.oldest) for x, y in zip(xs, by_window, strict=True)), "dashed"),
            Series("(16.1) as printed", tuple((x, y.published) for x, y in zip(xs, by_window, strict=True)), "marks"),
        ),
        log_y=True,
    )
    yield Panel(
        "E8: both plans",
        "window (s)",
        "seconds",
        (
            Series("ours", tuple(zip(xs, (length.parallel.mean for length in by_window), strict=True))),
            Series("published: two windows", tuple((x, 2 * x) for x in xs), "marks"),
        ),
    )
    rates = [length.chain.rates[1] for length in by_rate]
    yield Panel(
        "E9: by the rate of B",
        "tuples/s",
        "units (at once)",
        (Series("at once", tuple(zip(rates, (length.moving.mean for length in by_rate), strict=True))),),
    )
