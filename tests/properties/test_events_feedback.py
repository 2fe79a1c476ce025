"""What a detection need not take in if some results are not needed: all small inputs, all choices of the sources."""

from __future__ import annotations

import os

import pytest

from headrace.graph.graph import Graph, Vertex
from headrace.model.events.event import (
    And,
    AnyOf,
    AperiodicStar,
    Context,
    Event,
    Mode,
    Not,
    Or,
    Primitive,
    Repetition,
    Sequence,
    Within,
)
from headrace.model.events.output import Pick
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import equal, less
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.types import Type
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.response import Response, respond
from headrace.operators.specs import Detect, Output, Reorder, Scan, Spec
from headrace.testing.feedback import Domain, Script, Trial

pytestmark = pytest.mark.slow

L, J, CASE = Column("l", Type.INT), Column("j", Type.INT), Column("case", Type.BIGINT)
LEFT, RIGHT = Schema.of(l=Type.INT, j=Type.INT, case=Type.BIGINT), Schema.of(k=Type.INT, r=Type.INT, case=Type.BIGINT)
K, R = Column("k", Type.INT), Column("r", Type.INT)
SIDES = {
    "s": Domain(Schema.of(l=Type.INT, j=Type.INT), ((0, 0), (1, 0), (1, 1))),
    "r": Domain(Schema.of(k=Type.INT, r=Type.INT), ((0, 0), (0, 1), (1, 1))),
}
A, B, LAST = Primitive("a", 0), Primitive("b", 1), Primitive("c", 0)
EVENTS: dict[str, Event] = {
    "sequence": Sequence(A, B),
    "sequence within": Within(Sequence(A, B), 2),
    "and": And(A, B),
    "and within": Within(And(A, B), 1),
    "three within": Within(Sequence(And(A, B), LAST), 2),
    "any": AnyOf(2, (A, B)),
    "either within": Within(Or(A, B), 1),
    "not": Not(B, A, LAST),
    "aperiodic star": AperiodicStar(A, B, LAST),
    "repetition": Within(Repetition(A, (B,), ((0, None),), LAST), 2),
}
SCRIPTS: list[Script] = [[("s", 0), ("s", 1), ("r", 2)], [("s", 0), ("r", 1), 1, ("s", 2)]]
#: The fast run takes inputs of three tuples, and feedback after the first.
LONGER = int(os.environ.get("HEADRACE_EXAMPLES", "0")) >= 100
MOMENTS = None if LONGER else (1,)
BOUNDS = (2, 3) if LONGER else (2,)
if LONGER:
    SCRIPTS += [[("s", 0), ("r", 1), ("s", 2), ("r", 3)], [("r", 0), ("s", 1), ("r", 1), 1, ("s", 3)]]


def detect(event: Event, mode: Mode) -> Detect:
    outputs = (Pick("l", "a", "l"), Pick("j", "a", "j"), Pick("case", "a", "case"), Pick("r", "b", "r"))
    shown = outputs if "b" in str(event) else outputs[:3]
    return Detect(event, Context(mode), (LEFT, RIGHT), ((J, CASE), (K, CASE)), (), shown)


def graph(spec: Detect) -> Graph:
    scans = (Vertex("s", Scan("s", LEFT.names, True)), Vertex("r", Scan("r", RIGHT.names, True)))
    orders = (Vertex("os", Reorder((CASE,), (SEQ,)), ("s",)), Vertex("or", Reorder((CASE,), (SEQ,)), ("r",)))
    return Graph((*scans, *orders, Vertex("found", spec, ("os", "or")), Vertex("out", Output("out"), ("found",))))


def test_a_history_that_nobody_needs_is_left_out_at_all_inputs() -> None:
    for event in (each for name, each in EVENTS.items() if name != "either within"):
        assert respond(detect(event, Mode.RECENT), pattern((J, equal(1))), ()) == Response(
            (pattern((J, equal(1))), pattern((K, equal(1))))
        )


@pytest.mark.parametrize(
    "wanted",
    [pattern((L, equal(1))), pattern((STAMP, less(2))), pattern((L, equal(1)), (J, equal(1))), pattern((R, equal(1)))],
    ids=str,
)
def test_anything_else_might_have_prevented_or_replaced_something(wanted: Pattern) -> None:
    assert respond(detect(Sequence(A, B), Mode.RECENT), wanted, ()).inputs == (None, None)


def test_up_to_a_time_it_is_what_nothing_behind_it_can_consist_of() -> None:
    wanted = pattern((STAMP, less(9)), (J, equal(1)))
    short = Response((pattern((STAMP, less(7)), (J, equal(1))), pattern((STAMP, less(7)), (K, equal(1)))))
    for mode in Mode:
        found = respond(detect(Within(Sequence(A, B), 2), mode), wanted, ())
        assert found == (short if mode in (Mode.UNRESTRICTED, Mode.RECENT) else Response((None, None)))
    for event in (Sequence(A, B), Within(Not(B, A, LAST), 2), Within(Sequence(Primitive("a", 0, start="since"), B), 2)):
        assert respond(detect(event, Mode.RECENT), wanted, ()) == Response((None, None))


def test_a_response_that_forgets_how_long_tuples_live_is_found_out() -> None:
    def careless(spec: Spec, wanted: Pattern, invariants: tuple[Invariants, ...]) -> Response:
        if isinstance(spec, Detect) and (match := wanted.get(TS)) is not None:
            return Response((pattern((STAMP, match)),) * 2)
        return respond(spec, wanted, invariants)

    trial = Trial(graph(detect(Within(Sequence(A, B), 2), Mode.RECENT)), SIDES, SCRIPTS[0])
    assert list(trial.violations({"out": pattern((STAMP, less(2)))}, careless, positions=(1,)))


def test_a_key_that_an_occurrence_may_lack_says_nothing() -> None:
    assert respond(detect(Or(A, B), Mode.RECENT), pattern((J, equal(1))), ()).inputs == (None, None)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", EVENTS)
def test_heeding_an_assumption_loses_nothing_that_is_needed(name: str, mode: Mode) -> None:
    for script in SCRIPTS:
        trial = Trial(graph(detect(EVENTS[name], mode)), SIDES, script)
        timed = [pattern((STAMP, less(bound)), *more) for bound in BOUNDS for more in ((), ((J, equal(0)),))]
        for wanted in (pattern((J, equal(0))), pattern((L, equal(1))), pattern((L, equal(1)), (J, equal(0))), *timed):
            assert list(trial.violations({"out": wanted}, positions=MOMENTS)) == []


def test_a_response_that_leaves_out_what_would_replace_is_found_out() -> None:
    def careless(spec: Spec, wanted: Pattern, invariants: tuple[Invariants, ...]) -> Response:
        return Response((wanted, None)) if isinstance(spec, Detect) else respond(spec, wanted, invariants)

    trial = Trial(graph(detect(Sequence(A, B), Mode.RECENT)), SIDES, SCRIPTS[0])
    wanted = pattern((L, equal(1)))
    assert list(trial.violations({"out": wanted}, careless, positions=(1,)))
    assert list(trial.violations({"out": wanted}, positions=(1,))) == []
