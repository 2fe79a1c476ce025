"""Merge inputs of equal schemas into one stream in timestamp order."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.operators.tuples.union import Union, UnionOperator


class OrderedUnion(Struct, frozen=True, tag="ordered_union"):
    """All tuples of all ports by timestamp; of equal ones those of the lowest port first. Each input must be in order."""

    ports: int

    @property
    def is_stateless(self) -> bool:
        return False

    def build(self) -> OrderedUnionOperator:
        return OrderedUnionOperator(Union(self.ports))

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return ()


class OrderedUnionOperator(UnionOperator):
    """As `Union`: the engine does the waiting."""

    merges: ClassVar[bool] = True
