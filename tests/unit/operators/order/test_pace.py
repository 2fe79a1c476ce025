"""PACE: tuples that lag are left out, and feedback keeps others from being worked on in vain."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import polars as pl
import pytest

from headrace.engine.engine import Engine
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import at_least, equal, less
from headrace.model.patterns.pattern import STAMP, Pattern, matches, pattern
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators.feedback.response import Response, respond
from headrace.operators.order.pace import Pace, PaceOperator
from headrace.operators.specs import Output, Project, Scan
from headrace.testing.clock import VirtualClock
from headrace.testing.contract import check_operator
from headrace.testing.simulation.engine import Arrival, Costs, Simulation

K = Column("k", Type.INT)


def page(*rows: tuple[int, int]) -> Page:
    """Rows are (ts, k)."""
    return Page(
        pl.DataFrame({"k": [k for _, k in rows], TS: [ts for ts, _ in rows]}, schema={"k": pl.Int32, TS: pl.Int64})
    )


def test_what_lags_more_than_the_tolerance_is_left_out_and_never_promised() -> None:
    script: list[tuple[int, Element]] = [
        (0, page((10, 0), (5, 1), (12, 2))),
        (1, page((6, 3), (7, 4))),
        (0, Punctuation(12)),
    ]
    script.append((1, page((20, 5), (11, 6))))
    rows = check_operator(Pace(2, 5), script, ports=2)
    assert [row.values["k"] for row in rows] == [0, 1, 2, 4, 5]


def test_lateness_is_told_to_those_who_are_late() -> None:
    operator = Pace(2, 10).build()
    list(operator.on_page(0, page((100, 0))))
    assert operator.said() == ()
    list(operator.on_page(1, page((80, 1))))
    assert operator.said() == [(1, Feedback(Intent.ASSUMED, pattern((STAMP, less(95)))))]
    assert operator.said() == ()
    list(operator.on_page(1, page((80, 1))))
    assert list(operator.said()) == []  # they know
    list(operator.on_page(0, page((80, 1))))
    assert operator.said() == [(0, Feedback(Intent.ASSUMED, pattern((STAMP, less(95)))))]  # the other one did not
    assert operator.ignored == 3
    again = Pace(2, 10).build()
    again.restore(operator.state())
    list(again.on_page(1, page((80, 1))))
    assert list(again.said()) == []


@pytest.mark.parametrize(
    ("share", "service", "cut"), [(1.0, 0, 90), (0.5, 0, 95), (0.0, 0, 100), (1.0, 3, 96), (0.5, 4, 98)]
)
def test_the_cut_leaves_time_for_the_work(share: float, service: int, cut: int) -> None:
    assert Pace(2, 10, share, service).cut(100) == cut


Rows = Sequence[tuple[int, int]]


def run(
    rows: Rows, dropped: Sequence[bool], wanted: Pattern, relayed: Pattern | None, position: int
) -> Counter[tuple[int, int]]:
    """What comes out if feedback comes before a tuple, and these of the unneeded ones are missing from then on."""
    operator, found = Pace(1, 1).build(), Counter[tuple[int, int]]()
    for number, row in enumerate(rows):
        one = page(row)
        told = number >= position
        if told and relayed is not None and dropped[number] and matches(relayed, one.rows)[0]:
            continue
        for out in operator.on_page(0, one):
            if isinstance(out, Page) and not (told and matches(wanted, out.rows)[0]):
                found[row] += 1
    return found


def violations(wanted: Pattern, relayed: Pattern | None) -> Iterator[Rows]:
    """Inputs for which something is lost or added; feedback comes after the first tuple."""
    for rows in product([(0, 0), (2, 0)], *[list(product((0, 1, 2), (0, 1)))] * 2):
        expected = run(rows, (), wanted, None, 3)
        needed = Counter({row: n for row, n in expected.items() if not matches(wanted, page(row).rows)[0]})
        for dropped in [(True, True), (True, False)]:
            found = run(rows, (False, *dropped), wanted, relayed, 1)
            if found - expected or needed - found:
                yield rows


@pytest.mark.slow
def test_only_what_is_past_is_passed_on() -> None:
    past = pattern((STAMP, less(2)))
    assert respond(Pace(2, 1), past, ()) == Response((past, past))
    assert list(violations(past, past)) == []
    for other in (pattern((K, equal(0))), pattern((STAMP, at_least(2))), pattern((STAMP, less(3)), (K, equal(0)))):
        assert respond(Pace(2, 1), other, ()) == Response((None, None))
        assert list(violations(other, None)) == []
        assert any(violations(other, other))  # dropping (2, 0) lets the late (0, 1) in


def timely(
    share: float | None, count: int = 24, period: int = 10, rho: float = 2, tolerance: int = 3, service: float = 0
) -> tuple[int, int, int]:
    """Impute every second tuple one by one; return how many of these were in time, late, and skipped."""
    filled = Project((("k", Call("coalesce", (K, Literal(0, Type.INT)), Type.INT)),))
    pace = Pace(2, tolerance * period, 0.5 if share is None else share, round(service * period))
    graph = Graph((
        Vertex("clean", Scan("clean", ("k",))),
        Vertex("dirty", Scan("dirty", ("k",))),
        Vertex("impute", filled, ("dirty",)),
        Vertex("pace", pace, ("clean", "impute")),
        Vertex("out", Output("out"), ("pace",)),
    ))  # fmt: skip
    clock = VirtualClock()
    engine = Engine(graph)
    if share is None:
        operator = engine.operators["pace"]
        assert isinstance(operator, PaceOperator)
        operator.speaks = False
    arrivals = [
        Arrival(i * period // 2, "clean" if i % 2 == 0 else "dirty", page((i * period // 2, i))) for i in range(count)
    ]
    trace = Simulation(engine, clock, Costs(of={"impute": round(rho * period)})).run(arrivals)
    came = sum(1 for emission in trace.emissions if emission.row["k"] % 2 == 1)
    saved = sum(guard.saved for guard in [*engine.guards.in_force(), *engine.guards.ended] if guard.reader == "impute")
    return came, count // 2 - came - saved, saved


def test_the_unit_vector_of_imputation() -> None:
    assert timely(None)[0] == 6
    assert timely(1.0)[0] == 6  # the cut at the tolerance: each that is worked on is late when it is done
    assert timely(0.0)[0] == 8


#: The fast run leaves out two of the published rows.
LONGER = int(os.environ.get("HEADRACE_EXAMPLES", "0")) >= 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "service", "expected"),
    [
        (None, 0, (75, 2425, 0)),
        (1.0, 1.38, (1608, 223, 669)),
        (0.5, 0, (1763, 67, 670)),
        *(((1.0, 0, (75, 1758, 667)), (0.0, 0, (1774, 33, 693))) if LONGER else ()),
    ],
)
def test_the_imputation_experiment(share: float | None, service: float, expected: tuple[int, int, int]) -> None:
    """Timely, late though imputed, and not worked on: of 2500 dirty tuples."""
    assert timely(share, 5000, 100, 1.38, 21, service) == expected


def test_an_engine_ends_the_guards_of_pace_with_time() -> None:
    scans = (Vertex("a", Scan("a", ("k",))), Vertex("b", Scan("b", ("k",))))
    graph = Graph((*scans, Vertex("p", Pace(2, 5), ("a", "b")), Vertex("out", Output("o"), ("p",))))
    engine = Engine(graph)
    engine.push("a", page((100, 0)))
    engine.push("b", page((90, 0)))
    engine.run()
    assert engine.guards.relayed == {"b": [Feedback(Intent.ASSUMED, pattern((STAMP, less(98))))]}
    for source in ("a", "b"):
        engine.push(source, Punctuation(END))
    engine.run()
    assert engine.guards.in_force() == []
    assert engine.bounds.reached["out"] == END
