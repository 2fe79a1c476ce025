"""Merge inputs of equal schemas into one stream in timestamp order."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.operators.spec import Spec
from headrace.operators.text import with_inputs
from headrace.operators.tuples.union import Union, UnionOperator


class OrderedUnion(Spec, frozen=True, tag="ordered_union"):
    """All tuples of all ports by timestamp; of equal ones those of the lowest port first.

    Each input must be in order.
    """

    ports: int

    def build(self) -> UnionOperator:
        return UnionOperator(Union(self.ports))

    def describe(self, inputs: Sequence[str] = ()) -> str:
        return f"{with_inputs('union', inputs, ', ')} by timestamp"

    @property
    def merges_inputs(self) -> bool:
        return True
