"""MATCH_RECOGNIZE behind an item of FROM: its conditions and measures over rows of pattern variables."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import NameFault, NotSupported, SyntaxFault, TypeFault, UnboundedStateFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.matches import MatchClause
from headrace.language.syntax.names import Name
from headrace.model.expressions.expression import TRUE, Column, Expr, Literal
from headrace.model.expressions.functions import AGGREGATES, COMPUTED_BY
from headrace.model.row_pattern import Fold, Lookup, Place, RowPattern, Variable
from headrace.model.types import Type, is_nested
from headrace.model.window import AggregateCall
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Relation, Scope, relation_of, unique
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_columns
from headrace.plan.nodes import Node

_AGGREGATES = ("count", "sum", "avg", "min", "max")
_NAVIGATIONS: dict[str, Place] = {"first": "first", "last": "last", "prev": "prev"}


def bind_match(node: Node, names: tuple[str, ...], clause: MatchClause, env: Environment) -> Node:
    """Return the matches of a clause in the rows of a plan: the columns of PARTITION BY, then the measures."""
    rows = relation_of(names, node.schema)
    by = tuple(_column(expr, rows, env, "PARTITION BY") for expr in clause.by)
    order = tuple(_column(expr, rows, env, "ORDER BY") for expr in clause.order)
    _check_order(order, clause, node, env)
    further = tuple(column for column in order[1:] if column.name in node.schema.names)  # rowtime is first anyway
    _check_variables(clause)
    conditions = _Reader(clause, rows, node, env, "condition")
    variables = tuple(conditions.variable(number) for number in range(len(clause.pattern)))
    measures = _Reader(clause, rows, node, env, "measure")
    taken = {column.name.lower() for column in by}
    shown: list[tuple[str, Expr]] = [(column.name, column) for column in by]
    for name, expr in clause.measures:
        value = measures.measure(expr)
        if value.type is Type.NULL:
            raise TypeFault("the type of NULL is not known", span=name.span, hint="write CAST(NULL AS STRING)")
        if name.text.startswith("__"):
            raise SyntaxFault(f"{name.text!r}: names that begin with '__' are reserved", span=name.span)
        shown.append((unique(name.text, taken), value))
    if not shown:
        raise SyntaxFault("a match has no columns", span=clause.span, hint="write MEASURES LAST(A.x) AS x")
    _check_state(clause)
    pattern = RowPattern(variables, clause.within, clause.overlapping, *conditions.read)
    return nodes.Project(nodes.MatchRows(node, by, further, pattern, *measures.read), tuple(shown))


@dataclass(slots=True)
class _Place:
    """Where an expression stands: in the condition of a variable, or in a measure."""

    own: str | None
    before: int = 0  # rows of the match that are surely before


class _Reader:
    """Turns FIRST, LAST, PREV, aggregates and columns of variables into columns that the match computes."""

    def __init__(self, clause: MatchClause, rows: Relation, node: Node, env: Environment, kind: str) -> None:
        self._clause, self._rows, self._node, self._env, self._kind = clause, rows, node, env, kind
        self._variables = {part.variable.text.lower(): part.variable.text for part in clause.pattern}
        self._define = {name.text.lower(): expr for name, expr in clause.define}
        self._scope = Scope((Relation(("the row",), rows.columns),))
        self._lookups: dict[tuple[Expr, str | None, Place, int], Lookup] = {}
        self._folds: dict[tuple[str | None, str, Expr | None], Fold] = {}

    @property
    def read(self) -> tuple[tuple[Lookup, ...], tuple[Fold, ...]]:
        return tuple(self._lookups.values()), tuple(self._folds.values())

    def variable(self, number: int) -> Variable:
        """Return a variable with its condition; one that is not defined takes every row."""
        part = self._clause.pattern[number]
        condition: Expr = TRUE
        defined = self._define.get(part.variable.text.lower())
        if defined is not None:
            before = sum(earlier.least for earlier in self._clause.pattern[:number])
            condition = self._bound(defined, _Place(part.variable.text, before), predicate=True)
        return Variable(part.variable.text, part.least, part.most, condition)

    def measure(self, node: exp.Expr) -> Expr:
        """Return a measure over what the match shows."""
        return self._bound(node, _Place(None), predicate=False)

    def _bound(self, node: exp.Expr, where: _Place, *, predicate: bool) -> Expr:
        made: dict[str, Expr] = {}
        rewritten = self._rewritten(node.copy(), where, made)
        scope = Scope((*self._scope.relations, Relation(("$",), tuple(made.items()))))
        binder = ExpressionBinder(scope, self._env.catalog, f"in a {self._kind} of MATCH_RECOGNIZE")
        return binder.predicate(rewritten) if predicate else binder.bind(rewritten)

    def _rewritten(self, node: exp.Expr, where: _Place, made: dict[str, Expr]) -> exp.Expr:
        value = self._value(node, where)
        if value is not None:
            name = next((known for known, expr in made.items() if expr == value), f"${len(made)}")
            made[name] = value
            column = exp.column(exp.to_identifier(name, quoted=True), "$")
            if (span := place(node)) is not None:
                column.meta.update(start=span.start, end=span.end - 1)
            return column
        for key, part in list(node.args.items()):
            if isinstance(part, exp.Expr):
                node.set(key, self._rewritten(part, where, made))
            elif isinstance(part, list):
                node.set(key, [self._rewritten(p, where, made) if isinstance(p, exp.Expr) else p for p in part])
        return node

    def _value(self, node: exp.Expr, where: _Place) -> Expr | None:
        """Return what a node means if the match computes it; None if it must be looked into."""
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            variable = self._variable_of(node)
            if where.own is not None and variable in (None, where.own):
                return self._row_value(node)
            return self._lookup(self._row_value(node), variable, "last", 0)
        if not isinstance(node, exp.Anonymous):
            return None
        name = node.name.lower()
        if name in ("match_rowtime", "match_proctime") and not node.expressions:
            if name == "match_proctime" or where.own is not None:
                raise NotSupported(
                    f"{node.name} is not supported here", span=place(node), hint="write MATCH_ROWTIME() in MEASURES"
                )
            rowtime = exp.column("rowtime")
            return self._lookup(self._row_value(rowtime), None, "last", 0)
        if name in _NAVIGATIONS:
            return self._navigation(node, _NAVIGATIONS[name], where)
        if name == "next":
            raise NotSupported(
                "NEXT would have to wait for a later row",
                span=place(node),
                hint="add a variable for that row, and compare with LAST of this one in its condition",
            )
        if ExpressionBinder(self._scope, self._env.catalog).aggregate_name(node) is not None:
            return self._aggregate(node)
        return None

    def _navigation(self, node: exp.Anonymous, direction: Place, where: _Place) -> Expr:
        args = node.expressions
        if not 1 <= len(args) <= 2:
            raise SyntaxFault(f"{node.name} takes 1 or 2 arguments", span=place(node), hint="write LAST(B.price, 1)")
        offset = 1 if direction == "prev" else 0
        if len(args) == 2:
            number = args[1]
            if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
                raise SyntaxFault(
                    f"the second argument of {node.name} must be a whole number",
                    span=place(number) or place(node),
                    hint="write LAST(B.price, 1)",
                )
            offset = int(number.name)
        variable = self._variable_in(args[0], node)
        of = self._row_value(args[0])
        if direction != "prev":
            if offset == 0 and direction == "last" and variable is not None and variable == where.own:
                return of
            return self._lookup(of, variable, direction, offset)
        if where.own is None or variable not in (None, where.own):
            raise NotSupported(
                "PREV is of the row before the current one, so it belongs in the condition of its own variable",
                span=place(node),
                hint="write LAST(A.price) for the last row of another variable, or LAST(B.price, 1)",
            )
        if offset > where.before:
            raise NotSupported(
                f"PREV may look at a row before the match, which is not kept: {where.own} can be its first row",
                span=place(node),
                hint="begin the pattern with a variable that has no condition, as in PATTERN (STRT B+ C)",
            )
        return self._lookup(of, None, "prev", offset)

    def _lookup(self, of: Expr, variable: str | None, direction: Place, offset: int) -> Column:
        name = f"${self._kind}{len(self._lookups)}"
        known = self._lookups.setdefault(
            (of, variable, direction, offset), Lookup(name, of, variable, direction, offset)
        )
        return Column(known.name, of.type)

    def _aggregate(self, node: exp.Anonymous) -> Expr:
        if node.name.lower() not in _AGGREGATES or any(isinstance(arg, exp.Distinct) for arg in node.expressions):
            raise NotSupported(
                f"MATCH_RECOGNIZE cannot compute {node.sql()}",
                span=place(node),
                hint="write COUNT, SUM, AVG, MIN or MAX, or FIRST or LAST of one column",
            )
        name, args = node.name.lower(), node.expressions
        if len(args) != 1:
            raise TypeFault(f"{node.name} takes one argument", span=place(node), hint="write SUM(B.price)")
        variable = self._variable_in(args[0], node)
        whole = isinstance(args[0], exp.Star) or (
            isinstance(args[0], exp.Column) and isinstance(args[0].this, exp.Star)
        )
        if whole and name != "count":
            raise TypeFault(f"{node.name} needs a column", span=place(node), hint=f"write {node.name}(B.price)")
        arg = None if whole else self._row_value(args[0])
        type_ = AGGREGATES[name].typing([] if arg is None else [arg.type])
        if type_ is None:
            shown = "nothing" if arg is None else arg.type.value
            raise TypeFault(
                f"{node.name} cannot take {shown}", span=place(node), hint=f"{name}: {AGGREGATES[name].help}"
            )
        call = AggregateCall(f"${self._kind}f{len(self._folds)}", COMPUTED_BY.get(name, name), arg, type_)
        known = self._folds.setdefault((variable, name, arg), Fold(variable, call))
        return Column(known.call.name, type_)

    def _row_value(self, node: exp.Expr) -> Expr:
        """Bind an expression over the columns of one row."""
        plain = node.copy()
        for column in list(plain.find_all(exp.Column)):
            column.set("table", None)
        binder = ExpressionBinder(self._scope, self._env.catalog, "in MATCH_RECOGNIZE")
        value = binder.bind(plain)
        if isinstance(value, Literal):
            raise TypeFault("expected a column of a row", span=place(node), hint="write LAST(B.price)")
        return value

    def _variable_in(self, node: exp.Expr, call: exp.Expr) -> str | None:
        """Return the only variable that an expression is about."""
        variables = {self._variable_of(column) for column in node.find_all(exp.Column)}
        if len(variables) > 1:
            raise NotSupported(
                f"{call.name} must be of one pattern variable",
                span=place(call),
                hint="write it once for each variable, such as SUM(A.price) + SUM(B.price)",
            )
        return variables.pop() if variables else None

    def _variable_of(self, column: exp.Column) -> str | None:
        if not column.table:
            return None
        found = self._variables.get(column.table.lower())
        known = list(self._variables.values())
        if found is None and column.table.lower() not in {name.lower() for name in self._rows.names}:
            raise NameFault(
                f"{column.table!r} is not in the pattern",
                span=place(column),
                hint=did_you_mean(column.table, known, otherwise=f"variables are {', '.join(known)}"),
            )
        return found


def _column(expr: exp.Expr, rows: Relation, env: Environment, where: str) -> Column:
    bound = ExpressionBinder(Scope((rows,)), env.catalog, f"in {where}").bind(expr)
    if where == "ORDER BY" and isinstance(expr, exp.Column) and expr.name.lower() == "rowtime":
        return Column("rowtime", Type.TIMESTAMP)
    if not isinstance(bound, Column):
        raise NotSupported(
            f"{where} of MATCH_RECOGNIZE needs a column",
            span=place(expr),
            hint="compute it in a sub-query: FROM (SELECT *, x % 10 AS part FROM s) MATCH_RECOGNIZE (...)",
        )
    if is_nested(bound.type):
        raise TypeFault(
            f"{where} cannot have {bound.name}, which is {bound.type.value}", span=place(expr), hint="take a part of it"
        )
    return bound


def _check_order(order: tuple[Column, ...], clause: MatchClause, node: Node, env: Environment) -> None:
    first = order[0].name
    if first != "rowtime" and first not in time_columns(node, env):
        raise NotSupported(
            "MATCH_RECOGNIZE must be in the order of time",
            span=place(clause.order[0]) or clause.span,
            hint="write ORDER BY rowtime, or the column that TIMESTAMP BY names, first",
        )


def _check_variables(clause: MatchClause) -> None:
    known = {part.variable.text.lower(): part.variable for part in clause.pattern}
    seen: dict[str, Name] = {}
    for name, _ in clause.define:
        if name.text.lower() not in known:
            raise NameFault(
                f"{name.text!r} is defined but not in the pattern",
                span=name.span,
                hint=did_you_mean(name.text, known, otherwise="add it to PATTERN, or leave it out"),
            )
        if name.text.lower() in seen:
            raise SyntaxFault(f"{name.text!r} is defined twice", span=name.span, hint="combine the conditions with AND")
        seen[name.text.lower()] = name


def _check_state(clause: MatchClause) -> None:
    unlimited = next((part.variable for part in clause.pattern if part.most is None), None)
    if clause.within is None and unlimited is not None:
        raise UnboundedStateFault(
            f"{unlimited.text} may have any number of rows, which would be kept until it ends",
            span=unlimited.span,
            hint="limit how long a match takes: PATTERN (...) WITHIN INTERVAL '10' MINUTE",
        )
