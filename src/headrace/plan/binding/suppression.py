"""HAVING RSUPPRESS(...) and HAVING TSUPPRESS(...): which of many alike tuples come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from headrace.errors import NameFault, NotSupported, TypeFault, UnboundedStateFault
from headrace.language.syntax.clauses import RangeClause
from headrace.language.syntax.modifiers import Profile, SuppressClause, suppress_of
from headrace.model.expressions.expression import Call, Column, Expr, substitute, walk
from headrace.model.schema import TS
from headrace.model.suppression import Repeats, Standing, Suppression
from headrace.model.types import DataType, Type
from headrace.plan.binding.aggregate import Grouping
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import unique
from headrace.plan.binding.from_clause import Source, bind_from
from headrace.plan.binding.modifier import profile_of
from headrace.plan.binding.span import place
from headrace.plan.nodes import Filter, Node, Project, Suppress

#: Binds the items of SELECT: the SELECT, what it works on, how to bind an item and how to take in a column of *.
Outputs: TypeAlias = Callable[
    [exp.Select, Source, Callable[[exp.Expr], Expr], Callable[[exp.Expr, Expr], Expr]], tuple[tuple[str, Expr], ...]
]


def suppression_of(select: exp.Select) -> SuppressClause | None:
    """Return the suppressor in HAVING, by itself or one of several terms; None if there is none."""
    having = select.args.get("having")
    if having is None:
        return None
    terms = list(having.this.flatten()) if isinstance(having.this, exp.And) else [having.this]
    clauses = [clause for term in terms if (clause := suppress_of(term.unnest())) is not None]
    stray = [
        clause
        for term in terms
        for node in term.walk()
        if (clause := suppress_of(node)) is not None and clause not in clauses
    ]
    if stray:
        raise NotSupported(
            f"{stray[0].name} cannot be part of another condition",
            span=stray[0].span,
            hint=f"write HAVING {stray[0].name}(...) AND ...",
        )
    if len(clauses) > 1:
        raise NotSupported(
            "a SELECT can have only one of RSUPPRESS and TSUPPRESS",
            span=clauses[1].span,
            hint="write the other in a sub-query",
        )
    return clauses[0] if clauses else None


def bind_suppression(select: exp.Select, env: Environment, outputs: Outputs) -> Node:
    """Plan a SELECT with a suppressor: WHERE, then the suppressor by group, then SELECT and the rest of HAVING."""
    clause = suppression_of(select)
    assert clause is not None
    source = bind_from(select, env, aggregated=False)
    node = source.node if source.where is None else Filter(source.node, source.where)
    taken = {name.lower() for name in node.schema.names}
    old = {name: unique(f"old_{name}", taken) for name in (*node.schema.names, TS)}
    by = tuple(expr for _, expr in Grouping(select, source, env).keys)
    carrying = _Carrying(source, env, old, clause.profile or "new", select)
    rule = _rule(clause, source, env)
    items = outputs(select, source, carrying.bind, lambda _, expr: carrying.of(expr))
    conditions = [carrying.condition(term) for term in _others(select, clause)]
    suppressed: Node = Suppress(node, by, rule, tuple(old.values()))
    for condition in conditions:
        suppressed = Filter(suppressed, condition)
    return Project(suppressed, items)


class _Carrying:
    """Binds expressions over the older or newer tuple."""

    def __init__(
        self, source: Source, env: Environment, old: dict[str, str], profile: Profile, select: exp.Select
    ) -> None:
        self._old, self._profile = old, profile
        self._aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        self._scope = source.scope
        # what OLD and NEW take is bound over the input; here each column is put in the place of its tuple at once
        self._plain = ExpressionBinder(source.scope, env.catalog, "beside a suppressor")
        self._binder = ExpressionBinder(
            source.scope, env.catalog, "beside a suppressor", self._column, _no_aggregate, modify=self._modify
        )
        self._named = replace(self._binder, column=self._column_or_alias)

    def bind(self, node: exp.Expr) -> Expr:
        return self._binder.bind(node)

    def condition(self, node: exp.Expr) -> Expr:
        return self._named.predicate(node)

    def of(self, expr: Expr, profile: Profile | None = None) -> Expr:
        """Return an expression over the input, of the older or newer tuple."""
        if (profile or self._profile) == "new":
            return expr
        older = {part: Column(self._old[part], type_) for part, type_ in _types(expr).items()}
        return substitute(expr, older)

    def _column(self, node: exp.Column) -> Expr:
        return self.of(self._scope.column(node))

    def _column_or_alias(self, node: exp.Column) -> Expr:
        aliased = (
            self._aliases.get(node.name.lower()) if len(node.parts) == 1 and not self._scope.has(node.name) else None
        )
        return self._column(node) if aliased is None else self._binder.bind(aliased)

    def _modify(self, node: exp.Expr) -> Expr | None:
        profile = profile_of(node)
        return None if profile is None else self.of(self._plain.bind(node.expressions[0]), profile)


def _no_aggregate(name: str, node: exp.Expr) -> Expr:
    raise NotSupported(
        "RSUPPRESS and TSUPPRESS cannot be combined with aggregates",
        span=place(node),
        hint="leave the aggregate out, or aggregate in a sub-query",
    )


def _types(expr: Expr) -> dict[str, DataType]:
    return {part.name: part.type for part in walk(expr) if isinstance(part, Column)}


def _rule(clause: SuppressClause, source: Source, env: Environment) -> Suppression:
    stream = source.streams[0]
    span: int | None = None
    if len(source.streams) == 1 and stream.clause is not None:
        if not isinstance(stream.clause, RangeClause) or stream.clause.slide is not None or stream.clause.offset:
            hint = "give it a time, such as [RANGE 2 HOURS]; it is looked at with each tuple"
            raise NotSupported(f"{clause.name} cannot use this window", span=stream.clause.span, hint=hint)
        span = stream.clause.size
    if clause.limit is not None:
        return Repeats(clause.limit, span)
    assert clause.time is not None
    if span is None:
        hint = f"say how long, such as {stream.names[0]} [RANGE 2 HOURS]"
        raise UnboundedStateFault(
            "TSUPPRESS would have to keep alarms that are never cleaned forever", span=clause.span, hint=hint
        )
    return Standing(clause.time, span, _action(clause, source, env))


def _action(clause: SuppressClause, source: Source, env: Environment) -> Expr:
    binder = ExpressionBinder(source.scope, env.catalog, "as an action")
    if clause.action is None and not source.scope.has("action"):
        hint = "name it: TSUPPRESS(5 MINUTES, CASE WHEN kind = 'RST' THEN 'clean' ELSE 'new' END)"
        raise NameFault(
            "TSUPPRESS needs a column 'action' whose value is new, update or clean", span=clause.span, hint=hint
        )
    action = binder.bind(clause.action if clause.action is not None else exp.column("action"))
    if action.type is not Type.STRING:
        raise TypeFault(
            f"the action of TSUPPRESS must be STRING, not {action.type.value}",
            span=clause.span,
            hint="its value is 'new', 'update' or 'clean'",
        )
    return Call("lower", (action,), Type.STRING)


def _others(select: exp.Select, clause: SuppressClause) -> list[exp.Expr]:
    """Return the terms of HAVING besides the suppressor."""
    having = select.args["having"].this
    terms = list(having.flatten()) if isinstance(having, exp.And) else [having]
    return [term for term in terms if suppress_of(term.unnest()) is not clause]
