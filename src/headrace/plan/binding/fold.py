"""The body of an aggregate that is written in SQL: names and types of its statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Aggregate
from headrace.errors import NameFault, NotSupported, Span, SyntaxFault, TypeFault
from headrace.language.names import did_you_mean
from headrace.language.read.aggregates import read_body
from headrace.language.syntax.aggregates import AggregateBody, StepClause, TableClause
from headrace.model.expressions.expression import (
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Lambda,
    Literal,
    walk,
)
from headrace.model.fold import (
    STEP_FUNCTIONS,
    STEP_TYPES,
    Fold,
    FoldDelete,
    FoldExists,
    FoldInsert,
    FoldReturn,
    FoldStep,
    FoldTable,
    FoldUpdate,
    expressions,
)
from headrace.model.schema import Field
from headrace.model.types import ArrayType, DataType, Type, common_type
from headrace.plan.binding.expressions.coerce import coerce
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope
from headrace.plan.binding.span import place

#: Types of columns that hold more than is declared, so that sums fit.
_WIDER: dict[DataType, DataType] = {Type.INT: Type.BIGINT, Type.FLOAT: Type.DOUBLE}


@lru_cache(maxsize=256)
def fold_of(aggregate: Aggregate) -> Fold:
    """Return the body of an aggregate that was defined."""
    return bind_fold(aggregate, read_body(aggregate.body))


def bind_fold(aggregate: Aggregate, body: AggregateBody) -> Fold:
    """Bind the statements of an aggregate; `.x` is its argument x."""
    return _Body(aggregate, body).fold()


class _Body:
    """The tables and arguments that statements may name."""

    def __init__(self, aggregate: Aggregate, body: AggregateBody) -> None:
        self._name, self._body = aggregate.name, body
        for param in aggregate.params:
            if param.type not in STEP_TYPES and param.type not in _WIDER:
                raise _no_type(f"the argument {param.name}", param.type, body.span)
        names = [param.name.lower() for param in aggregate.params]
        if len(set(names)) < len(names):
            raise NameFault("two arguments have the same name", span=body.span)
        self._params = Relation(
            (aggregate.name,), tuple((param.name, Column(f".{param.name}", param.type)) for param in aggregate.params)
        )
        self._tables: dict[str, FoldTable] = {}
        for clause in body.tables:
            self._add(clause, names)
        result = aggregate.result
        self._result = result.element if isinstance(result, ArrayType) else result
        if self._result not in STEP_TYPES and self._result not in _WIDER:
            raise _no_type("the result", self._result, body.span)

    def fold(self) -> Fold:
        phases = (self._body.initialize, self._body.iterate, self._body.terminate)
        first, each, last = (tuple(map(self._step, phase)) for phase in phases)
        for clause, step in zip(self._body.terminate, last, strict=True):
            if any(
                isinstance(part, Column) and part.name.startswith(".") for e in expressions(step) for part in walk(e)
            ):
                raise NotSupported(
                    "TERMINATE has no tuple, so it cannot use an argument",
                    span=clause.span,
                    hint="keep the value in a table",
                )
        return Fold(self._name, tuple(self._tables.values()), first, each, last)

    def _add(self, clause: TableClause, params: Sequence[str]) -> None:
        name = clause.name.text
        if name.lower() in self._tables or name.upper() == "RETURN":
            raise NameFault(
                f"a table cannot be called {name!r} here", span=clause.name.span, hint="choose another name"
            )
        fields: list[Field] = []
        for column, type_ in clause.columns:
            if column.text.lower() in params or any(column.text.lower() == field.name.lower() for field in fields):
                raise NameFault(
                    f"{column.text!r} is the name of an argument or of another column",
                    span=column.span,
                    hint="choose another name",
                )
            if type_ not in STEP_TYPES and type_ not in _WIDER:
                raise _no_type(f"the column {column.text}", type_, column.span)
            fields.append(Field(column.text, _WIDER.get(type_, type_)))
        self._tables[name.lower()] = FoldTable(name, tuple(fields), clause.keep)

    def _step(self, clause: StepClause) -> FoldStep:
        table = None if clause.table is None else self._table(clause.table.text, clause.table.span)
        source = None if clause.source is None else self._table(clause.source.text, clause.source.span)
        seen = source or (table if clause.kind in ("UPDATE", "DELETE") else None)
        binder = self._binder(seen)
        where, exists = self._where(clause.where, binder, seen)
        name = "" if source is None else source.name
        match clause.kind:
            case "RETURN":
                if len(clause.values) != 1:
                    raise SyntaxFault("an aggregate returns one value", span=clause.span, hint="return one expression")
                return FoldReturn(self._value(clause.values[0], binder, self._result), name, where, exists)
            case "DELETE":
                assert table is not None
                return FoldDelete(table.name, where, exists)
            case "UPDATE":
                assert table is not None
                return FoldUpdate(table.name, self._sets(clause, table, binder), where, exists)
            case _:
                assert table is not None
                if len(clause.values) != len(table.fields):
                    raise TypeFault(
                        f"the values do not match the columns of {table.name}",
                        span=clause.span,
                        hint=f"its columns are {', '.join(field.name for field in table.fields)}",
                    )
                pairs = zip(clause.values, table.fields, strict=True)
                values = tuple(self._value(value, binder, field.type) for value, field in pairs)
                return FoldInsert(table.name, values, name, where, exists)

    def _sets(self, clause: StepClause, table: FoldTable, binder: ExpressionBinder) -> tuple[tuple[str, Expr], ...]:
        sets: dict[str, Expr] = {}
        for column, value in zip(clause.columns, clause.values, strict=True):
            field = next((field for field in table.fields if field.name.lower() == column.text.lower()), None)
            if field is None:
                names = [field.name for field in table.fields]
                hint = did_you_mean(column.text, names, otherwise=f"{table.name} has {', '.join(names)}")
                raise NameFault(f"{table.name} has no column {column.text!r}", span=column.span, hint=hint)
            if field.name in sets:
                raise NameFault(f"{column.text} is set twice", span=column.span, hint="set each column once")
            sets[field.name] = self._value(value, binder, field.type)
        return tuple(sets.items())

    def _table(self, name: str, span: Span | None) -> FoldTable:
        table = self._tables.get(name.lower())
        if table is None:
            known = [table.name for table in self._tables.values()]
            hint = did_you_mean(name, known, otherwise=f"declare it: TABLE {name}(x DOUBLE);")
            raise NameFault(f"the aggregate has no table {name!r}", span=span, hint=hint)
        return table

    def _binder(self, *tables: FoldTable | None) -> ExpressionBinder:
        relations = [
            Relation(
                (table.name,),
                tuple((field.name, Column(f"{table.name}.{field.name}", field.type)) for field in table.fields),
                is_table=True,
            )
            for table in tables
            if table is not None
        ]
        return ExpressionBinder(Scope((self._params, *relations)), Catalog(), "in an aggregate")

    def _value(self, node: exp.Expr, binder: ExpressionBinder, type_: DataType) -> Expr:
        expr = binder.bind(node)
        if expr.type is not Type.NULL and common_type(expr.type, type_) is None:
            raise TypeFault(
                f"expected {type_.value}, not {expr.type.value}",
                span=place(node),
                hint=f"write CAST(... AS {type_.value})",
            )
        return _checked(coerce(expr, type_), node)

    def _where(
        self, node: exp.Expr | None, binder: ExpressionBinder, seen: FoldTable | None
    ) -> tuple[Expr | None, tuple[FoldExists, ...]]:
        """Divide a condition into its terms with EXISTS and the rest."""
        terms: list[Expr] = []
        exists: list[FoldExists] = []
        for term in _terms(node):
            inner = term.this if isinstance(term, exp.Not) else term
            if isinstance(inner, exp.Exists):
                exists.append(self._exists(inner, negated=isinstance(term, exp.Not), beside=seen))
            else:
                terms.append(_checked(binder.predicate(term), term))
        if not terms:
            return None, tuple(exists)
        where = terms[0]
        for other in terms[1:]:
            where = Call("and", (where, other), Type.BOOLEAN)
        return where, tuple(exists)

    def _exists(self, node: exp.Exists, *, negated: bool, beside: FoldTable | None) -> FoldExists:
        select = node.this
        form = "write [NOT] EXISTS (SELECT * FROM table WHERE ...)"
        source = select.args.get("from_") if isinstance(select, exp.Select) else None
        if source is None or not isinstance(source.this, exp.Table):
            raise NotSupported("this EXISTS is not supported in an aggregate", span=place(node), hint=form)
        if beside is not None:
            raise NotSupported(
                "EXISTS stands only in INSERT ... VALUES and INSERT ... SELECT without FROM",
                span=place(node),
                hint=form,
            )
        table = self._table(source.this.name, place(source.this))
        where = select.args.get("where")
        condition = None
        if where is not None:
            condition = _checked(self._binder(table).predicate(where.this), where.this)
        return FoldExists(table.name, condition, negated)


def _terms(node: exp.Expr | None) -> list[exp.Expr]:
    if node is None:
        return []
    if isinstance(node, exp.And):
        return [*_terms(node.this), *_terms(node.expression)]
    return _terms(node.this) if isinstance(node, exp.Paren) else [node]


def _checked(expr: Expr, node: exp.Expr) -> Expr:
    """Return an expression if all that it computes of columns of tables can be computed tuple by tuple."""
    for part in walk(expr):
        if not reads_state(part) or in_steps(part):
            continue
        if isinstance(part, Call) and part.function not in STEP_FUNCTIONS:
            raise NotSupported(
                f"{part.function} cannot be applied to a column of an aggregate's table",
                span=place(node),
                hint="apply it to the arguments, or to the result of the aggregate",
            )
        raise NotSupported(
            f"{part.type.value} cannot be computed from a column of an aggregate's table",
            span=place(node),
            hint="compute it from the arguments, or from the result of the aggregate",
        )
    return expr


def in_steps(expr: Expr) -> bool:
    """Return whether steps can compute an expression of its parts."""
    if expr.type not in (*STEP_TYPES, *_WIDER, Type.NULL):
        return False
    match expr:
        case Call(function=function):
            return function in STEP_FUNCTIONS
        case Cast(arg=arg, type=type_):
            return arg.type is Type.NULL or (arg.type.is_numeric and type_.is_numeric)
        case Column() | Literal() | Case():
            return True
        case Lambda():
            return False


def _no_type(what: str, type_: DataType, span: Span | None) -> NotSupported:
    return NotSupported(
        f"{what} of an aggregate in SQL cannot be {type_.value}",
        span=span,
        hint="use BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING or TIMESTAMP",
    )


def reads_state(expr: Expr) -> bool:
    """Return whether an expression reads a column of a table."""
    return any(isinstance(part, Column) and not part.name.startswith(".") for part in walk(expr))
