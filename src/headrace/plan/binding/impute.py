"""IMPUTE in SELECT: the look-up becomes a node below the projection, and the call a column of it."""

from __future__ import annotations

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Table
from headrace.errors import NameFault, NotSupported, SyntaxFault, TypeFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.clauses import ImputeClause
from headrace.model.expressions.expression import Column, Expr, conjuncts
from headrace.model.python_target import PythonTarget
from headrace.model.schema import Field
from headrace.model.types import Type
from headrace.plan.binding.expressions.coerce import coerce, unify
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.expressions.scope import Scope, relation_of, unique
from headrace.plan.binding.join_tree import narrowed, sides
from headrace.plan.binding.span import place
from headrace.plan.nodes import FunctionArchive, Impute, Node, StoredArchive

#: The names of a table's columns while a condition is bound.
_OWN = "__archive."


class Imputing:
    """The input of a SELECT while its IMPUTE calls are bound; each adds a column to `node`."""

    def __init__(self, node: Node, scope: Scope, catalog: Catalog) -> None:
        self.node = node
        self._scope, self._catalog = scope, catalog
        self._binder = ExpressionBinder(scope, catalog, "in IMPUTE")

    def bind(self, clause: ImputeClause) -> Expr:
        """Bind a call to its new column, or to the default where that column is NULL."""
        value = self._binder.bind(clause.value)
        if value.type is Type.NULL:
            raise TypeFault(
                "the type of the value to impute is not known", span=clause.span, hint="name a column that may be NULL"
            )
        default = None if clause.default is None else self._default(clause, value)
        node = self._from_function(clause, value) if clause.target is not None else self._from_table(clause, value)
        self.node = node
        column = Column(node.name, node.value.type)
        return column if default is None else apply("coalesce", (column, default), clause.span)

    def _default(self, clause: ImputeClause, value: Expr) -> Expr:
        assert clause.default is not None
        unified = unify([value, self._binder.bind(clause.default)])
        if unified is None:
            raise TypeFault(
                f"the default must be {value.type.value}, the type of the column",
                span=place(clause.default),
                hint="write a value of the column's type",
            )
        return unified[1]

    def _from_function(self, clause: ImputeClause, value: Expr) -> Impute:
        target = self._target(clause)
        if not clause.on:
            raise SyntaxFault(
                f"the function {str(target)!r} needs keys",
                span=clause.span,
                hint="IMPUTE(speed USING 'python:module:function' ON id, lane)",
            )
        return Impute(
            self.node,
            self._name(clause),
            value,
            tuple(map(self._binder.bind, clause.on)),
            FunctionArchive(str(target)),
        )

    def _target(self, clause: ImputeClause) -> PythonTarget:
        try:
            return PythonTarget.parse_prefixed(clause.target or "")
        except ValueError as error:
            raise SyntaxFault(
                f"{clause.target!r} is not an archive",
                span=clause.archive,
                hint="write a table, or 'python:module:function'",
            ) from error

    def _from_table(self, clause: ImputeClause, value: Expr) -> Impute:
        assert clause.table is not None
        table = self._catalog.find(clause.table.name, span=clause.archive)
        if not isinstance(table, Table) or table.origin is not None:
            hint = "IMPUTE reads stored tables; join the stream with a window instead"
            raise NotSupported(f"{clause.table.name!r} is not a stored table", span=clause.archive, hint=hint)
        field = self._column(clause, table)
        typed = unify([value, Column(field.name, field.type)])
        if typed is None:
            raise TypeFault(
                f"{table.name}.{field.name} is {field.type.value}, not {value.type.value}",
                span=clause.span,
                hint="convert the column with CAST",
            )
        keys = self._keys(clause, table) if clause.on else self._shared(clause, table, field)
        archive = StoredArchive(table.name, table.schema, tuple(name for _, name in keys), field.name)
        return Impute(
            self.node, self._name(clause), coerce(value, typed[0].type), tuple(expr for expr, _ in keys), archive
        )

    def _column(self, clause: ImputeClause, table: Table) -> Field:
        """Return the column that holds the values: the one that is named, or the one of the same name."""
        written = clause.column or (clause.value.name if isinstance(clause.value, exp.Column) else "")
        names = table.schema.names
        if not written:
            raise SyntaxFault(
                f"expected the column of {table.name} that holds the values",
                span=clause.archive,
                hint=f"write for example {table.name}.{names[0]}",
            )
        column = next((field for field in table.schema if field.name.lower() == written.lower()), None)
        if column is None:
            hint = did_you_mean(written, names, otherwise=f"write for example {table.name}.{names[-1]}")
            raise NameFault(f"column {written!r} does not exist in {table.name}", span=clause.archive, hint=hint)
        return column

    def _keys(self, clause: ImputeClause, table: Table) -> list[tuple[Expr, str]]:
        """Return pairs of an expression over the tuple and a column of the table."""
        own = relation_of((table.name,), table.schema, [_OWN + name for name in table.schema.names], is_table=True)
        binder = ExpressionBinder(Scope((*self._scope.relations, own), self._scope.merged), self._catalog, "in IMPUTE")
        ours = frozenset(self.node.schema.names)
        theirs = frozenset(_OWN + name for name in table.schema.names)
        keys: list[tuple[Expr, str]] = []
        for written in clause.on:
            for term in conjuncts(binder.predicate(written)):
                pair = sides(term, ours, theirs)
                other = (
                    None
                    if pair is None
                    else next(
                        (part for part in (pair[1], getattr(pair[1], "arg", None)) if isinstance(part, Column)), None
                    )
                )
                if pair is None or other is None:
                    hint = f"write for example ON id = {table.name}.id AND ..."
                    raise NotSupported(
                        f"IMPUTE can look up only by column = {table.name}.column", span=place(written), hint=hint
                    )
                keys.append(
                    (
                        pair[0] if pair[0].type == other.type else narrowed(pair[0], other.type),
                        other.name.removeprefix(_OWN),
                    )
                )
        return keys

    def _shared(self, clause: ImputeClause, table: Table, value: Field) -> list[tuple[Expr, str]]:
        """Return the columns that the tuple and the table have in common, except the one that is imputed."""
        pairs: list[tuple[Expr, str]] = []
        for field in table.schema:
            if field.name != value.name and self._scope.has(field.name):
                mine = self._scope.column(exp.Column(this=exp.to_identifier(field.name)))
                apply("=", (mine, Column(field.name, field.type)), clause.span)  # do they compare?
                pairs.append((mine if mine.type == field.type else narrowed(mine, field.type), field.name))
        if not pairs:
            other = next((name for name in table.schema.names if name != value.name), "id")
            hint = f"write for example ON id = {table.name}.{other}"
            raise NameFault(
                f"{table.name} has no column of the same name to look up by", span=clause.archive, hint=hint
            )
        return pairs

    def _name(self, clause: ImputeClause) -> str:
        taken = {name.lower() for name in self.node.schema.names}
        return unique(f"{clause.value.name}_imputed" if isinstance(clause.value, exp.Column) else "imputed", taken)
