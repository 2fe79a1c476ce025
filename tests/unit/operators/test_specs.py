"""Specs of operators: what each must say of itself, and where a new one gets by with defaults."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import polars as pl
import pytest

from headrace.analysis.forecast.behavior import behavior
from headrace.analysis.forecast.facts import Facts
from headrace.analysis.forecast.from_graph import model
from headrace.analysis.forecast.report import report
from headrace.engine.engine import Engine
from headrace.engine.feedback.desires import order_free_arcs
from headrace.graph.deferral import deferral_of
from headrace.graph.explain import explain_graph
from headrace.graph.feedback import arcs_of, invariants_of, spread_from
from headrace.graph.graph import Graph, Vertex
from headrace.graph.place import place
from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.match import equal
from headrace.model.patterns.pattern import pattern
from headrace.model.schema import TS
from headrace.model.time import END
from headrace.model.types import Type
from headrace.operators import specs
from headrace.operators.feedback.invariants import NO_INVARIANTS, invariants_after
from headrace.operators.feedback.response import respond
from headrace.operators.operator import Operator
from headrace.operators.spec import Spec
from headrace.testing.contract import check_operator

KINDS: tuple[type[Spec], ...] = get_args(specs.Spec)

#: The specs for which a table uses its default. A new spec appears here or has an entry in the table, by decision.
DEFAULTS: dict[Callable[..., Any], set[str]] = {
    invariants_after: {"Scan", "Receive", "Detect", "Suppress", "Changes", "JoinChanges", "Condense", "MatchRows"},
    respond: {"Limit", "Changes", "JoinChanges"},
    behavior: set(),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_spec_has_a_tag_and_says_what_it_builds_and_does(kind: type[Spec]) -> None:
    assert issubclass(kind, Spec)
    assert isinstance(kind.__struct_config__.tag, str)
    assert kind.build is not Spec.build, f"{kind.__name__} builds no operator"
    assert kind.describe is not Spec.describe, f"{kind.__name__} does not describe itself"


def test_tags_and_names_are_unique() -> None:
    """A vertex id begins with the name, and JSON tells specs apart by the tag."""
    assert len({kind.__struct_config__.tag for kind in KINDS}) == len({kind.__name__ for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("table", DEFAULTS, ids=lambda table: table.__name__)
def test_a_default_is_used_by_decision(table: Callable[..., Any]) -> None:
    missing = {kind.__name__ for kind in KINDS} - _cases(table)
    assert missing == DEFAULTS[table], (
        f"{table.__module__}.{table.__name__} has no entry for {missing}: read what its default means, "
        "then add an entry there or the name to DEFAULTS here"
    )


def _cases(table: Callable[..., Any]) -> set[str]:
    """Return the specs that a function's match names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(table)))
    named = (node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass))
    return {node.attr for node in named if isinstance(node, ast.Attribute)}


class Odd(Spec, frozen=True, tag="odd"):
    """A new operator with nothing but what every spec must have: every other tuple in the order of arrival."""

    def build(self) -> Operator:
        return _Odd()

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return "every other tuple"


class _Odd(Operator):
    def __init__(self) -> None:
        self._count = pl.DataFrame({"count": [0]})

    def on_page(self, port: int, page: Page) -> Iterable[Element]:
        start = self._count.item()
        self._count = pl.DataFrame({"count": [start + len(page)]})
        return (Page(page.rows.gather_every(2, start % 2)),)

    def state(self) -> dict[str, pl.DataFrame]:
        return {"count": self._count}

    def restore(self, state: Any) -> None:
        self._count = state["count"]


ODD: Any = Odd()  # not among specs.Spec
GRAPH = Graph(
    (
        Vertex("s", specs.Scan("s", ("v",))),
        Vertex("odd", ODD, ("s",)),
        Vertex("out", specs.Output("q"), ("odd",)),
    )
)
PAGE = Page(pl.DataFrame({"v": [1, 2, 3], TS: [1, 2, 3]}, schema={"v": pl.Int32, TS: pl.Int64}))


def test_a_new_operator_keeps_the_contract() -> None:
    assert [row.values["v"] for row in check_operator(ODD, [(0, PAGE)])] == [1, 3]


def test_a_new_operator_runs_in_one_bucket() -> None:
    (receive, *_) = place(GRAPH).keyed
    assert receive.spec == specs.Receive("s", ("s",), ())
    assert "  every other tuple\n" in explain_graph(GRAPH)
    assert deferral_of(GRAPH, "odd") is None
    engine = Engine(GRAPH)
    engine.push("s", PAGE)
    engine.push("s", Punctuation(END))
    engine.run()
    assert [page.rows["v"].to_list() for page in engine.take_results()["out"]] == [[1, 3]]


def test_nothing_is_assumed_of_a_new_operator() -> None:
    assert invariants_of(GRAPH)["odd"] == NO_INVARIANTS
    unneeded = pattern((Column("v", Type.INT), equal(1)))
    assert [arc for arc, _ in spread_from(GRAPH, arcs_of(GRAPH, "out"), unneeded).guards] == [("out", 0)], (
        "only results are dropped"
    )
    assert not order_free_arcs(GRAPH, ()), "no tuple overtakes another before or behind it"


def test_a_forecast_of_a_new_operator_is_marked_as_a_guess() -> None:
    lines = report(model(GRAPH, Facts(rates={"s": 10.0})), {}).operators
    (odd,) = [line for line in lines if line.vertex == "odd"]
    assert odd.assumed == ("selectivity", "service")
