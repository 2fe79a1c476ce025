"""OVER in the order of time: LAG, FIRST_VALUE and aggregates of the tuples before each tuple."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace
from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault, TypeFault, UnboundedStateFault
from headrace.language.syntax.modifiers import modifier_of
from headrace.model.expressions.expression import Case, Column, Expr, Literal, substitute
from headrace.model.expressions.expression import columns as columns_in
from headrace.model.fold import FoldInsert, FoldReturn
from headrace.model.frame import Frame, RangeFrame, RowsFrame
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
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_columns
from headrace.plan.nodes import Node

_FORM = "sum(x) OVER (PARTITION BY id ORDER BY rowtime ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
_RANKINGS = ("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist")
#: Functions of OVER that are aggregates under another name.
_RENAMED = {"first_value": "first", "last_value": "last"}
#: Most tuples before the current one in a frame of rows.
_MOST_ROWS = 100_000


def overs_of(select: exp.Select) -> list[exp.Window]:
    """Return the calls with OVER of a SELECT and its QUALIFY that are neither rankings nor modifiers."""
    qualify = select.args.get("qualify")
    parts = [*select.expressions, *([] if qualify is None else [qualify])]
    return [
        node
        for part in parts
        for node in part.walk(prune=lambda inner: isinstance(inner, exp.Query))
        if isinstance(node, exp.Window) and modifier_of(node.this) is None and _function(node).lower() not in _RANKINGS
    ]


def name_windows(select: exp.Select) -> exp.Select:
    """Return the SELECT with each OVER w written out as the WINDOW clause says."""
    clauses = {window.this.name.lower(): window for window in select.args.get("windows") or []}
    if not clauses:
        return select
    named = select.copy()
    named.set("windows", None)
    for window in list(named.find_all(exp.Window)):
        alias = window.args.get("alias")
        if alias is None:
            continue
        if alias.name.lower() not in clauses:
            raise SyntaxFault(f"no window is called {alias.name!r}", span=place(alias), hint="write WINDOW w AS (...)")
        clause = clauses[alias.name.lower()]
        window.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            value = clause.args.get(part)
            if value and not window.args.get(part):
                window.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return named


@dataclass(frozen=True, slots=True)
class _Call:
    """One call with OVER: its node, and the names of the columns below that hold its parts."""

    node: exp.Window
    function: str
    keys: tuple[str, ...]
    time: str
    #: The call over these columns.
    over: exp.Expr


def bind_over(select: exp.Select, env: Environment, bind_select: Callable[[exp.Select, Environment], Node]) -> Node:
    """Bind the SELECT with what its calls need as columns; then compute the calls, test QUALIFY and project."""
    if select.args.get("distinct") is not None:
        raise NotSupported(
            "OVER cannot be combined with DISTINCT", span=place(overs_of(select)[0]), hint="write DISTINCT outside"
        )
    _check_no_rankings(select)
    below = _Below(select, env)
    calls: dict[str, _Call] = {}
    for window in overs_of(select):
        if window.sql() not in calls:
            calls[window.sql()] = below.call(window, len(calls))
    outer = {item: below.above(item, calls) for item in select.expressions if _has_over(item)}
    qualify = select.args.get("qualify")
    condition = None if qualify is None else below.above(qualify.this, calls, aliases=True)
    placeholders = {f"$place{i}": item for i, item in enumerate(outer)}
    bound = bind_select(below.select(placeholders), env)
    node, columns = _with_calls(bound, calls, env)
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
        self._aliases = {item.alias.lower(): item for item in select.expressions if isinstance(item, exp.Alias)}

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

    def call(self, window: exp.Window, number: int) -> _Call:
        """Take the parts of a call into the SELECT below."""
        function = _function(window)
        order = window.args.get("order")
        if order is None or len(order.expressions) != 1 or order.expressions[0].args.get("desc"):
            raise NotSupported(
                f"{function.upper()} OVER needs ORDER BY time, ascending",
                span=place(window),
                hint=f"write {function}(x) OVER (PARTITION BY id ORDER BY rowtime)",
            )
        if function.lower() == "lead":
            raise NotSupported(
                "LEAD would have to wait for a later tuple",
                span=place(window),
                hint="write LAG, which gives the same pairs when the later tuple comes; or a SEQUENCE join",
            )
        keys = tuple(self._column(key) for key in window.args.get("partition_by") or [])
        time = self._column(order.expressions[0].this)
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
        return _Call(window, function.lower(), keys, time, call)

    def above(self, item: exp.Expr, calls: dict[str, _Call], *, aliases: bool = False) -> exp.Expr:
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


def _with_calls(bound: Node, calls: dict[str, _Call], env: Environment) -> tuple[Node, dict[str, Expr]]:
    """Put an Over on the plan for each kind of partition and frame; return what each call is over its columns."""
    columns: dict[str, Expr] = {field.name: Column(field.name, field.type) for field in bound.schema}
    scope = Scope((Relation(("SELECT",), tuple(columns.items())),))
    groups: dict[tuple[tuple[str, ...], Frame, bool], _Frames] = {}
    times = time_columns(bound, env)
    values: dict[str, Expr] = {}
    for number, call in enumerate(calls.values()):
        if call.time not in times:
            raise NotSupported(
                "OVER must be in the order of time",
                span=place(call.node.args["order"]),
                hint=f"write {_FORM}; ROW_NUMBER, RANK and DENSE_RANK of a window can have any order",
            )
        frame = _frame(call, env)
        runs = frame.preceding is None and _returns_while_running(call, env)
        frame = RowsFrame(None) if runs else frame
        frames = groups.setdefault((call.keys, frame, runs), _Frames(len(groups), bound, scope, env, runs=runs))
        values[f"$call{number}"] = frames.lag(call, frame) if call.function == "lag" else frames.value(call, frame)
    node = bound
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


class _Frames:
    """The aggregates of frames of one kind."""

    def __init__(self, number: int, bound: Node, scope: Scope, env: Environment, *, runs: bool = False) -> None:
        self._prefix, self._env, self._scope, self._runs = f"$over{number}_", env, scope, runs
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

    def lag(self, call: _Call, frame: Frame) -> Expr:
        """Return the first value of a frame that has all its tuples, or the default."""
        args = call.over.expressions
        value: Expr = self._column(exp.Anonymous(this="first", expressions=args[:1]))
        counted = self._column(exp.Anonymous(this="count", expressions=[exp.Star()]))
        default: Expr | None = None
        if len(args) > 2:
            given = ExpressionBinder(self._scope, self._env.catalog, "in LAG").bind(args[2])
            both = unify([value, given])
            if both is None:
                raise TypeFault(
                    f"LAG of {value.type.value} cannot have the default {given.type.value}",
                    span=place(call.node),
                    hint="convert one of them with CAST",
                )
            value, default = both
        rows = Literal((frame.preceding or 0) + 1, Type.BIGINT)
        return Case(((apply("=", (counted, rows), place(call.node)), value),), default, value.type)

    def value(self, call: _Call, frame: Frame) -> Expr:
        """Return the aggregate of a frame."""
        over = call.over
        if call.function in _RENAMED:
            over = exp.Anonymous(this=_RENAMED[call.function], expressions=over.expressions)
        inner = over.this if isinstance(over, exp.Filter) else over
        if ExpressionBinder(self._scope, self._env.catalog).aggregate_name(inner) is None:
            raise NotSupported(
                f"{call.function.upper()} is not supported with OVER", span=place(call.node), hint=f"write {_FORM}"
            )
        value = self._expression(over)
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

    def _column(self, call: exp.Expr) -> Column:
        result = self._expression(call)
        assert isinstance(result, Column), "an aggregate is a column above"
        return result

    def _expression(self, call: exp.Expr) -> Expr:
        """Return an aggregate, which may be computed from several columns."""
        result = self._grouping.output(call)
        return substitute(result, {known.name: Column(self._prefix + known.name, known.type) for known in self._made})


def _returns_while_running(call: _Call, env: Environment) -> bool:
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


def _frame(call: _Call, env: Environment) -> Frame:
    spec = call.node.args.get("spec")
    if call.function == "lag":
        if spec is not None or not 1 <= len(call.over.expressions) <= 3:
            raise SyntaxFault("LAG takes 1 to 3 arguments and no frame", span=place(call.node), hint="LAG(x, 1)")
        number = call.over.expressions[1] if len(call.over.expressions) > 1 else exp.Literal.number(1)
        return RowsFrame(_count(number, call.node))
    if spec is None:
        return RangeFrame(None)
    end, side = spec.args.get("end"), spec.args.get("end_side")
    if side is not None or end not in (None, "CURRENT ROW"):
        raise NotSupported(
            "a frame must end at CURRENT ROW, since later tuples have not come yet", span=place(call.node), hint=_FORM
        )
    start = spec.args.get("start")
    if spec.args.get("exclude") or spec.args.get("start_side") == "FOLLOWING" or spec.args["kind"] not in _KINDS:
        raise NotSupported("this frame is not supported", span=place(call.node), hint=f"write {_FORM}")
    if start == "CURRENT ROW":
        return RowsFrame(0) if spec.args["kind"] == "ROWS" else RangeFrame(0)
    if start == "UNBOUNDED":
        return RowsFrame(None) if spec.args["kind"] == "ROWS" else RangeFrame(None)
    if spec.args["kind"] == "ROWS":
        return RowsFrame(_count(start, call.node))
    span = ExpressionBinder(Scope(()), env.catalog, "in a frame").bind(start)
    if not isinstance(span, Literal) or span.type is not Type.INTERVAL or not isinstance(span.value, int):
        raise TypeFault(
            "a RANGE frame needs an interval",
            span=place(call.node),
            hint="write RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW, or ROWS BETWEEN ...",
        )
    if span.value < 0:
        raise SyntaxFault("the interval of a frame is negative", span=place(call.node), hint="leave the sign out")
    return RangeFrame(span.value)


_KINDS = ("ROWS", "RANGE")


def _count(node: exp.Expr, call: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise SyntaxFault(
            "a number of rows must be a whole number", span=place(call), hint="write for example LAG(x, 1)"
        )
    if int(node.name) > _MOST_ROWS:
        raise NotSupported(
            f"a frame can have {_MOST_ROWS:,} rows at most",
            span=place(call),
            hint="write a RANGE frame, such as RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW",
        )
    return int(node.name)


def _check_no_rankings(select: exp.Select) -> None:
    for item in select.expressions:
        for node in item.find_all(exp.Window):
            if modifier_of(node.this) is not None or _function(node).lower() in _RANKINGS:
                raise NotSupported(
                    f"{_function(node).upper()} cannot be mixed with other functions of OVER",
                    span=place(node),
                    hint="write one of them in a sub-query",
                )


def _function(window: exp.Window) -> str:
    inner = window.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return str(inner.name)


def _has_over(item: exp.Expr) -> bool:
    return any(isinstance(node, exp.Window) for node in item.walk(prune=lambda inner: isinstance(inner, exp.Query)))


def _shown(item: exp.Expr) -> str:
    return _function(item).lower() if isinstance(item, exp.Window) else "expr"


def _ref(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _named(expr: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=expr, alias=exp.to_identifier(name, quoted=True))
