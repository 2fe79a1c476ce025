"""What is detected: the fields of a detection, apart from the operators that run it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.events.event import Context, Event, always, divided_by, linked_columns
from headrace.model.events.output import Output, Pick, output_schema, read_columns
from headrace.model.events.text import format_context, format_event
from headrace.model.expressions.expression import Column, Expr, columns
from headrace.model.expressions.text import format_expr
from headrace.model.schema import Schema
from headrace.operators.keyed_spec import ByKey


class Detection(ByKey, frozen=True):
    """The occurrences of an event, each when nothing more can come that would precede its end.

    Tuples that differ in `keys` (expressions over each port's columns; NULL equals nothing) belong to histories of
    their own: modes apply to each by itself. `conditions` are over `part.column` (`part.__ts` too) and are tested while
    pairing. Inputs are in order of arrival; where order of equal timestamps matters, they must come in it.
    """

    event: Event
    context: Context
    schemas: tuple[Schema, ...]
    keys: tuple[tuple[Expr, ...], ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]

    def describe(self, inputs: Sequence[str] = ()) -> str:
        per = ", ".join(_equal(keys) for keys in zip(*self.keys, strict=True))
        tested = "".join(f" and {format_expr(term)}" for term in self.conditions)
        event = f"detect {format_event(self.event)}{f' per {per}' if per else ''}{tested}"
        return f"{event}, {format_context(self.context)}"

    def partition_by(self, port: int) -> tuple[Expr, ...]:
        return self.keys[port]

    @property
    def schema(self) -> Schema:
        return output_schema(self.event, self.schemas, self.outputs)

    def needed(self) -> frozenset[str]:
        """Return the qualified columns that are read after the masks."""
        tested = frozenset(name for term in self.conditions for name in columns(term))
        return tested.union(
            divided_by(self.event, self.context), linked_columns(self.event), *map(read_columns, self.outputs)
        )

    def output_keys(self, positions: tuple[int, ...]) -> tuple[Expr, ...] | None:
        """Return the keys of a part that every detection has and shows."""
        shown = {(output.part, output.column): output.name for output in self.outputs if isinstance(output, Pick)}
        for part in always(self.event):
            keys = [self.keys[part.port][i] for i in positions]
            names = [shown.get((part.name, key.name)) if isinstance(key, Column) else None for key in keys]
            if None not in names:
                return tuple(Column(name, key.type) for name, key in zip(names, keys, strict=True) if name is not None)
        return None


def _equal(keys: tuple[Expr, ...]) -> str:
    """Write the keys of all ports that correspond: once if they are alike."""
    return " = ".join(dict.fromkeys(map(format_expr, keys)))
