"""What operators have in common that work on each key alone."""

from __future__ import annotations

from abc import abstractmethod

from headrace.model.expressions.expression import Column, Expr
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Spec


class ByKey(Spec, frozen=True):
    """A spec whose state can go to another bucket key by key."""

    @property
    def hindrance(self) -> str | None:
        return None


class UnorderedByKey(ByKey, frozen=True):
    """The same of an operator that takes its tuples in any order, since it sorts or counts them itself."""

    @property
    def order_matters(self) -> bool:
        return False


class KeyedSpec(UnorderedByKey, frozen=True):
    """A spec whose tuples meet if they agree in `by`; the output has the input's columns."""

    @property
    @abstractmethod
    def by(self) -> tuple[Expr, ...]: ...

    def partition_by(self, port: int) -> Keys:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> Keys | None:
        keys = tuple(self.by[i] for i in positions)
        return keys if all(isinstance(key, Column) for key in keys) else None
