"""How far feedback may go; less than as far as possible is for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from headrace.model.patterns.pattern import Pattern
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.response import Response, respond
from headrace.operators.specs import Filter, Spec, TableJoin, Union

Reach: TypeAlias = Literal["results", "operator", "sources"]


def _not_at_all(spec: Spec, wanted: Pattern, invariants: tuple[Invariants, ...]) -> Response:
    """Results are dropped when they are ready; nobody else hears of it."""
    return Response((None,) * len(invariants))


def _to_the_operator(spec: Spec, wanted: Pattern, invariants: tuple[Invariants, ...]) -> Response:
    """The operator that makes the results does not take what it need not; those before it do not hear of it."""
    return (
        _not_at_all(spec, wanted, invariants)
        if isinstance(spec, Filter | Union | TableJoin)
        else respond(spec, wanted, invariants)
    )


REACHES: Mapping[Reach, Callable[[Spec, Pattern, tuple[Invariants, ...]], Response]] = {
    "results": _not_at_all,
    "operator": _to_the_operator,
    "sources": respond,
}
