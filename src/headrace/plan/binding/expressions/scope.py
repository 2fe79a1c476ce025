"""The names that an expression may use, and the column that each stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from headrace.errors import NameFault, NotSupported, Span
from headrace.language import other_systems
from headrace.language.names import did_you_mean
from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.schema import TS, Schema
from headrace.model.types import StructType, Type, is_nested
from headrace.plan.binding.expressions.nested import field as field_of
from headrace.plan.binding.expressions.nested import fields as fields_of
from headrace.plan.binding.span import place

ROWTIME: Expr = Call("timestamp_micros", (Column(TS, Type.BIGINT),), Type.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Relation:
    """One FROM item: the names it goes by, and for each of its columns what computes it."""

    names: tuple[str, ...]
    columns: tuple[tuple[str, Expr], ...]
    is_table: bool = False

    def find(self, name: str) -> list[Expr]:
        exact = [expr for column, expr in self.columns if column == name]
        return exact or [expr for column, expr in self.columns if column.lower() == name.lower()]

    def is_called(self, qualifier: str) -> bool:
        return qualifier.lower() in (name.lower() for name in self.names)


@dataclass(frozen=True, slots=True)
class Scope:
    """The FROM items in the order written; `merged` are the columns that USING made one."""

    relations: tuple[Relation, ...]
    merged: dict[str, Expr] = field(default_factory=dict)

    def column(self, node: exp.Column) -> Expr:
        """Return the expression that a column reference stands for."""
        nested = self._nested(node)
        if nested is not None:
            return nested
        qualifier = ".".join(part.name for part in node.parts[:-1])
        return self._qualified(node, qualifier) if qualifier else self._plain(node)

    def has(self, name: str) -> bool:
        return any(relation.find(name) for relation in self.relations)

    def star(self, qualifier: exp.Column | None = None) -> list[tuple[str, Expr]]:
        """Return the columns of `*`, `item.*` or `struct.*`."""
        if qualifier is not None:
            written = ".".join(part.name for part in qualifier.parts[:-1])
            is_item = any(relation.is_called(written) for relation in self.relations)
            fields = None if is_item else self._fields(qualifier)
            return list(self._relation(written, place(qualifier)).columns) if fields is None else fields
        merged = [(name, expr) for name, expr in self.merged.items()]
        taken = {name.lower() for name in self.merged}
        return merged + [
            (name, expr) for relation in self.relations for name, expr in relation.columns if name.lower() not in taken
        ]

    def columns(self) -> list[str]:
        return [name for relation in self.relations for name, _ in relation.columns]

    def _nested(self, node: exp.Column) -> Expr | None:
        """Return `column.field` or `item.column.field`; None if the dots do not lead into a STRUCT or MAP."""
        names = [part.name for part in node.parts]
        for length in range(len(names) - 2, -1, -1):
            qualifier = ".".join(names[:length])
            if qualifier and not any(relation.is_called(qualifier) for relation in self.relations):
                continue
            near = [relation for relation in self.relations if not qualifier or relation.is_called(qualifier)]
            merged = [expr for key, expr in self.merged.items() if key.lower() == names[length].lower()]
            base = (not qualifier and merged[:1]) or [expr for rel in near for expr in rel.find(names[length])]
            hides = not qualifier and any(rel.is_called(names[0]) and rel.find(names[1]) for rel in self.relations)
            if len(base) == 1 and is_nested(base[0].type) and not hides:
                return reduce(lambda expr, name: field_of(expr, name, place(node)), names[length + 1 :], base[0])
        return None

    def _fields(self, star: exp.Column) -> list[tuple[str, Expr]] | None:
        """Return the fields of the STRUCT before `.*`; None if there is none."""
        *outer, name = (part.copy() for part in star.parts[:-1])
        column = exp.Column(this=name, **dict(zip(("table", "db", "catalog"), reversed(outer), strict=False)))
        try:
            base = self.column(column)
        except NameFault:
            return None
        return fields_of(base, place(star)) if isinstance(base.type, StructType) else None

    def _plain(self, node: exp.Column) -> Expr:
        name = node.name
        merged = next((expr for key, expr in self.merged.items() if key.lower() == name.lower()), None)
        if merged is not None:
            return merged
        candidates = [(relation, expr) for relation in self.relations for expr in relation.find(name)]
        if len(candidates) > 1:
            choices = ", ".join(dict.fromkeys(f"{relation.names[0]}.{name}" for relation, _ in candidates))
            raise NameFault(f"column {name!r} is ambiguous", span=place(node), hint=f"write one of {choices}")
        if candidates:
            return candidates[0][1]
        if name.lower() == "rowtime":
            return ROWTIME
        if name.lower() in ("window_start", "window_end"):
            raise NameFault(
                f"{name} exists only in the result of an aggregate over a window",
                span=place(node),
                hint="write it in SELECT or HAVING beside count, sum, ...",
            )
        where = " or ".join(relation.names[0] for relation in self.relations)
        raise NameFault(
            f"column {name!r} does not exist in {where}",
            span=place(node),
            hint="write texts in single quotes"
            if node.this.args.get("quoted")
            else other_systems.COLUMNS.get(name.upper()) or self._hint(name, self.columns()),
        )

    def _qualified(self, node: exp.Column, qualifier: str) -> Expr:
        relation = self._relation(qualifier, place(node))
        candidates = relation.find(node.name)
        if len(candidates) > 1:
            raise NameFault(
                f"column {node.name!r} of {qualifier} is ambiguous", span=place(node), hint="rename one with AS"
            )
        if candidates:
            return candidates[0]
        if node.name.lower() == "rowtime" and not relation.is_table:
            if sum(not other.is_table for other in self.relations) > 1:
                raise NotSupported(
                    f"{qualifier}.rowtime does not exist after a join, only rowtime of the result",
                    span=place(node),
                    hint="select it before the join: (SELECT *, rowtime AS at FROM ...)",
                )
            return ROWTIME
        raise NameFault(
            f"column {node.name!r} does not exist in {qualifier}",
            span=place(node),
            hint=self._hint(node.name, (name for name, _ in relation.columns)),
        )

    def _relation(self, qualifier: str, span: Span | None) -> Relation:
        candidates = [relation for relation in self.relations if relation.is_called(qualifier)]
        if not candidates:
            known = [relation.names[0] for relation in self.relations if relation.names]
            raise NameFault(
                f"{qualifier!r} does not exist in FROM",
                span=span,
                hint=did_you_mean(qualifier, known, otherwise=f"FROM has {', '.join(known)}"),
            )
        if len(candidates) > 1:
            raise NameFault(
                f"two items in FROM are called {qualifier!r}", span=span, hint="give them different names with AS"
            )
        return candidates[0]

    @staticmethod
    def _hint(name: str, known: Iterable[str]) -> str | None:
        names = list(dict.fromkeys(known))
        return did_you_mean(
            name, names, otherwise=f"columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
        )


def relation_of(
    names: tuple[str, ...], schema: Schema, renamed: Iterable[str] | None = None, *, is_table: bool = False
) -> Relation:
    """Make the relation of a FROM item whose columns come out of the plan under the names `renamed`."""
    outputs = schema.names if renamed is None else tuple(renamed)
    columns = tuple((field.name, Column(output, field.type)) for field, output in zip(schema, outputs, strict=True))
    return Relation(names, columns, is_table)


def unique(name: str, taken: set[str]) -> str:
    """Return and take the name, or the first of name_1, name_2, ... that is free whatever the case."""
    result, number = name, 0
    while result.lower() in taken:
        number += 1
        result = f"{name}_{number}"
    taken.add(result.lower())
    return result
