"""OVER: LAG, FIRST_VALUE and aggregates of the tuples before each tuple, or of the tuples of a complete window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace
from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault, TypeFault, UnboundedStateFault
from headrace.language.other_systems import FUNCTIONS
from headrace.language.syntax.modifiers import modifier_of
from headrace.model.expressions.expression import Case, Column, Expr, Literal, substitute
from headrace.model.expressions.expression import columns as columns_in
from headrace.model.fold import FoldInsert, FoldReturn
from headrace.model.frame import Frame, PlaceFrame, RowsFrame
from headrace.model.rank import RankOrder
from headrace.model.types import ArrayType, Type
from headrace.model.window import AggregateCall, keeps_values
from headrace.plan import nodes
from headrace.plan.binding.aggregate import Grouping
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.coerce import unify
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.expressions.scope import Relation, Scope, unique
from headrace.plan.binding.fold import fold_of
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.over_calls import (
    BY_PLACE,
    IN_WINDOW,
    OVER_FORM,
    OverCall,
    check_looks_back,
    frame_of,
    looks_back,
    row_count,
)
from headrace.plan.binding.over_place import check_place, check_tumbles, function_of
from headrace.plan.binding.partition import with_partition
from headrace.plan.binding.places import place_function, window_frame
from headrace.plan.binding.rank import plain_ranks, window_size
from headrace.plan.binding.select_names import names_of_select
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_lags
from headrace.plan.nodes import Node

#: Functions of OVER that are aggregates under another name.
_RENAMED = {"first_value": "first", "last_value": "last"}


def overs_of(select: exp.Select) -> list[exp.Window]:
    """Return the calls with OVER of a SELECT and its QUALIFY that are no modifiers; none if all are plain ranks."""
    qualify = select.args.get("qualify")
    parts = [*select.expressions, *([] if qualify is None else [qualify])]
    found = [
        node
        for part in parts
        for node in part.walk(prune=lambda inner: isinstance(inner, exp.Query))
        if isinstance(node, exp.Window) and modifier_of(node.this) is None
    ]
    ranks = plain_ranks(select)
    return [] if all(any(node is rank for rank in ranks) for node in found) else found


def bind_over(select: exp.Select, env: Environment, bind_select: Callable[[exp.Select, Environment], Node]) -> Node:
    """Bind the SELECT with what its calls need as columns; then compute the calls, test QUALIFY and project."""
    if select.args.get("distinct") is not None:
        raise NotSupported(
            "OVER cannot be combined with DISTINCT", span=place(overs_of(select)[0]), hint="write DISTINCT outside"
        )
    _check_no_modifiers(select)
    below = _Below(select, env)
    calls: dict[str, OverCall] = {}
    for window in overs_of(select):
        if window.sql() not in calls:
            calls[window.sql()] = below.call(window, len(calls))
    outer = {item: below.above(item, calls) for item in select.expressions if _has_over(item)}
    qualify = select.args.get("qualify")
    condition = None if qualify is None else below.above(qualify.this, calls, aliases=True)
    placeholders = {f"$place{i}": item for i, item in enumerate(outer)}
    bound = bind_select(with_partition(below.select(placeholders), overs_of(select)), env)
    node, columns = _with_calls(bound, calls, select, env)
    binder = ExpressionBinder(Scope((Relation(("SELECT",), tuple(columns.items())),)), env.catalog, "beside OVER")
    computed = {name: binder.bind(outer[item]) for name, item in placeholders.items()}
    if condition is not None:
        for name, item in placeholders.items():
            columns[f"$alias:{item.alias.lower()}"] = computed[name]
        scope = Scope((Relation(("SELECT",), tuple(columns.items())),))
        node = nodes.Filter(node, ExpressionBinder(scope, env.catalog, "in QUALIFY").predicate(condition))
    taken: set[str] = set()
    outputs: list[tuple[str, Expr]] = []
    for field in bound.schema:
        if field.name in placeholders:
            item = placeholders[field.name]
            outputs.append((unique(item.alias or _shown(item), taken), computed[field.name]))
        elif not field.name.startswith("$"):
            outputs.append((unique(field.name, taken), Column(field.name, field.type)))
    return nodes.Project(node, tuple(outputs))


class _Below:
    """The SELECT below the calls: its own columns, and one hidden column for each part that is needed above."""

    def __init__(self, select: exp.Select, env: Environment) -> None:
        self._select = select
        self._binder = ExpressionBinder(Scope(()), env.catalog)
        self._hidden: dict[str, tuple[str, exp.Expr]] = {}
        self._aliases = names_of_select(select, env)

    def select(self, placeholders: dict[str, exp.Expr]) -> exp.Select:
        """Return the SELECT to bind below, with placeholders for the columns that have calls."""
        inner = self._select.copy()
        names = {id(item): name for name, item in placeholders.items()}
        items: list[exp.Expr] = []
        for item in self._select.expressions:
            if id(item) in names:
                items.append(_named(exp.cast(exp.Literal.number(0), "BIGINT"), names[id(item)]))
            else:
                items.append(item.copy())
        items += [_named(expr.copy(), name) for name, expr in self._hidden.values()]
        inner.set("expressions", items)
        inner.set("qualify", None)
        return inner

    def call(self, window: exp.Window, number: int) -> OverCall:
        """Take the parts of a call into the SELECT below."""
        function = function_of(window)
        check_place(window)
        order = window.args.get("order")
        keys = tuple(self._column(key) for key in window.args.get("partition_by") or [])
        terms = tuple(self._column(term.this) for term in ([] if order is None else order.expressions))
        call = window.this.copy()
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            raise NotSupported(
                "IGNORE NULLS is not supported",
                span=place(window),
                hint="filter with WHERE x IS NOT NULL in a sub-query",
            )
        inner = call.this if isinstance(call, exp.Filter) else call
        inner.set("expressions", [self._hide(arg) for arg in inner.expressions])
        if isinstance(call, exp.Filter):
            call.set("expression", self._hide(call.expression))
        return OverCall(window, function.lower(), keys, terms, call)

    def above(self, item: exp.Expr, calls: dict[str, OverCall], *, aliases: bool = False) -> exp.Expr:
        """Return an expression over the calls and hidden columns."""
        numbers = {text: number for number, text in enumerate(calls)}

        def change(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Window) and node.sql() in numbers:
                return _ref(f"$call{numbers[node.sql()]}")
            aliased = self._aliases.get(node.name.lower()) if aliases and isinstance(node, exp.Column) else None
            if aliased is not None and _has_over(aliased):
                return _ref(f"$alias:{aliased.alias.lower()}")
            if aliased is not None:
                return _ref(self._column(aliased.this))
            return self._hide(node, change)

        return change(item.unalias().copy())

    def _hide(self, node: exp.Expr, change: Callable[[exp.Expr], exp.Expr] | None = None) -> exp.Expr:
        """Return an expression with hidden columns for its columns and aggregates; `change` goes on below it."""
        if (isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)) or (
            self._binder.aggregate_name(node) is not None or isinstance(node, exp.Filter)
        ):
            return _ref(self._column(node))
        below = change or self._hide
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, below(value))
            elif isinstance(value, list):
                node.set(key, [below(part) if isinstance(part, exp.Expr) else part for part in value])
        return node

    def _column(self, expr: exp.Expr) -> str:
        """Return the name of the hidden column that holds an expression."""
        aliased = None
        if isinstance(expr, exp.Column) and not expr.table:
            aliased = self._aliases.get(expr.name.lower())
        if aliased is not None and not _has_over(aliased) and aliased.this.sql() != expr.sql():
            expr = aliased.this
        return self._hidden.setdefault(expr.sql(), (f"$in{len(self._hidden)}", expr))[0]


def _with_calls(
    bound: Node, calls: dict[str, OverCall], select: exp.Select, env: Environment
) -> tuple[Node, dict[str, Expr]]:
    """Put an Over on the plan for each kind of partition and frame; return what each call is over its columns."""
    columns: dict[str, Expr] = {field.name: Column(field.name, field.type) for field in bound.schema}
    scope = Scope((Relation(("SELECT",), tuple(columns.items())),))
    groups: dict[tuple[tuple[str, ...], Frame, bool], _Frames] = {}
    windows: dict[_Window, _Frames] = {}
    times = frozenset(time_lags(bound, env))
    values: dict[str, Expr] = {}
    for number, call in enumerate(calls.values()):
        size = window_size(call.node, call.keys, bound, select, env)
        if size is not None and (set(call.keys) & times or not looks_back(call, times)):

            def frames_of(frame: PlaceFrame, call: OverCall = call, size: int = size) -> _Frames:
                window = _Window(
                    size, call.keys, tuple(zip(call.terms, map(_direction, call.order), strict=True)), frame
                )
                return windows.setdefault(window, _Frames(len(groups) + len(windows), bound, scope, env))

            values[f"$call{number}"] = _in_window(call, frames_of)
            continue
        if not looks_back(call, times):
            check_tumbles(call.node, select)
        check_looks_back(call, times)
        frame = frame_of(call, env)
        runs = frame.preceding is None and _returns_while_running(call, env)
        frame = RowsFrame(None) if runs else frame
        prefix = len(groups) + len(windows)
        frames = groups.setdefault((call.keys, frame, runs), _Frames(prefix, bound, scope, env, runs=runs))
        values[f"$call{number}"] = frames.lag(call, frame) if call.function == "lag" else frames.value(call, frame)
    node = bound
    for window, frames in windows.items():
        by = tuple(columns[name] for name in window.keys)
        order = tuple(RankOrder(columns[name], *direction) for name, direction in window.terms)
        node = frames.over(node, window.size, by, order, window.frame)
    for (keys, frame, _), frames in groups.items():
        node = nodes.Over(node, tuple(columns[name] for name in keys), frame, frames.calls)
    running = [(frames, call) for (*_, runs), frames in groups.items() if runs for call in frames.calls]
    if len(running) > 1:
        raise NotSupported(
            "one SELECT can have one aggregate that returns values as tuples come",
            span=place(next(iter(calls.values())).node),
            hint="write the other one in a sub-query",
        )
    for _, known in running:  # a tuple may have returned nothing, or several values
        node = nodes.Unnest(node, Column(known.name, known.type), (f"{known.name}_value",))
    return node, columns | values


@dataclass(frozen=True, slots=True)
class _Window:
    """One kind of frame of a complete window: its length, partition, terms (falling, NULL first) and frame."""

    size: int
    keys: tuple[str, ...]
    terms: tuple[tuple[str, tuple[bool, bool]], ...]
    frame: PlaceFrame


def _direction(term: exp.Expr) -> tuple[bool, bool]:
    return bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def _in_window(call: OverCall, frames_of: Callable[[PlaceFrame], _Frames]) -> Expr:
    """Return a call over the tuples of a complete window."""
    span, args = place(call.node), call.over.expressions
    if not call.order and call.function in (*BY_PLACE, "lag", "lead"):
        raise NotSupported(f"{call.function.upper()} OVER needs ORDER BY", span=span, hint=f"write {IN_WINDOW}")
    spec = call.node.args.get("spec")
    if call.function in (*BY_PLACE, "lag", "lead") and spec is not None:
        raise NotSupported(f"{call.function.upper()} has no frame", span=span, hint=f"write {IN_WINDOW}")

    def count(frame: PlaceFrame) -> Expr:
        return frames_of(frame).count()

    if call.function in BY_PLACE:
        wanted = 1 if call.function == "ntile" else 0
        if len(args) != wanted:
            raise SyntaxFault(
                f"{call.function.upper()} takes {wanted or 'no'} argument{'s' * (wanted == 0)}",
                span=span,
                hint=f"write {IN_WINDOW}",
            )
        if call.function == "dense_rank":
            return frames_of(PlaceFrame()).dense_rank()
        return place_function(call.function, count, row_count(args[0], call.node) if args else 0, span)
    if call.function in ("lag", "lead"):
        if not 1 <= len(args) <= 3:
            raise SyntaxFault(f"{call.function.upper()} takes 1 to 3 arguments", span=span, hint="LEAD(x, 1)")
        places = row_count(args[1], call.node) if len(args) > 1 else 1
        places = -places if call.function == "lag" else places
        return frames_of(PlaceFrame(places, places)).neighbor(call)
    frame = window_frame(spec, has_order=bool(call.order), span=span)
    if call.function == "nth_value":
        if len(args) != 2:
            raise SyntaxFault("NTH_VALUE takes a value and a place from 1", span=span, hint="write nth_value(x, 2)")
        nth = row_count(args[1], call.node)
        if nth < 1:
            raise SyntaxFault("the place of NTH_VALUE is at least 1", span=span, hint="write nth_value(x, 2)")
        return frames_of(PlaceFrame(frame.start, frame.end, frame.peers, nth)).nth(call)
    return frames_of(frame).of_window(call)


class _Frames:
    """The aggregates of frames of one kind."""

    def __init__(self, number: int, bound: Node, scope: Scope, env: Environment, *, runs: bool = False) -> None:
        self._prefix, self._env, self._scope, self._runs = f"$over{number}_", env, scope, runs
        self._ranks = False
        self._grouping = Grouping(exp.Select(expressions=[]), Source(bound, scope, None, (), False), env)

    @property
    def _made(self) -> tuple[AggregateCall, ...]:
        return self._grouping.calls

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(
            replace(call, name=self._prefix + call.name, type=ArrayType(call.type) if self._runs else call.type)
            for call in self._made
        )

    def over(
        self, node: Node, size: int, by: tuple[Expr, ...], order: tuple[RankOrder, ...], frame: PlaceFrame
    ) -> Node:
        """Put the aggregates of complete windows on a plan."""
        if self._ranks:
            node = nodes.Rank(node, size, by, order, "dense_rank", f"{self._prefix}rank")
        return nodes.WindowOver(node, size, by, order, frame, self.calls) if self.calls else node

    def count(self) -> Expr:
        """Return the number of tuples of a frame."""
        return self._column(exp.Anonymous(this="count", expressions=[exp.Star()]))

    def dense_rank(self) -> Expr:
        """Return the number of different places up to that of a tuple."""
        self._ranks = True
        return Column(f"{self._prefix}rank", Type.BIGINT)

    def neighbor(self, call: OverCall) -> Expr:
        """Return the value of a frame of one tuple, or the default if there is none."""
        return self._first(call, 1)

    def nth(self, call: OverCall) -> Expr:
        """Return the value of a frame of one tuple; NULL if there is none."""
        return self._column(exp.Anonymous(this="first", expressions=call.over.expressions[:1]))

    def of_window(self, call: OverCall) -> Expr:
        """Return the aggregate of a frame of a complete window."""
        return self._expression(self._written(call))

    def lag(self, call: OverCall, frame: Frame) -> Expr:
        """Return the first value of a frame that has all its tuples, or the default."""
        return self._first(call, (frame.preceding or 0) + 1)

    def _first(self, call: OverCall, count: int) -> Expr:
        """Return the first value of a frame that has so many tuples, or the default."""
        args = call.over.expressions
        value: Expr = self._column(exp.Anonymous(this="first", expressions=args[:1]))
        counted = self._column(exp.Anonymous(this="count", expressions=[exp.Star()]))
        default: Expr | None = None
        if len(args) > 2:
            name = call.function.upper()
            given = ExpressionBinder(self._scope, self._env.catalog, f"in {name}").bind(args[2])
            both = unify([value, given])
            if both is None:
                raise TypeFault(
                    f"{name} of {value.type.value} cannot have the default {given.type.value}",
                    span=place(call.node),
                    hint="convert one of them with CAST",
                )
            value, default = both
        rows = Literal(count, Type.BIGINT)
        return Case(((apply("=", (counted, rows), place(call.node)), value),), default, value.type)

    def value(self, call: OverCall, frame: Frame) -> Expr:
        """Return the aggregate of a frame."""
        value = self._expression(self._written(call))
        if self._runs:
            assert isinstance(value, Column)
            return Column(f"{value.name}_value", value.type)
        read = columns_in(value)
        if frame.preceding is None and any(keeps_values(known) for known in self.calls if known.name in read):
            raise UnboundedStateFault(
                f"{call.function} over all tuples before would have to keep them forever",
                span=place(call.node),
                hint="write how far it looks back: RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW",
            )
        return value

    def _written(self, call: OverCall) -> exp.Expr:
        """Return the call of the aggregate that a call with OVER stands for."""
        over = call.over
        if call.function in _RENAMED:
            over = exp.Anonymous(this=_RENAMED[call.function], expressions=over.expressions)
        if call.function == "row_number":
            over = exp.Anonymous(this="count", expressions=[exp.Star()])
        inner = over.this if isinstance(over, exp.Filter) else over
        if ExpressionBinder(self._scope, self._env.catalog).aggregate_name(inner) is None:
            raise NotSupported(
                f"{call.function.upper()} is not supported with OVER",
                span=place(call.node),
                hint=FUNCTIONS.get(call.function.lower(), f"write {OVER_FORM}"),
            )
        return over

    def _column(self, call: exp.Expr) -> Column:
        result = self._expression(call)
        assert isinstance(result, Column), "an aggregate is a column above"
        return result

    def _expression(self, call: exp.Expr) -> Expr:
        """Return an aggregate, which may be computed from several columns."""
        result = self._grouping.output(call)
        return substitute(result, {known.name: Column(self._prefix + known.name, known.type) for known in self._made})


def _returns_while_running(call: OverCall, env: Environment) -> bool:
    """Return whether a call is of an aggregate in SQL that returns values as tuples come; its state must be limited."""
    own = env.catalog.aggregate(call.function)
    if own is None or not own.body:
        return False
    fold = fold_of(own)
    if not any(isinstance(step, FoldReturn) for step in (*fold.initialize, *fold.iterate)):
        return False
    for table in fold.tables:
        grows = any(isinstance(step, FoldInsert) and step.table == table.name for step in fold.iterate)
        if grows and table.keep is None:
            raise UnboundedStateFault(
                f"the table {table.name} of {own.name} could grow forever",
                span=place(call.node),
                hint=f"say how many of the newest rows it keeps: TABLE {table.name}(...) KEEP 100 ROWS",
            )
    return True


def _check_no_modifiers(select: exp.Select) -> None:
    for item in select.expressions:
        for node in item.find_all(exp.Window):
            if modifier_of(node.this) is not None:
                raise NotSupported(
                    f"{function_of(node).upper()} cannot be mixed with other functions of OVER",
                    span=place(node),
                    hint="write one of them in a sub-query",
                )


def _has_over(item: exp.Expr) -> bool:
    return any(isinstance(node, exp.Window) for node in item.walk(prune=lambda inner: isinstance(inner, exp.Query)))


def _shown(item: exp.Expr) -> str:
    return function_of(item).lower() if isinstance(item, exp.Window) else "expr"


def _ref(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _named(expr: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=expr, alias=exp.to_identifier(name, quoted=True))
