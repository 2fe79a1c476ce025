"""At which point on the path of a tuple is dropping it cheapest?

Before a select, drops happen in an operator of its own (a), in a test in the select itself (b), in a thread (c), in a
test where tuples are stored (d), or not at all (e); the dropped share grows (QoS book, figure 7.2). This runs the real
engine in real time, so only ratios are reported.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.commands.command import ShedAt
from headrace.engine.engine import Engine
from headrace.experiments.experiment import Finding, Outcome, Panel, Scale, Series, Trial
from headrace.experiments.judging import claim
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.page import Page
from headrace.model.qos import Shedding
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.operators.specs import Filter, Output, Scan

DESIGNS = {
    "a": "an operator that drops",
    "b": "a test in the select",
    "c": "a thread that drops",
    "d": "a test where tuples are stored",
    "e": "none",
}
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
#: Tuples a page: as the book counts, and as the engine works.
PAGES = (1, 1000)
#: Pages that come before the engine runs.
TOGETHER = 20


@dataclass(frozen=True, slots=True)
class Size:
    """Pages for each point, and how often each is measured; the best counts."""

    pages: int
    repeats: int


SIZES: Mapping[Scale, Size] = {"quick": Size(100, 2), "normal": Size(500, 5), "full": Size(5000, 7)}


def run(trial: Trial) -> Outcome:
    """Run at the size of the trial's scale."""
    return report(SIZES[trial.scale], trial)


def report(size: Size, trial: Trial) -> Outcome:
    """Measure every design with every share."""
    points = [(page, design, share) for page in PAGES for design in DESIGNS for share in SHARES]
    speed = dict.fromkeys(points, 0.0)
    # round after round, so that whatever else the machine does for a while does not hit one point alone
    parts = [(seed, point) for seed in trial.seeds(size.repeats) for point in points]
    for done, (seed, (page, design, share)) in enumerate(parts):
        trial.progress(f"{DESIGNS[design]}, {share:.0%} dropped, pages of {page}", done, len(parts))
        speed[page, design, share] = max(speed[page, design, share], measure(design, share, page, size.pages, seed))
    notes = (
        f"processor time, {size.pages} pages per point, the best of {size.repeats}; "
        "ratios are to a select without shedder",
        "the book's engine processes single tuples; ours processes pages, for which a test costs little at any point",
    )
    return Outcome(tuple(_findings(speed)), tuple(_panel(speed, page) for page in PAGES), notes)


def measure(design: str, share: float, size: int, pages: int, seed: int) -> float:
    """Return how many tuples shedder and select together process per second of processor time."""
    chance = np.random.default_rng(seed)
    rows = pl.DataFrame({"x": chance.random(size), TS: np.zeros(size, np.int64)})
    engine = build(design, share)
    began = time.process_time()
    feed(engine, design, rows, pages, share, chance)
    return size * pages / max(1e-9, time.process_time() - began)


def build(design: str, share: float) -> Engine:
    """Return an engine with a select and a shedder."""
    engine = Engine(_graph(design, share))
    if design == "d":
        engine.use_shedders({("select", 0): ShedAt("select", 0, share, Shedding(), "q")} if share else {})
    return engine


def feed(
    engine: Engine, design: str, rows: pl.DataFrame, pages: int, share: float, chance: np.random.Generator
) -> None:
    """Feed pages and process them."""
    match design:
        case "a" | "b":
            _drawn(engine, rows, pages, chance)
        case "c":
            _threaded(engine, rows, pages, share, chance)
        case _:
            _work(engine, (Page(rows) for _ in range(pages)))


def _drawn(engine: Engine, rows: pl.DataFrame, pages: int, chance: np.random.Generator) -> None:
    """Return a test as an operator's: it compares a random number for each tuple."""
    _work(engine, (Page(rows.with_columns(pl.Series("u", chance.random(rows.height)))) for _ in range(pages)))


def _threaded(engine: Engine, rows: pl.DataFrame, pages: int, share: float, chance: np.random.Generator) -> None:
    """Drop in a thread, which hands over the rest."""
    handed: queue.SimpleQueue[Page | None] = queue.SimpleQueue()

    def drop() -> None:
        for _ in range(pages):
            kept = rows.filter(pl.Series(chance.random(rows.height) >= share))
            if kept.height:
                handed.put(Page(kept))
        handed.put(None)

    thread = threading.Thread(target=drop)
    thread.start()
    _work(engine, iter(handed.get, None))
    thread.join()


def _work(engine: Engine, pages: Iterable[Page]) -> None:
    """Feed some pages, then run the engine, as in a micro-batch."""
    for number, page in enumerate(pages, 1):
        engine.push("S", page)
        if number % TOGETHER == 0:
            engine.run()
            engine.take_results()
    engine.run()
    engine.take_results()


def _graph(design: str, share: float) -> Graph:
    columns = ("x", "u") if design in ("a", "b") else ("x",)
    half, drawn = _compare("<", "x", 0.5), _compare(">=", "u", share)
    vertices = [Vertex("S", Scan("S", columns))]
    if design == "a":
        vertices.append(Vertex("drop", Filter(drawn), ("S",)))
    condition = Call("and", (drawn, half), Type.BOOLEAN) if design == "b" else half
    vertices.append(Vertex("select", Filter(condition), (vertices[-1].id,)))
    return Graph((*vertices, Vertex("out", Output("q"), ("select",))))


def _compare(sign: str, column: str, value: float) -> Call:
    return Call(sign, (Column(column, Type.DOUBLE), Literal(value, Type.DOUBLE)), Type.BOOLEAN)


def _findings(speed: Mapping[tuple[int, str, float], float]) -> Iterator[Finding]:
    top = SHARES[-1]
    for page in PAGES:
        at = {design: speed[page, design, top] / speed[page, "e", 0.0] for design in DESIGNS}
        name = "tuple by tuple" if page == 1 else f"pages of {page}"
        for design in "abc":
            ratio = at["d"] / at[design]
            yield Finding(
                f"{name}: speed of d to {design} at {100 * top:.0f} %",
                ratio,
                claim(ratio > 1.2),
                "far above the rest",
                None,
                "x",
            )
        growth = {design: speed[page, design, top] / speed[page, design, SHARES[1]] for design in "abcd"}
        fastest = max(growth, key=lambda design: growth[design])
        yield Finding(f"{name}: rises fastest with the share", fastest, claim(fastest == "d"), "d")
        flat = max(speed[page, "e", share] for share in SHARES) / min(speed[page, "e", share] for share in SHARES)
        yield Finding(f"{name}: e, most to least", flat, claim(flat < 1.25), "flat", None, "x")
        idle = speed[page, "d", 0.0] / speed[page, "e", 0.0]
        yield Finding(
            f"{name}: d that drops nothing, to none", idle, claim(idle > 0.9), "costs a boolean test", None, "x"
        )
        for design in "abc":
            cost = speed[page, "e", 0.0] / speed[page, design, 0.0] - 1
            what = f"{name}: cost of shedder {design} at 0 %, to that of the select"
            yield Finding(what, cost, claim(cost > 1), "much more than the select", None, "x")


def _panel(speed: Mapping[tuple[int, str, float], float], page: int) -> Panel:
    def curve(design: str) -> Series:
        points = tuple((100 * share, speed[page, design, share] / speed[page, "e", 0.0]) for share in SHARES)
        return Series(f"{design}: {DESIGNS[design]}", points)

    title = "Tuple by tuple" if page == 1 else f"Pages of {page:,} tuples"
    return Panel(title, "dropped, %", "speed, to a select without shedder", tuple(map(curve, DESIGNS)))
