"""Capabilities of operators: found by method, with a default for operators that lack them."""

from __future__ import annotations

from headrace.model.expressions.expression import TRUE
from headrace.model.patterns.pattern import ALL_TUPLES
from headrace.operators.capabilities import (
    Speaking,
    due_of,
    held_by,
    late_at,
    purge,
    settled_in,
)
from headrace.operators.order.pace import Pace
from headrace.operators.order.reorder import Reorder
from headrace.operators.tuples.filter import Filter


def test_an_operator_without_capabilities_holds_nothing_and_waits_for_nothing() -> None:
    operator = Filter(TRUE).build()
    assert (held_by(operator), late_at(operator), due_of(operator)) == (0, 0, None)
    assert (purge(operator, 0, ALL_TUPLES), settled_in(operator, ALL_TUPLES)) == (0, ())


def test_a_method_makes_a_capability() -> None:
    assert isinstance(Pace(2, 1).build(), Speaking)
    assert not isinstance(Reorder((), ()).build(), Speaking)
