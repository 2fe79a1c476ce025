"""How far feedback may go; less than as far as possible is for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from headrace.model.patterns.pattern import Pattern
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.response import Response, respond
from headrace.operators.specs import Filter, Spec, TableJoin, Union

Reach: TypeAlias = Literal["results", "operator", "sources"]


def _not_at_all(spec: Spec, pattern: Pattern, invariants: tuple[Invariants, ...]) -> Response:
    """Drop results when they are complete, and nothing before."""
    return Response((None,) * len(invariants))


def _to_the_operator(spec: Spec, pattern: Pattern, invariants: tuple[Invariants, ...]) -> Response:
    """Spare the operator that makes the results what it need not take, but not the operators before it."""
    return (
        _not_at_all(spec, pattern, invariants)
        if isinstance(spec, Filter | Union | TableJoin)
        else respond(spec, pattern, invariants)
    )


REACHES: Mapping[Reach, Callable[[Spec, Pattern, tuple[Invariants, ...]], Response]] = {
    "results": _not_at_all,
    "operator": _to_the_operator,
    "sources": respond,
}
