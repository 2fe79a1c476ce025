"""Join of several streams over time windows, as one vertex whose join tree is a setting that can change."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.model.expressions.expression import Column, Expr, columns
from headrace.model.expressions.text import format_expr
from headrace.model.grid import Grid
from headrace.model.python_function import calls_python
from headrace.model.schema import Schema
from headrace.model.window import Extent
from headrace.operators.arrays import EXACT
from headrace.operators.operator import Operator
from headrace.operators.partitioning import KeyClass, Keys, computed_from
from headrace.operators.spec import Order, Spec


class MultiJoin(Spec, frozen=True, tag="multi_join", omit_defaults=True):
    """All combinations of one tuple of each input that satisfy all classes and terms: max(ts) <= min(expiry).

    `names` are the columns of each input in the output. A class has for each port an expression over its input, or
    None: those that it has must be equal. `terms` are over output names. An extent of None means that the tuples of the
    input carry their own expiry. `labels` name the inputs for people; they mean nothing.

    Terms on one input are tested on its tuples. If they may take long, a tree can have them tested on results.

    Inputs without a key that all of them have meet in a grid: `grid` has the weight of each (`model.grid`).
    """

    inputs: tuple[Schema, ...]
    names: tuple[tuple[str, ...], ...]
    extents: tuple[Extent | None, ...]
    classes: tuple[tuple[Expr | None, ...], ...]
    terms: tuple[Expr, ...]
    expiry: bool
    labels: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()

    def build(self) -> Operator:
        from headrace.operators.multijoin.operator import MultiJoinOperator

        return MultiJoinOperator(self)

    def meaning(self) -> Spec:
        return replace(self, labels=())

    def describe(self, inputs: Sequence[str] = ()) -> str:
        shown = self.labels or inputs
        conditions = [" = ".join(map(format_expr, members)) for members in self.shown_classes()]
        tested = " and ".join([*conditions, *map(format_expr, self.terms)])
        return f"join {' x '.join(shown)}".rstrip() + (f" on {tested}" if tested else "")

    def shown_classes(self) -> list[list[Expr]]:
        """Return the members of each class over the columns of the output."""
        return [[self.output(port, expr) for port, expr in enumerate(c) if expr is not None] for c in self.classes]

    def output(self, port: int, expr: Expr) -> Expr:
        """Return an expression over an input as one over the output; it does not read the timestamp."""
        shown = computed_from((expr,), tuple(self.columns(port).items()))
        assert shown is not None, "keys read columns only"
        return shown[0]

    def columns(self, port: int) -> dict[str, Column]:
        """Return the columns of an input as they are called in the output."""
        pairs = zip(self.inputs[port], self.names[port], strict=True)
        return {field.name: Column(name, field.type) for field, name in pairs}

    def port_of(self, term: Expr) -> int | None:
        """Return the one input that a term reads; None if it reads several, or none."""
        read = columns(term)
        return next((port for port, own in enumerate(self.names) if read and read <= set(own)), None)

    @property
    def conditions(self) -> dict[int, tuple[Expr, ...]]:
        """Return, by port, the terms on one input that may take long, so that they can be tested on results."""
        found: dict[int, tuple[Expr, ...]] = {}
        for term in self.terms:
            port = self.port_of(term) if calls_python(term) else None
            if port is not None:
                found[port] = (*found.get(port, ()), term)
        return found

    @property
    def common(self) -> tuple[int, ...]:
        """Return the classes that all ports have: tuples that differ in them never meet."""
        return tuple(number for number, members in enumerate(self.classes) if None not in members)

    @property
    def cells(self) -> Grid | None:
        """Return the grid in which the inputs meet; None if they have a key in common, or meet in one bucket."""
        if not self.grid:
            return None
        having = (tuple(port for port, expr in enumerate(members) if expr is not None) for members in self.classes)
        return Grid(self.grid, tuple(having))

    def is_exact(self, classes: Sequence[int]) -> bool:
        """Return whether the number by which rows are sorted for these classes is the key itself."""
        return len(classes) == 1 and all(expr is None or expr.type in EXACT for expr in self.classes[classes[0]])

    def partition_by(self, port: int) -> Keys:
        return tuple(expr for number in self.common if (expr := self.classes[number][port]) is not None)

    def output_classes(
        self, positions: tuple[int, ...], classes: tuple[tuple[KeyClass, ...], ...]
    ) -> tuple[KeyClass, ...] | None:
        output = tuple(
            tuple(
                dict.fromkeys(
                    shown
                    for port in range(len(self.inputs))
                    for key in (self.classes[self.common[position]][port], *classes[port][place])
                    if key is not None
                    for shown in computed_from((key,), tuple(self.columns(port).items())) or ()
                )
            )
            for place, position in enumerate(positions)
        )
        return output if all(output) else None

    @property
    def output_order(self) -> Order:
        return Order.NONE

    @property
    def order_matters(self) -> bool:
        return False

    @property
    def hindrance(self) -> str | None:
        return "its inputs have different keys, so that tuples are copied to several buckets" if self.grid else None

    @property
    def whole_hindrance(self) -> str | None:
        return self.hindrance

    @property
    def can_be_split(self) -> bool:
        return self.hindrance is None
