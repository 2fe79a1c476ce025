"""What rules move through the detection of an event: the same detections from fewer and narrower tuples."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from headrace.catalog.definitions import Query
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateEvent, Detection
from headrace.model.events.event import Mode, primitives
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.time import SECOND
from headrace.model.types import DataType, Type
from headrace.optimizer.optimizer import best
from headrace.optimizer.rules.push_down_filters import push_down_filters
from headrace.optimizer.rules.push_down_projections import push_down_projections
from headrace.plan.binding.binder import bind
from headrace.plan.binding.event import bind_event
from headrace.plan.check import check
from headrace.plan.nodes import Detect, Filter, Node, Project, Scan
from headrace.plan.traversal import walk
from headrace.session import Session
from headrace.session.compile import plan_query
from headrace.testing.oracle.oracle import Row, answer, as_multiset
from headrace.testing.run_graph import run_graph

SEQUENCE = "a SEQUENCE b WITHIN 20 SECONDS WHERE a.k = b.k CONTEXT {}"


@pytest.fixture(scope="module")
def session():
    with Session(host="local") as made:
        for name in "abc":
            made.execute(
                f"CREATE STREAM {name} (at TIMESTAMP, k INT, x DOUBLE, {name}v INT) TIMESTAMP BY at FROM MEMORY"
            )
        yield made


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Row]]:
    rng = random.Random(5)

    def row(name: str, place: int, at: int) -> Row:
        values = {
            "at": at * SECOND,
            "k": rng.choice((0, 1, 2, None)),
            "x": rng.choice((0.0, -0.0, 1.0)),
            f"{name}v": rng.randrange(4),
        }
        return Row(at * SECOND, values, place)

    return {
        name: [row(name, place, at) for place, at in enumerate(sorted(rng.sample(range(90), 40)))] for name in "abc"
    }


def bound(session: Session, text: str) -> Detect:
    (statement,) = parse(f"CREATE EVENT e AS {text}")
    assert isinstance(statement, CreateEvent)
    assert isinstance(statement.body, Detection)

    def plan_of(name: str) -> Node:
        query = session.catalog.find(name)
        assert isinstance(query, Query)
        return plan_query(query, session.catalog)

    return bind_event(statement.body, session.catalog, plan_of, lambda select: bind(select, text, session.catalog))


def detection(plan: Node) -> Detect:
    return next(node for node in walk(plan) if isinstance(node, Detect))


def is_one(name: str, type_: DataType = Type.INT) -> Expr:
    return Call("=", (Column(name, type_), Literal(1, type_)), Type.BOOLEAN)


def sent(plan: Node, histories: dict[str, list[Row]]) -> int:
    """How many tuples come to where an event is detected."""
    return sum(len(answer(part, histories)) for part in detection(plan).parts)


def assert_same(session: Session, plan: Node, better: Node, histories: dict[str, list[Row]]) -> None:
    """Both plans give the same, by the oracle and by the operators, and there is something to compare."""
    check(better)
    expected = as_multiset(answer(plan, histories))
    assert expected
    assert as_multiset(answer(better, histories)) == expected
    streams = [stream for stream in session.catalog.streams() if stream.name in histories]
    assert as_multiset(run_graph(lower(better, "q", {}), streams, histories, size=7)) == expected


@pytest.mark.parametrize("mode", [mode.value for mode in Mode])
def test_a_condition_on_the_key_goes_to_all_inputs(session, histories, mode):
    plan = Filter(bound(session, SEQUENCE.format(mode)), is_one("k"))
    better = push_down_filters(plan)
    assert isinstance(better, Detect)
    assert better.parts == (Filter(plan.input.parts[0], is_one("k")), Filter(plan.input.parts[1], is_one("k")))
    assert_same(session, plan, better, histories)
    assert sent(better, histories) < sent(plan, histories)


def test_a_condition_on_the_key_also_leaves_out_what_would_only_prevent(session, histories):
    plan = Filter(bound(session, "NOT (b) [a, c] WHERE a.k = b.k AND a.k = c.k"), is_one("k_1"))
    better = push_down_filters(plan)
    assert isinstance(better, Detect)
    assert [isinstance(part, Filter) for part in better.parts] == [True, True, True]
    assert_same(session, plan, better, histories)


def test_another_condition_waits_for_the_detection_because_what_fails_it_replaces_others(session, histories):
    plan = Filter(bound(session, SEQUENCE.format("RECENT")), is_one("av"))
    assert push_down_filters(plan) == plan
    careless = replace(plan.input, parts=(Filter(plan.input.parts[0], is_one("av")), plan.input.parts[1]))
    assert as_multiset(answer(careless, histories)) != as_multiset(answer(plan, histories))


def test_a_condition_on_a_key_that_an_occurrence_may_lack_stays(session, histories):
    plan = Filter(bound(session, "a OR b WHERE a.k = b.k"), is_one("k"))
    assert push_down_filters(plan) == plan
    careless = replace(plan.input, parts=tuple(Filter(part, is_one("k")) for part in plan.input.parts))
    assert as_multiset(answer(careless, histories)) != as_multiset(answer(plan, histories))


def test_a_condition_on_a_key_whose_equal_values_differ_stays(session):
    plan = Filter(bound(session, "a SEQUENCE b WHERE a.x = b.x"), is_one("x", Type.DOUBLE))
    assert push_down_filters(plan) == plan


def test_masks_are_decided_before_tuples_are_sent(session, histories):
    plan = bound(session, "a SEQUENCE b WITHIN 20 SECONDS WHERE a.k = b.k AND a.av = 1 AND b.bv > 1 CONTEXT CONTINUOUS")
    better = push_down_filters(plan)
    assert isinstance(better, Detect)
    assert all(part.mask is not None for part in primitives(plan.event))
    assert all(part.mask is None for part in primitives(better.event))
    assert all(isinstance(part, Filter) for part in better.parts)
    assert_same(session, plan, better, histories)
    assert sent(better, histories) < sent(plan, histories)


def test_a_mask_stays_where_another_part_needs_the_same_tuples(session, histories):
    plan = bound(
        session, "a AS one SEQUENCE a AS two WITHIN 20 SECONDS WHERE one.k = two.k AND one.av = 1 CONTEXT CHRONICLE"
    )
    better = push_down_filters(plan)
    assert better == plan
    both = bound(
        session,
        "a AS one SEQUENCE a AS two WITHIN 20 SECONDS WHERE one.k = two.k AND one.av = 1 "
        "AND two.av > 1 CONTEXT CHRONICLE",
    )
    better = push_down_filters(both)
    assert all(isinstance(part, Filter) for part in detection(better).parts)
    assert_same(session, both, better, histories)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a SEQUENCE b WITHIN 20 SECONDS WHERE a.k = b.k", [{"k"}, {"k", "bv"}]),
        ("a SEQUENCE b WITHIN 20 SECONDS WHERE a.k = b.k AND a.av <= b.bv", [{"k", "av"}, {"k", "bv"}]),
        ("a SEQUENCE b WITHIN 20 SECONDS WHERE a.k = b.k AND a.x = 1.0", [{"k", "x"}, {"k", "bv"}]),
        ("a SEQUENCE b CONTEXT RECENT (a BY x)", [{"x"}, {"bv"}]),
    ],
)
def test_only_columns_that_are_told_tested_or_divided_by_are_sent(session, histories, text, kept):
    plan = Project(bound(session, text), (("bv", Column("bv", Type.INT)),))
    better = push_down_projections(plan)
    assert [set(part.schema.names) for part in detection(better).parts] == kept
    assert [output.name for output in detection(better).outputs] == ["bv"]
    assert_same(session, plan, better, histories)


def test_what_tells_when_a_named_event_began_is_sent_although_nobody_shows_it(session, histories):
    session.execute("CREATE EVENT IF NOT EXISTS pair AS a SEQUENCE b WITHIN 9 SECONDS WHERE a.k = b.k")
    named = bound(session, "NOT (pair) [c, '9 s'] WHERE pair.k = c.k")
    plan = Project(named, (("cv", Column("cv", Type.INT)),))
    better = best(plan)
    part = next(part for part in primitives(detection(better).event) if part.name == "pair")
    assert part.start == "event_start"
    assert "event_start" in detection(better).parts[part.port].schema.names
    assert_same(session, plan, better, histories)
    stand_in = replace(
        named, parts=tuple(Scan(f"query {i}", part.schema) for i, part in enumerate(named.parts))
    )  # as before its plan is put in
    narrowed = detection(push_down_projections(Project(stand_in, (("cv", Column("cv", Type.INT)),)))).parts[part.port]
    assert set(narrowed.schema.names) == {"k", "event_start"}
