"""Heeding an assumption, for every operator and kind of pattern: all small inputs, moments and choices of sources.

What our responses do must be right (Definitions 1 and 2 of the feedback paper); responses that look right and are not
must be detected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl
import pytest
from msgspec.structs import replace

from headrace.engine.engine import Engine
from headrace.graph.feedback import Respond, arcs_of, spread_from
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import Call, Cast, Column, Expr, Literal
from headrace.model.page import Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between, IsNull, Match, OneOf, at_least, at_most, equal, less, more, unequal
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.types import Type
from headrace.model.window import (
    AggregateCall,
    Cumulative,
    Extent,
    Landmark,
    Panes,
    Range,
    Rows,
    Session,
    Sliding,
    While,
)
from headrace.operators import specs
from headrace.operators.capabilities import held_by
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.response import Response, respond
from headrace.operators.tuples.archives import StoredRows
from headrace.operators.windows.pane_times import PANE
from headrace.testing.feedback import Domain, Script, Trial, cases_of, key_of

pytestmark = pytest.mark.slow

#: The fast run takes inputs of three tuples; more examples, longer inputs.
LONGER = int(os.environ.get("HEADRACE_EXAMPLES", "0")) >= 100

G, V, CASE = Column("g", Type.BIGINT), Column("v", Type.INT), Column("case", Type.BIGINT)
TRUE = Literal(True, Type.BOOLEAN)
#: The value a of the tables; the domain has values on both sides of it.
A = 0


def compare(op: str, column: Column, value: int) -> Expr:
    return Call(op, (column, Literal(value, column.type)), Type.BOOLEAN)


def chain(*chained: specs.Spec, columns: Sequence[str] = ("g", "v", "case")) -> Graph:
    vertices = [Vertex("s", specs.Scan("s", tuple(columns), True))]
    for number, spec in enumerate(chained):
        vertices.append(Vertex(f"q{number}", spec, (vertices[-1].id,)))
    return Graph((*vertices, Vertex("out", specs.Output("out"), (vertices[-1].id,))))


PLAIN = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, -1), (0, 1), (1, None), (1, 0)))}
NUMBERS = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, -1), (0, 0), (0, 1), (1, 0)), "g")}
WITH_NULL = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, -1), (0, None), (0, 1), (1, 1)), "g")}


def at(*stamps: int, marks: bool = False) -> Script:
    """Tuples of the source with these timestamps; with `marks` each is followed by its bound."""
    found: list[tuple[str, int] | int] = []
    for stamp in stamps:
        found.append(("s", stamp))
        if marks:
            found.append(stamp)
    return found


def check(trial: Trial, wanted: Pattern | Mapping[str, Pattern], answer: Respond = respond) -> list[str]:
    """In the fast run feedback comes after the first tuple; at a join also after the second, when two may have met."""
    told = {"out": wanted} if isinstance(wanted, Pattern) else wanted
    moments = (1,) if not any(isinstance(vertex.spec, specs.Join) for vertex in trial.graph) else (1, 2)
    return [str(one) for one in trial.violations(told, answer, None if LONGER else moments)]


def right(
    graph: Graph, domains: Mapping[str, Domain], scripts: Sequence[Script], *patterns: Pattern | Mapping[str, Pattern]
) -> None:
    for script in scripts:
        trial = Trial(graph, domains, script)
        for wanted in patterns:
            assert check(trial, wanted) == [], f"{wanted} with {script}"


def wrong(graph: Graph, domains: Mapping[str, Domain], script: Script, wanted: Pattern, answer: Respond) -> None:
    """The harness can fail: this response is found out, and ours is not."""
    trial = Trial(graph, domains, script)
    assert check(trial, wanted, answer)
    assert check(trial, wanted) == []


def instead(vertex: type, response: Callable[[Pattern], Response]) -> Respond:
    """Our responses, except for one kind of operator."""

    def answer(spec: specs.Spec, wanted: Pattern, invariants: tuple[Invariants, ...]) -> Response:
        return response(wanted) if isinstance(spec, vertex) else respond(spec, wanted, invariants)

    return answer


def told_as(*terms: tuple[Column, Match]) -> Callable[[Pattern], Response]:
    return lambda wanted: Response((pattern(*terms),))


COMPARISONS: tuple[Match, ...] = (
    equal(A),
    at_least(A),
    at_most(A),
    less(A),
    more(A),
    unequal(A),
    OneOf((-1, 1)),
    IsNull(),
    Between(),
)
THREE = (
    [at(0, 1, 2), at(1, 0, 2), at(0, 1, 1, marks=True)]
    if not LONGER
    else [at(0, 1, 2, 3), at(1, 0, 3, 2), at(0, 1, 1, 2, marks=True)]
)


# Selection, projection, union, order


@pytest.mark.parametrize("match", COMPARISONS, ids=str)
def test_a_selection_passes_everything_on(match: Match) -> None:
    graph = chain(specs.Filter(compare(">=", V, 0)))
    right(
        graph,
        PLAIN,
        THREE[:1],
        pattern((V, match)),
        pattern((V, match), (G, equal(0))),
        pattern((V, match), (STAMP, less(2))),
    )


def imputing() -> Graph:
    rows = pl.DataFrame({"g": [1, 1], "w": [0, 1]}, schema={"g": pl.Int64, "w": pl.Int32})
    archive = StoredRows(Page(rows).encode(), Schema.of(g=Type.BIGINT, w=Type.INT), ("g",), "w")
    return chain(specs.Impute("w", V, (G,), archive))


@pytest.mark.parametrize("match", COMPARISONS, ids=str)
def test_imputation_passes_on_what_it_carries_but_not_what_it_looks_up(match: Match) -> None:
    w = Column("w", Type.INT)
    right(
        imputing(),
        PLAIN,
        THREE[:1],
        pattern((V, match)),
        pattern((V, match), (G, equal(1))),
        pattern((w, match)),
        pattern((w, match), (G, equal(1))),
    )
    assert respond(imputing().by_id()["q0"].spec, pattern((V, match)), ()) == Response((pattern((V, match)),))
    assert respond(imputing().by_id()["q0"].spec, pattern((w, match)), ()) == Response((None,))


def test_a_missing_value_does_not_say_what_will_be_found() -> None:
    wrong(
        imputing(),
        PLAIN,
        at(0, 1, 2),
        pattern((Column("w", Type.INT), IsNull())),
        instead(specs.Impute, told_as((V, IsNull()))),
    )


@pytest.mark.parametrize("match", COMPARISONS, ids=str)
def test_a_projection_passes_on_what_it_carries_and_exact_preimages(match: Match) -> None:
    more_by_two = Call("+", (V, Literal(2, Type.INT)), Type.BIGINT)
    columns = (
        ("w", V),
        ("n", Call("neg", (V,), Type.BIGINT)),
        ("p", more_by_two),
        ("case", CASE),
        ("k", Literal(0, Type.INT)),
    )
    graph = chain(specs.Project((*columns, ("square", Call("*", (V, V), Type.BIGINT)))))
    names = ("w", Type.INT), ("n", Type.BIGINT), ("p", Type.BIGINT), ("k", Type.INT), ("square", Type.BIGINT)
    right(graph, PLAIN, THREE[:1], *(pattern((Column(name, type_), match)) for name, type_ in names))


def test_a_projection_relays_the_opposite_of_a_negated_column_only_turned_around() -> None:
    n = Column("n", Type.BIGINT)
    graph = chain(specs.Project((("n", Call("neg", (V,), Type.BIGINT)), ("case", CASE))))
    domains = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, 2), (0, 1), (0, 0)))}
    wrong(graph, domains, at(0, 1), pattern((n, at_least(-1))), instead(specs.Project, told_as((V, at_least(-1)))))


@pytest.mark.parametrize("spec", [specs.Union(2), specs.OrderedUnion(2)], ids=str)
def test_a_union_passes_everything_on_to_all(spec: specs.Spec) -> None:
    graph = Graph(
        (
            *(Vertex(name, specs.Scan(name, ("g", "v", "case"))) for name in "sr"),
            Vertex("u", spec, ("s", "r")),
            Vertex("out", specs.Output("o"), ("u",)),
        )
    )
    domains = {"s": PLAIN["s"], "r": PLAIN["s"]}
    scripts: list[Script] = [[("s", 0), ("r", 0), ("s", 1)], [("s", 1), 1, ("r", 2), ("s", 2)]]
    right(
        graph,
        domains,
        scripts,
        *(pattern((V, match)) for match in COMPARISONS[:4]),
        pattern((STAMP, less(2))),
        pattern((STAMP, at_least(1))),
    )


def test_order_does_not_matter_to_an_assumption() -> None:
    right(
        chain(specs.Reorder((), (SEQ,))),
        PLAIN,
        THREE,
        pattern((V, at_least(A))),
        pattern((STAMP, less(1)), (G, equal(0))),
    )


@pytest.mark.parametrize("span", [0, 1, 5])
def test_distinct_tuples(span: int) -> None:
    graph = chain(specs.Distinct((G, V, CASE), span))
    domains = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, 0), (0, None), (1, 0)))}
    scripts = [at(0, 1, 2), at(0, 1, 2, marks=True), at(0, 0, 2), at(2, 1, 0)]
    right(
        graph,
        domains,
        scripts,
        pattern((G, equal(0))),
        pattern((V, IsNull())),
        pattern((STAMP, less(2))),
        pattern((STAMP, less(1)), (G, equal(0))),
    )
    right(graph, domains, scripts, pattern((STAMP, Between(1, 1))), pattern((STAMP, at_least(1)), (V, equal(0))))


def test_distinct_does_not_forget_a_tuple_that_hides_a_later_one() -> None:
    domains = {"s": Domain(Schema.of(g=Type.BIGINT, v=Type.INT), ((0, 0), (1, 0)))}
    wrong(
        chain(specs.Distinct((G, V, CASE), 5)),
        domains,
        at(0, 3),
        pattern((STAMP, less(2))),
        instead(specs.Distinct, lambda wanted: Response((wanted,))),
    )


# Forks


def forked() -> Graph:
    filters = (Vertex("a", specs.Filter(TRUE), ("s",)), Vertex("b", specs.Filter(TRUE), ("s",)))
    ends = (Vertex("out", specs.Output("out"), ("a",)), Vertex("other", specs.Output("other"), ("b",)))
    return Graph((Vertex("s", specs.Scan("s", ("g", "v", "case"))), *filters, *ends))


def test_a_fork_passes_on_what_all_its_branches_do_not_need() -> None:
    one, two = pattern((G, equal(0))), pattern((V, at_least(A)))
    right(
        forked(), PLAIN, THREE[:1], {"out": one}, {"out": one, "other": two}, {"out": one, "other": one}, {"other": two}
    )


def test_what_one_branch_does_not_need_another_may() -> None:
    def alone(graph: Graph) -> dict[str, tuple[Pattern, ...]]:
        return spread_from(graph, arcs_of(graph, "out"), pattern((G, equal(0)))).of_sources(graph)

    assert alone(forked()) == {}
    assert alone(chain(specs.Filter(TRUE))) == {"s": (pattern((G, equal(0))),)}
    # had the source left it out, the other branch would miss it
    trial = Trial(forked(), PLAIN, at(0, 1))
    assert [
        one.kind
        for one in trial.violations({"out": pattern((G, equal(0))), "other": pattern((G, equal(0)))}, positions=(0,))
    ] == []
    twice = Graph(
        (
            *forked().vertices[:2],
            Vertex("out", specs.Output("out"), ("a",)),
            Vertex("other", specs.Output("other"), ("a",)),
        )
    )
    careless = Trial(twice, PLAIN, at(0, 1))
    answer = instead(specs.Output, lambda wanted: Response((wanted,)))
    assert check(careless, pattern((G, equal(0))), answer) == []


# Aggregates


def aggregate(window: Panes, *functions: str, key: Column = G) -> Graph:
    types = {"count": Type.BIGINT, "sum": Type.BIGINT, "avg": Type.DOUBLE, "count_distinct": Type.BIGINT}
    calls = tuple(AggregateCall("n", name, V, types.get(name, Type.INT)) for name in functions[:1])
    calls += tuple(
        AggregateCall(f"x{number}", name, V, types.get(name, Type.INT)) for number, name in enumerate(functions[1:])
    )
    keys = ((key.name, key),)
    return chain(
        specs.PartialAggregate(
            Range(window.step, window.step, window.offset % window.step) if isinstance(window, Cumulative) else window,
            keys,
            calls,
        ),
        specs.PaneAggregate(window, keys, calls),
        columns=("g", "v"),
    )


def group(value: int, domains: Mapping[str, Domain], script: Script) -> tuple[Column, Match]:
    return G, OneOf(key_of(value, 2, cases_of(domains, script)))


TUMBLING, SLIDING, DENSE, GAPS = Range(4, 4), Range(4, 2), Range(3, 2), Range(2, 3)
N = {"count": Type.BIGINT, "sum": Type.BIGINT, "avg": Type.DOUBLE}


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max", "count_distinct"])
@pytest.mark.parametrize("match", [equal(A), at_least(A), at_most(A), more(A), less(1), at_least(2)], ids=str)
def test_values_of_a_tumbling_window(function: str, match: Match) -> None:
    n = Column("n", N.get(function, Type.INT))
    script = at(0, 1, 5) if match == equal(A) else at(0, 1, 2)
    for domains in (NUMBERS, WITH_NULL) if LONGER else (WITH_NULL,):
        right(
            aggregate(TUMBLING, function),
            domains,
            [script],
            pattern((n, match)),
            pattern((n, match), group(0, domains, script)),
        )


@pytest.mark.parametrize("function", ["min", "max", "sum"])
@pytest.mark.parametrize("match", [at_least(A), at_most(A), less(1), more(-1)], ids=str)
@pytest.mark.parametrize("window", [TUMBLING, SLIDING, GAPS, Landmark(None, 2), Cumulative(4, 2)], ids=str)
def test_values_that_are_known_to_be_there(function: str, match: Match, window: Panes) -> None:
    """A filter before the aggregate says that no value is NULL (and, for the sum, that none is negative)."""
    bare = aggregate(window, function)
    least = specs.Filter(compare(">=", V, 0 if function == "sum" else -5))
    graph = chain(least, *(vertex.spec for vertex in bare.vertices[1:3]), columns=("g", "v"))
    n = Column("n", N.get(function, Type.INT))
    right(graph, WITH_NULL, [at(0, 1, 2)], pattern((n, match)), pattern((n, match), (STAMP, at_most(4))))


@pytest.mark.parametrize(
    "window",
    [
        *(TUMBLING, SLIDING, DENSE, GAPS, Landmark(None, 2), Landmark(1, 2), Cumulative(4, 2)),
        *(Range(4, 4, 1), Range(4, 2, 1), Range(3, 2, 1), Range(2, 3, 2), Cumulative(4, 2, 3)),
    ],
    ids=str,
)
def test_groups_and_windows(window: Panes) -> None:
    end, start = Column("window_end", Type.TIMESTAMP), Column("window_start", Type.TIMESTAMP)
    graph, script = aggregate(window, "count"), at(0, 2, 3)
    later = at(1, 4, 5, marks=True)
    ends: list[tuple[Column, Match]] = [
        (end, equal(4)),
        (end, at_most(4)),
        (end, at_least(5)),
        (end, Between(3, 6)),
        (STAMP, less(5)),
    ]
    ends += [(start, equal(0)), (start, less(2)), (end, unequal(4))]
    for each in (script, later):
        right(graph, NUMBERS, [each], pattern(group(0, NUMBERS, each)), *(pattern(one) for one in ends))
        right(
            graph,
            NUMBERS,
            [each],
            pattern((end, at_most(4)), group(1, NUMBERS, each)),
            pattern((end, at_least(4)), (Column("n", Type.BIGINT), at_least(2))),
        )


def test_a_computed_key_is_relayed_only_as_far_as_it_is_exact() -> None:
    keys = (("k", Call("neg", (V,), Type.BIGINT)), ("g", G), ("h", Call("*", (V, V), Type.BIGINT)))
    calls = (AggregateCall("n", "count", None, Type.BIGINT),)
    graph = chain(
        specs.PartialAggregate(TUMBLING, keys, calls), specs.PaneAggregate(TUMBLING, keys, calls), columns=("g", "v")
    )
    right(
        graph,
        WITH_NULL,
        THREE[:1],
        pattern((Column("k", Type.BIGINT), at_least(0))),
        pattern((Column("h", Type.BIGINT), equal(1))),
    )
    right(graph, WITH_NULL, THREE[:1], pattern((Column("k", Type.BIGINT), IsNull())))


PANE_COLUMN = Column(PANE, Type.BIGINT)


def test_a_purged_group_that_is_not_guarded_begins_again() -> None:
    script = at(0, 1, 2)
    graph, wanted = (
        aggregate(TUMBLING, "count"),
        pattern(group(0, NUMBERS, script), (Column("n", Type.BIGINT), at_least(2))),
    )
    # guarding the group though only its large counts are assumed
    wrong(
        graph,
        NUMBERS,
        script,
        wanted,
        instead(specs.PaneAggregate, lambda f: Response((pattern(group(0, NUMBERS, script)),))),
    )


@pytest.mark.parametrize(
    ("function", "match"),
    [("sum", at_least(1)), ("avg", at_least(1)), ("max", equal(A)), ("count", equal(1)), ("min", equal(A))],
)
def test_a_value_that_may_still_leave_the_pattern_must_not_end_its_group(function: str, match: Match) -> None:
    n = Column("n", N.get(function, Type.INT))
    wrong(
        aggregate(TUMBLING, function),
        NUMBERS,
        at(0, 1, 2),
        pattern((n, match)),
        instead(specs.PaneAggregate, lambda f: Response((None,), watch=True)),
    )


@pytest.mark.parametrize(("function", "match"), [("max", at_least(A)), ("min", at_most(A))])
def test_values_that_decide_an_extreme_are_needed(function: str, match: Match) -> None:
    part = Column(f"__a0_{function}", Type.INT)
    n = Column("n", Type.INT)
    wrong(
        aggregate(TUMBLING, function),
        NUMBERS,
        at(0, 1, 2),
        pattern((n, match)),
        instead(specs.PaneAggregate, told_as((part, match))),
    )


@pytest.mark.parametrize(("function", "match"), [("max", at_most(A)), ("min", at_least(A))])
def test_null_beside_a_dropped_value_would_be_a_result_that_is_not_there(function: str, match: Match) -> None:
    """Not in the paper: the value may be dropped only if no value can be NULL."""
    part = Column(f"__a0_{function}", Type.INT)
    wrong(
        aggregate(TUMBLING, function),
        WITH_NULL,
        at(0, 1, 2),
        pattern((Column("n", Type.INT), match)),
        instead(specs.PaneAggregate, told_as((part, match))),
    )


def test_a_tuple_of_overlapping_windows_is_needed_by_the_others() -> None:
    end = Column("window_end", Type.TIMESTAMP)
    raw = told_as((PANE_COLUMN, Between(0, 4, open_high=True)))
    wrong(
        aggregate(SLIDING, "count"), NUMBERS, at(0, 1, 2), pattern((end, equal(4))), instead(specs.PaneAggregate, raw)
    )


def other_windows(kind: str) -> Graph:
    keys, calls = (
        (("g", G), ("w", V)),
        (AggregateCall("n", "count", None, Type.BIGINT), AggregateCall("m", "sum", V, Type.BIGINT)),
    )
    chains: dict[str, tuple[specs.Spec, ...]] = {
        "session": (specs.SessionAggregate(Session(2), keys, calls),),
        "sliding": (specs.Reorder((G, V), (SEQ,)), specs.SlidingAggregate(Sliding(1), keys, calls)),
        "unbounded": (specs.Reorder((G, V), (SEQ,)), specs.SlidingAggregate(Sliding(None), keys, calls)),
        "rows": (specs.Reorder((G,), (SEQ,)), specs.RowsAggregate(Rows(2, 1, (G,)), keys, calls)),
        "while": (specs.Reorder((G,), (SEQ,)), specs.WhileAggregate(While(compare(">=", V, 0), (G,)), keys, calls)),
    }
    return chain(*chains[kind], columns=("g", "v"))


OTHERS = ("session", "sliding", "unbounded", "rows", "while")


@pytest.mark.parametrize("kind", OTHERS)
def test_other_windows_give_up_whole_partitions_only(kind: str) -> None:
    graph, end = other_windows(kind), Column("window_end", Type.TIMESTAMP)
    for script in (at(0, 1, 2), at(0, 1, 3, marks=True)) if LONGER else (at(0, 1, 2),):
        right(
            graph,
            NUMBERS,
            [script],
            pattern(group(0, NUMBERS, script)),
            pattern((Column("w", Type.INT), at_least(A))),
            pattern((end, less(2))),
        )
        right(
            graph,
            NUMBERS,
            [script],
            pattern((Column("n", Type.BIGINT), at_least(2))),
            pattern((STAMP, at_least(1)), group(1, NUMBERS, script)),
        )


def held_after(graph: Graph, vertex: str, wanted: Pattern, *pages: tuple[str, Page]) -> tuple[int, int]:
    """How many tuples a vertex keeps before and after feedback."""
    engine = Engine(graph)
    for source, page in pages:
        engine.push(source, page)
    engine.run()
    for source in {vertex.id for vertex in graph if not vertex.inputs}:
        engine.push(source, Punctuation(5))
    engine.run()
    before = held_by(engine.operators[vertex])
    engine.feedback("out", Feedback(Intent.ASSUMED, wanted))
    assert engine.guards.purged >= before - held_by(engine.operators[vertex]) > 0
    return before, held_by(engine.operators[vertex])


@pytest.mark.parametrize("kind", OTHERS)
def test_what_other_windows_keep_of_a_partition_that_nobody_needs_is_forgotten(kind: str) -> None:
    rows = pl.DataFrame(
        {"g": [0, 0, 1, 2], "v": [1, 1, 1, 1], TS: [3, 4, 4, 4], SEQ: [0, 1, 2, 3]}, schema_overrides={"v": pl.Int32}
    )
    graph = other_windows(kind)
    assert held_after(graph, graph.vertices[-2].id, pattern((G, OneOf((0, 2)))), ("s", Page(rows))) == (3, 1)


@pytest.mark.parametrize("spec", [specs.RowsAggregate, specs.WhileAggregate])
def test_a_tuple_of_another_group_counts_in_the_window(spec: type) -> None:
    keys, calls = (("g", G), ("w", V)), (AggregateCall("n", "count", None, Type.BIGINT),)
    window: specs.Spec = (
        specs.RowsAggregate(Rows(2, 1, (G,)), keys, calls)
        if spec is specs.RowsAggregate
        else specs.WhileAggregate(While(compare(">=", V, 0), (G,)), keys, calls)
    )
    match = at_least(A) if spec is specs.RowsAggregate else at_most(A)
    wanted = pattern((Column("w", Type.INT), match))
    wrong(
        chain(specs.Reorder((G,), (SEQ,)), window, columns=("g", "v")),
        NUMBERS,
        at(0, 1, 2),
        wanted,
        instead(spec, told_as((V, match))),
    )


def test_a_sliding_window_remembers_when_its_group_began() -> None:
    calls = (AggregateCall("n", "count", None, Type.BIGINT),)
    graph = chain(
        specs.Reorder((G,), (SEQ,)), specs.SlidingAggregate(Sliding(1), (("g", G),), calls), columns=("g", "v")
    )
    wrong(
        graph, NUMBERS, at(0, 3), pattern((STAMP, less(2))), instead(specs.SlidingAggregate, told_as((STAMP, less(1))))
    )


# Joins

L, J, K, R = Column("l", Type.INT), Column("j", Type.INT), Column("k", Type.INT), Column("r", Type.INT)
LEFT, RIGHT = Schema.of(l=Type.INT, j=Type.INT, case=Type.BIGINT), Schema.of(k=Type.INT, r=Type.INT, case=Type.BIGINT)
RIGHT_NAMES = ("k", "r", "case_r")
JOIN_KEYS = ((J, K), (CASE, CASE))
SIDES = {
    "s": Domain(Schema.of(l=Type.INT, j=Type.INT), ((0, 0), (1, 0), (1, 1))),
    "r": Domain(Schema.of(k=Type.INT, r=Type.INT), ((0, 0), (0, 1), (1, 1))),
}


def joined(spec: specs.Spec, *, ordered: bool = False) -> Graph:
    scans = (Vertex("s", specs.Scan("s", LEFT.names, True)), Vertex("r", specs.Scan("r", RIGHT.names, True)))
    if not ordered:
        return Graph((*scans, Vertex("join", spec, ("s", "r")), Vertex("out", specs.Output("out"), ("join",))))
    orders = (
        Vertex("os", specs.Reorder((CASE,), (SEQ,)), ("s",)),
        Vertex("or", specs.Reorder((CASE,), (SEQ,)), ("r",)),
    )
    return Graph((*scans, *orders, Vertex("join", spec, ("os", "or")), Vertex("out", specs.Output("out"), ("join",))))


def join(kind: str, span: int = 5) -> specs.Join:
    return specs.Join(kind, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, Extent(span), Extent(span), False)  # type: ignore[arg-type]


JOIN_PATTERNS = {
    "j": pattern((J, equal(0))),
    "k": pattern((K, equal(0))),
    "l": pattern((L, equal(1))),
    "r": pattern((R, equal(1))),
    "lr": pattern((L, equal(1)), (R, equal(1))),
    "lj": pattern((L, equal(1)), (J, equal(0))),
    "jr": pattern((J, equal(0)), (R, equal(1))),
    "ljr": pattern((L, equal(1)), (J, equal(0)), (R, equal(1))),
    "jk": pattern((J, equal(0)), (K, equal(0))),
    "no-r": pattern((R, IsNull())),
    "no-l": pattern((L, IsNull()), (K, equal(1))),
    "ts": pattern((STAMP, less(2))),
    "ts-l": pattern((STAMP, less(3)), (L, equal(1))),
    "ts-j": pattern((STAMP, at_least(1)), (J, equal(0))),
    "ts-k": pattern((STAMP, Between(1, 2)), (K, equal(0))),
}
JOIN_SCRIPTS: list[Script] = [[("s", 0), ("r", 1), ("s", 2)], [("r", 0), ("s", 1), 1, ("r", 2)]]
if LONGER:
    JOIN_SCRIPTS += [[("s", 0), ("r", 1), ("s", 2), ("r", 3)], [("r", 1), ("s", 0), ("s", 1), 1, ("r", 2)]]


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("name", JOIN_PATTERNS)
def test_joins(kind: str, name: str) -> None:
    for span in (1,) if not (LONGER and name.startswith("ts")) else (0, 1, 5):
        right(
            joined(join(kind, span)),
            SIDES,
            JOIN_SCRIPTS if LONGER or name.startswith("ts") else JOIN_SCRIPTS[:1],
            JOIN_PATTERNS[name],
        )


LA, RB = Column("la", Type.TIMESTAMP), Column("rb", Type.TIMESTAMP)
TIMED_LEFT, TIMED_RIGHT = (
    Schema.of(la=Type.TIMESTAMP, j=Type.INT, case=Type.BIGINT),
    Schema.of(k=Type.INT, rb=Type.TIMESTAMP, case=Type.BIGINT),
)
TIMED_SIDES = {
    "s": Domain(Schema.of(j=Type.INT), ((0,), (1,), (None,)), time="la"),
    "r": Domain(Schema.of(k=Type.INT), ((0,), (1,), (None,)), time="rb"),
}
TIMED_PATTERNS = {
    "la": pattern((LA, less(2))),
    "rb": pattern((RB, less(2))),
    "both": pattern((LA, at_most(2)), (RB, at_most(1))),
    "one": pattern((RB, equal(1))),
    "others": pattern((RB, unequal(1)), (STAMP, less(3))),
    "there": pattern((RB, Between()), (STAMP, less(3))),
    "missing": pattern((RB, IsNull()), (STAMP, less(3))),
    "key": pattern((RB, at_most(2)), (K, equal(0))),
    "missing-l": pattern((LA, IsNull()), (RB, at_most(2))),
}


def timed_join(kind: str, left: int, right: int) -> Graph:
    names = ("k", "rb", "case_r")
    spec = specs.Join(kind, TIMED_LEFT, TIMED_RIGHT, names, JOIN_KEYS, None, Extent(left), Extent(right), False)  # type: ignore[arg-type]
    scans = (
        Vertex("s", specs.Scan("s", TIMED_LEFT.names, True)),
        Vertex("r", specs.Scan("r", TIMED_RIGHT.names, True)),
    )
    return Graph((*scans, Vertex("join", spec, ("s", "r")), Vertex("out", specs.Output("out"), ("join",))))


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("name", TIMED_PATTERNS)
@pytest.mark.parametrize("spans", [(2, 0), (0, 2), (0, 0)], ids=str)
def test_a_column_that_tells_the_time_is_null_in_padded_rows(kind: str, name: str, spans: tuple[int, int]) -> None:
    scripts: list[Script] = [[("s", 1), ("r", 1), ("s", 2)], [("r", 0), ("s", 1), 1, ("r", 2)]]
    right(timed_join(kind, *spans), TIMED_SIDES, scripts, TIMED_PATTERNS[name])


@pytest.mark.parametrize("name", JOIN_PATTERNS)
def test_joins_in_order(name: str) -> None:
    spec = specs.OrderedJoin("inner", LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, Extent(1), Extent(2), False)
    right(joined(spec), SIDES, JOIN_SCRIPTS, JOIN_PATTERNS[name])


@pytest.mark.parametrize("name", JOIN_PATTERNS)
@pytest.mark.parametrize("by", [(CASE,), (J, CASE)], ids=["one", "by key"])
def test_joins_that_count_rows(name: str, by: tuple[Expr, ...]) -> None:
    spec = specs.RowsJoin("inner", LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, Extent(rows=1, by=by), Extent(2), False)
    right(
        joined(spec, ordered=True),
        SIDES,
        [[("s", 0), ("s", 1), ("r", 2)], [("r", 0), ("s", 1), ("r", 2)]],
        JOIN_PATTERNS[name],
    )


@pytest.mark.parametrize("name", JOIN_PATTERNS)
@pytest.mark.parametrize("mode", ["recent", "chronicle"])
def test_sequences(name: str, mode: str) -> None:
    scripts: list[Script] = [
        [("s", 0), ("s", 1), ("r", 2)],
        [("s", 0), ("r", 1), ("r", 2)],
        [("s", 0), ("r", 1), 1, ("s", 2), ("r", 3)],
    ]
    for span in (None, 1):
        spec = specs.SequenceJoin(mode, False, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, span)  # type: ignore[arg-type]
        right(
            joined(spec, ordered=True),
            SIDES,
            scripts if LONGER else scripts[:1] if mode == "recent" else scripts[1:2],
            JOIN_PATTERNS[name],
        )


def test_a_padded_sequence() -> None:
    spec = specs.SequenceJoin("recent", True, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, None, True)
    script: Script = [("s", 0), ("r", 1), ("r", 2)]
    for wanted in JOIN_PATTERNS.values():
        right(joined(spec, ordered=True), SIDES, [script], wanted)


def test_a_left_tuple_may_be_taken_up_to_its_span_after_it() -> None:
    spec = specs.SequenceJoin("recent", True, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, 2)
    script: Script = [("s", 0), ("s", 1), ("r", 3)]
    wanted = pattern((STAMP, less(3)), (J, equal(0)))
    wrong(
        joined(spec, ordered=True),
        SIDES,
        script,
        wanted,
        instead(specs.SequenceJoin, lambda wanted: Response((wanted, None))),
    )


def side(names: Sequence[str], *rows: tuple[int, ...]) -> Page:
    types = dict.fromkeys(names, pl.Int32) | {"case": pl.Int64, TS: pl.Int64, SEQ: pl.Int64}
    return Page(
        pl.DataFrame([(*row[:2], 0, row[2], number) for number, row in enumerate(rows)], schema=types, orient="row")
    )


def test_joins_in_order_forget_what_nobody_needs() -> None:
    lefts, rights = side(("l", "j"), (0, 0, 1), (1, 0, 2), (1, 1, 3)), side(("k", "r"), (0, 0, 8), (1, 1, 9))
    recent = joined(specs.SequenceJoin("recent", True, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, TRUE, 3), ordered=True)
    assert held_after(recent, "join", pattern((J, equal(0)), (STAMP, less(100))), ("s", lefts)) == (2, 1), (
        "the first has gone by itself"
    )
    chronicle = joined(
        specs.SequenceJoin("chronicle", True, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, None), ordered=True
    )
    assert held_after(chronicle, "join", pattern((J, equal(0))), ("s", lefts)) == (3, 1)
    counting = joined(
        specs.RowsJoin(
            "inner", LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, Extent(rows=1, by=(J, CASE)), Extent(20), False
        ),
        ordered=True,
    )
    assert held_after(counting, "join", pattern((J, equal(0))), ("s", lefts), ("r", rights)) == (2, 1)


def _respond(response: Response, *_: object) -> Response:
    return response


def test_a_pattern_over_both_sides_must_not_be_split() -> None:
    for side, term in enumerate((pattern((L, equal(1))), pattern((R, equal(1))))):
        inputs = (term, None) if side == 0 else (None, term)
        response = Response(inputs)
        answer = instead(specs.Join, partial(_respond, response))
        wrong(joined(join("inner")), SIDES, JOIN_SCRIPTS[0], JOIN_PATTERNS["lr"], answer)


@pytest.mark.parametrize(
    ("kind", "name", "side"),
    [("left", "r", 1), ("left", "jr", 1), ("right", "l", 0), ("full", "l", 0), ("full", "r", 1)],
)
def test_a_partner_that_is_missing_pads_what_it_would_have_met(kind: str, name: str, side: int) -> None:
    term = pattern((L, equal(1))) if side == 0 else pattern((R, equal(1)))
    wrong(
        joined(join(kind)),
        SIDES,
        JOIN_SCRIPTS[0],
        JOIN_PATTERNS[name],
        instead(specs.Join, lambda wanted: Response((term, None) if side == 0 else (None, term))),
    )


def test_the_other_sides_key_is_null_where_a_tuple_is_alone() -> None:
    wrong(
        joined(join("left")),
        SIDES,
        JOIN_SCRIPTS[0],
        JOIN_PATTERNS["k"],
        instead(specs.Join, lambda wanted: Response((pattern((J, equal(0))), None))),
    )


def test_the_other_side_is_relayed_a_key_only_with_a_guard_on_the_preserved_one() -> None:
    wrong(
        joined(join("left")),
        SIDES,
        JOIN_SCRIPTS[0],
        JOIN_PATTERNS["ts-j"],
        instead(specs.Join, lambda wanted: Response((None, pattern((K, equal(0)))))),
    )


def test_a_tuple_before_the_end_may_meet_one_behind_it() -> None:
    wrong(
        joined(join("inner")),
        SIDES,
        JOIN_SCRIPTS[0],
        JOIN_PATTERNS["ts"],
        instead(specs.Join, lambda wanted: Response((wanted, wanted))),
    )


def test_a_left_tuple_of_a_sequence_makes_way_for_another() -> None:
    spec = specs.SequenceJoin("recent", False, LEFT, RIGHT, RIGHT_NAMES, JOIN_KEYS, None, None)
    script: Script = [("s", 0), ("s", 1), ("r", 2)]
    answer = instead(specs.SequenceJoin, lambda wanted: Response((wanted, None)))
    wrong(joined(spec, ordered=True), SIDES, script, JOIN_PATTERNS["l"], answer)


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_tables(kind: str) -> None:
    table = Page(pl.DataFrame({"k": [0, 0, 1], "t": [5, 6, None]}, schema={"k": pl.Int32, "t": pl.Int32})).encode()
    spec = specs.TableJoin(table, Schema.of(k=Type.INT, t=Type.INT), kind, ((V, "k"),), None, ("tk", "t"))  # type: ignore[arg-type]
    graph = chain(spec)
    k, t = Column("tk", Type.INT), Column("t", Type.INT)
    patterns = [
        pattern((k, equal(0))),
        pattern((k, IsNull())),
        pattern((t, at_least(6))),
        pattern((V, equal(0))),
        pattern((V, equal(0)), (t, equal(5))),
    ]
    right(graph, PLAIN, THREE[:1], *patterns, pattern((STAMP, less(2)), (k, at_most(0))))


def test_memberships() -> None:
    table = Page(pl.DataFrame({"k": [0, None]}, schema={"k": pl.Int32})).encode()
    k, m = Column("k", Type.INT), Column("m", Type.BOOLEAN)
    spec = specs.Membership(table, Schema.of(k=Type.INT), "m", (), ((V, k),), None, ("tk",))
    right(chain(spec), PLAIN, THREE[:1], pattern((V, equal(0))), pattern((m, equal(True))), pattern((m, IsNull())))


def test_a_widened_key_is_the_same_key() -> None:
    right_schema = Schema.of(k=Type.BIGINT, r=Type.INT, case=Type.BIGINT)
    keys = ((Cast(J, Type.BIGINT), Column("k", Type.BIGINT)), (CASE, CASE))
    spec = specs.Join("inner", LEFT, right_schema, RIGHT_NAMES, keys, None, Extent(5), Extent(5), False)
    domains = {"s": SIDES["s"], "r": Domain(Schema.of(k=Type.BIGINT, r=Type.INT), SIDES["r"].rows)}
    right(
        joined(spec), domains, JOIN_SCRIPTS[:1], pattern((J, equal(0))), pattern((Column("k", Type.BIGINT), equal(1)))
    )


LAGGING: list[Script] = [
    [("s", 8), 3, ("r", 3), ("r", 6)],
    [("r", 8), ("s", 7), 2, ("s", 3), ("r", 9)],
    [("s", 5), ("r", 2), 5, ("r", 8), ("s", 9)],
]


def lagging(kind: str, script: Script) -> Trial:
    return Trial(joined(join(kind, 1)), SIDES, script, speaking=("join",))


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
def test_a_thrifty_join_gives_up_only_what_can_meet_nobody(kind: str) -> None:
    for script in LAGGING:
        assert [str(one) for one in lagging(kind, script).violations({}, positions=(0,))] == []


@pytest.mark.parametrize(
    ("kind", "spared"), [("inner", {"s", "r"}), ("left", {"r"}), ("right", {"s"}), ("full", set())]
)
def test_a_thrifty_join_speaks_to_the_side_that_lags_unless_it_is_preserved(kind: str, spared: set[str]) -> None:
    told = {}
    for ahead, behind in (("s", "r"), ("r", "s")):
        engine = Engine(joined(replace(join(kind, 1), manner="thrifty")))
        engine.push(ahead, Punctuation(10))
        engine.run()
        told[behind] = engine.guards.relayed.get(behind, [])
    assert {name for name, said in told.items() if said} == spared
    assert all(str(said[0].pattern).startswith("timestamp < ") for said in told.values() if said)


def test_a_thrifty_join_looks_at_what_it_keeps() -> None:
    engine = Engine(joined(replace(join("inner", 1), manner="thrifty")))
    types = {"l": pl.Int32, "j": pl.Int32, "case": pl.Int64, TS: pl.Int64, SEQ: pl.Int64}
    rows = pl.DataFrame({"l": [0], "j": [0], "case": [0], TS: [4], SEQ: [0]}, schema=types)
    engine.push("s", Page(rows))
    engine.push("s", Punctuation(10))
    engine.run()
    absent = pattern((STAMP, Between(3, 9, open_high=True)), (K, unequal(0)))
    assert engine.guards.relayed["r"] == [
        Feedback(Intent.ASSUMED, pattern((STAMP, less(3)))),
        Feedback(Intent.ASSUMED, absent),
    ], "from 3 to 9, only the key that it keeps can find a partner"
