"""What operators have in common that sort their tuples themselves, and work on each key alone."""

from __future__ import annotations

from abc import abstractmethod

from headrace.model.expressions.expression import Column, Expr
from headrace.operators.partitioning import Keys
from headrace.operators.spec import Spec


class KeyedSpec(Spec, frozen=True):
    """A spec whose tuples meet if they agree in `by`, in whatever order they come; the output has the input's columns.

    Its state can go to another bucket key by key.
    """

    @property
    @abstractmethod
    def by(self) -> tuple[Expr, ...]: ...

    def partition_by(self, port: int) -> Keys:
        return self.by

    def output_keys(self, positions: tuple[int, ...]) -> Keys | None:
        keys = tuple(self.by[i] for i in positions)
        return keys if all(isinstance(key, Column) for key in keys) else None

    @property
    def order_matters(self) -> bool:
        return False

    @property
    def hindrance(self) -> str | None:
        return None
