"""GROUP BY, aggregates and HAVING.

Expressions of a grouped SELECT are bound in two steps. First over the input, aggregates becoming columns with names
that no text can spell (`$0`, `$1`, ...). Then every part that equals a key becomes the key's column; a column of the
input that is left belongs to no group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.catalog.definitions import Aggregate
from headrace.errors import NotSupported, Span, SyntaxFault, TypeFault
from headrace.language.syntax.modifiers import modifier_of
from headrace.model.expressions.expression import (
    FALSE,
    TRUE,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Lambda,
    Literal,
    columns,
    is_parameter,
)
from headrace.model.expressions.functions import AGGREGATES, COMPUTED_BY
from headrace.model.python_target import is_python_target
from headrace.model.rank import RankOrder
from headrace.model.schema import TS
from headrace.model.sketch import has_sketch
from headrace.model.types import ArrayType, DataType, StructType, Type, is_nested
from headrace.model.value_order import ordered_arguments
from headrace.model.window import AggregateCall
from headrace.plan.binding.aggregate_arguments import (
    ENDS,
    check_number,
    counted,
    fitted,
    fold_arguments,
    fraction,
    whole_row,
)
from headrace.plan.binding.composed_aggregates import COMPOSED, call_of, composed, is_listed
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.nested import check_keys
from headrace.plan.binding.expressions.scope import unique
from headrace.plan.binding.fold import fold_of
from headrace.plan.binding.fold_calls import compiled, hoisted, present
from headrace.plan.binding.from_clause import Source
from headrace.plan.binding.modifier import Modifiers, change, profile_of
from headrace.plan.binding.ordered_values import Ordering, without_order
from headrace.plan.binding.span import place

BOUNDS = ("window_start", "window_end")


class Grouping:
    """The keys and aggregates of one SELECT while its expressions are bound."""

    def __init__(
        self,
        select: exp.Select,
        source: Source,
        env: Environment,
        modifiers: Modifiers | None = None,
        by: Sequence[Expr] = (),
    ) -> None:
        self._source = source
        self._modifiers = modifiers
        self._env = env
        self._inner = ExpressionBinder(source.scope, env.catalog, "inside an aggregate")
        self._places: dict[str, Span | None] = {}
        self._aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        self._taken = set(BOUNDS)
        self._lag = source.streams[0].lag if source.streams else 0
        self._calls: dict[tuple[str, tuple[Expr, ...], DataType], AggregateCall] = {}
        self._keys: dict[Expr, str] = {}
        for expr in by:
            self._keys.setdefault(expr, unique(_key_name(expr), self._taken))
        for node in _group_items(select, self._is_aggregated):
            self._add_key(select, node)

    @property
    def keys(self) -> tuple[tuple[str, Expr], ...]:
        return tuple((name, expr) for expr, name in self._keys.items())

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    def hidden_key(self, name: str, expr: Expr) -> Column:
        """Group by something more that the text does not name."""
        self._keys[expr] = unique(name, self._taken)
        return Column(self._keys[expr], expr.type)

    def output(self, node: exp.Expr) -> Expr:
        """Bind an expression of SELECT over keys and aggregates."""
        return self._rewrite(self._binder(self._column).bind(node))

    def star(self, node: exp.Expr, expr: Expr) -> Expr:
        """Bind a column of * over keys."""
        for column in columns(expr):
            self._places[column] = place(node)
        return self._rewrite(expr)

    def condition(self, node: exp.Expr) -> Expr:
        """Bind the condition of HAVING, which may name outputs of SELECT."""
        return self._rewrite(self._binder(self._column_or_alias).predicate(node))

    def several(self) -> Expr:
        """Return the condition that a window has a first tuple and another that is its last."""
        counted = self._known("count", None, Type.BIGINT)
        return Call(">", (Column(counted.name, Type.BIGINT), Literal(1, Type.BIGINT)), Type.BOOLEAN)

    def _is_aggregated(self, item: exp.Expr) -> bool:
        """Return whether a column of SELECT has no value for each tuple, so that GROUP BY ALL leaves it out."""
        named = (node for node in item.walk() if isinstance(node, exp.Column) and node.name.lower() in BOUNDS)
        return any(self._inner.aggregate_name(node) is not None for node in item.walk()) or any(named)

    def _is_of_window(self, node: exp.Expr) -> bool:
        """Return whether an expression has one value for each window, such as window_end - INTERVAL 1 SECOND."""
        named = list(node.find_all(exp.Column))
        return bool(named) and all(
            len(column.parts) == 1 and column.name.lower() in BOUNDS and not self._source.scope.has(column.name)
            for column in named
        )

    def _binder(self, column: Callable[[exp.Column], Expr | None]) -> ExpressionBinder:
        modify = None if self._modifiers is None else self._modify
        return ExpressionBinder(
            self._source.scope, self._env.catalog, "inside an aggregate", column, self._collect, modify=modify
        )

    def _add_key(self, select: exp.Select, node: exp.Expr) -> None:
        if isinstance(node, exp.Literal) and not node.is_string:
            position = int(node.name) if node.name.isdigit() else 0
            if not 1 <= position <= len(select.expressions):
                raise SyntaxFault(
                    f"GROUP BY {node.name}: SELECT has no column {node.name}",
                    span=place(node),
                    hint="write the column itself",
                )
            node = select.expressions[position - 1].unalias()
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and not self._source.scope.has(node.name):
            if node.name.lower() in BOUNDS:
                return  # every result is of one window anyway
            node = self._aliases.get(node.name.lower(), node)
        if self._is_of_window(node):
            return
        expr = ExpressionBinder(self._source.scope, self._env.catalog, "in GROUP BY").bind(node)
        check_keys((expr,), "a key of GROUP BY", place(node))
        if expr not in self._keys:
            self._keys[expr] = unique(_key_name(expr), self._taken)

    def _column(self, node: exp.Column) -> Expr | None:
        name = node.name.lower()
        if len(node.parts) == 1 and name in BOUNDS:
            written = self._source.scope.column(node) if self._source.scope.has(name) else None
            if written is not None and written in self._keys:
                return written
            bound = Column(f"${name}", Type.TIMESTAMP)
            lag = Literal(self._lag, Type.INTERVAL)
            return Call("-", (bound, lag), Type.TIMESTAMP) if self._lag else bound
        expr = self._source.scope.column(node)
        for column in (expr,) if isinstance(expr, Column) else (Column(TS, Type.BIGINT),):
            self._places.setdefault(column.name, place(node))
        return expr

    def _column_or_alias(self, node: exp.Column) -> Expr | None:
        aliased = (
            self._aliases.get(node.name.lower())
            if len(node.parts) == 1 and not self._source.scope.has(node.name)
            else None
        )
        if aliased is None:
            return self._column(node)
        return self._binder(self._column).bind(aliased)

    def _modify(self, node: exp.Expr) -> Expr | None:
        """Compute a modifier from the first and the last tuple of a window; a window of consecutive tuples has two."""
        clause = modifier_of(node.this if isinstance(node, exp.Window) else node)
        if clause is not None:
            args = [self._inner.bind(arg) for arg in clause.args]
            return change(clause, [(self._end("first", arg), self._end("last", arg)) for arg in args])
        profile = profile_of(node)
        return None if profile is None else self._end(_END[profile], self._inner.bind(node.expressions[0]))

    def _end(self, function: str, arg: Expr) -> Expr:
        if arg.type is Type.NULL:
            return arg
        known = self._known(function, arg, arg.type)
        return Column(f"${known.name}", known.type)

    def _known(self, function: str, arg: Expr | None, type_: DataType) -> AggregateCall:
        key = (function, () if arg is None else (arg,), type_)
        if key not in self._calls:
            self._calls[key] = AggregateCall(unique(function, self._taken), function, arg, type_)
        return self._calls[key]

    def _collect(self, name: str, node: exp.Expr) -> Expr:
        if self._modifiers is not None and not self._modifiers.of_window:
            raise NotSupported(
                "DIFF, RDIFF and SLOPE cannot be mixed with aggregates",
                span=place(node),
                hint="aggregate in a sub-query, or write WDIFF, WRDIFF or WSLOPE",
            )
        node, ordering = without_order(name, node)
        if ordering is not None:
            return self._ordered(name, node, ordering)
        if name in COMPOSED or (call_of(node).expressions[1:] and name in _FRACTIONS and is_listed(call_of(node))):
            return self._binder(self._column).bind(composed(name, node))
        condition = self._inner.predicate(node.expression.this) if isinstance(node, exp.Filter) else None
        call = call_of(node)
        if name == "string_agg":
            return self._joined(node, call)
        own = self._env.catalog.aggregate(call.name)
        if own is not None and own.body:
            return self._folded(own, call, condition)
        function, arg, more = self._argument(name, call)
        if own is not None and arg is not None:
            arg = fitted(arg, own.arg, own.name, call)
        if function in ENDS and arg is not None:
            more = counted(arg, more, condition)
        elif condition is not None:
            if function == "shed_error":
                raise NotSupported(
                    f"{call.name} cannot have FILTER", span=place(call), hint="filter with WHERE or in a sub-query"
                )
            if function in _COMPARING:  # a row does not count if what is compared is NULL
                more = tuple(Case(((condition, expr),), None, expr.type) for expr in more)
            else:
                arg = Literal(1, Type.INT) if arg is None else arg
                arg = Case(((condition, arg),), None, arg.type)
        type_ = self._type(name, function, arg, more, call)
        if arg is not None and is_nested(arg.type) and function in (*ENDS, "max_by", "min_by"):
            more = (*(more or (TRUE,)), Call("to_json", (arg,), Type.STRING))  # among equals
        key = (function, more if arg is None else (arg, *more), type_)
        known = self._calls.get(key)
        if known is None:
            shown = call.name.lower() if is_python_target(function) else function
            known = AggregateCall(unique(shown, self._taken), function, arg, type_, more)
            self._calls[key] = known
        return Column(f"${known.name}", known.type)

    def _folded(self, own: Aggregate, call: exp.Expr, condition: Expr | None) -> Expr:
        """Run an aggregate that is written in SQL: by built-in ones if it can be, else tuple by tuple."""
        args = fold_arguments(own, call, self._inner)
        fold = fold_of(own)
        if not isinstance(own.result, ArrayType):
            value = compiled(fold, args, condition, self._builtin)
            if value is not None:
                return value
        counts = present(args, condition) or TRUE
        steps, values = hoisted(fold, args)
        key = (f"sql:{own.name} {own.body}", (counts, *values), own.result)
        if key not in self._calls:
            name = unique(own.name.lower(), self._taken)
            self._calls[key] = AggregateCall(name, "fold", counts, own.result, values, steps)
        return Column(f"${self._calls[key].name}", own.result)

    def _builtin(self, function: str, arg: Expr, type_: DataType) -> Expr:
        known = self._known(function, arg, type_)
        return Column(f"${known.name}", known.type)

    def _ordered(self, name: str, node: exp.Expr, ordering: Ordering) -> Expr:
        """Return an aggregate whose values are taken in an order that is written."""
        call = call_of(node)
        if name in ENDS:
            return self._end_in_order(name, node, ordering)
        if name == "string_agg":
            return self._joined(node, call, ordering)
        if name not in ("collect_list", "collect_set"):
            return self._collect(name, node)  # the order changes nothing
        distinct = name == "collect_set" or isinstance(call.expressions[0], exp.Distinct)
        args = call.expressions[0].expressions if isinstance(call.expressions[0], exp.Distinct) else call.expressions
        check_number(name, call, args)
        return self._listed(args[0], node, ordering, distinct=distinct)

    def _end_in_order(self, name: str, node: exp.Expr, ordering: Ordering) -> Expr:
        """Return the first or last value in an order, NULL included unless IGNORE NULLS says otherwise."""
        call = call_of(node)
        check_number(name, call, call.expressions)
        function, arg, more = self._argument(name, call)
        assert arg is not None
        condition = self._inner.predicate(node.expression.this) if isinstance(node, exp.Filter) else None
        counts = counted(arg, more, condition)
        held: Expr = Call("named_struct", (Literal("value", _S), arg), StructType((("value", arg.type),)))
        if counts:
            held = Case(((counts[0], held),), None, held.type)
        values = self._values(held, ordering.terms(self._inner))
        place_ = Literal(1 if function == "first" else -1, Type.INT)
        one = Call("element_at", (values, place_), held.type)
        return Call("field", (one, Literal("value", _S)), arg.type)

    def _listed(self, arg: exp.Expr, node: exp.Expr, ordering: Ordering | None, *, distinct: bool) -> Expr:
        """Return the (different) values of an aggregate as an ARRAY, in the order that is written, if there is one."""
        if ordering is None or not ordering.nodes or distinct:
            values = exp.Anonymous(this="collect_set" if distinct else "collect_list", expressions=[arg.copy()])
            values.meta.update(call_of(node).meta)
            inner: exp.Expr = values
            if isinstance(node, exp.Filter):
                inner = exp.Filter(this=values, expression=node.expression.copy())
            held = self._collect(values.name, inner)
            if ordering is not None and distinct and ordering.is_descending(arg, self._inner):
                held = Call("sort_array", (held, FALSE), held.type)
        else:
            value = self._inner.bind(arg)
            if isinstance(node, exp.Filter):
                value = Case(((self._inner.predicate(node.expression.this), value),), None, value.type)
            held = self._values(value, ordering.terms(self._inner))
        if ordering is None or ordering.most is None:
            return held
        return Call("slice", (held, Literal(1, Type.INT), Literal(ordering.most, Type.INT)), held.type)

    def _values(self, value: Expr, order: Sequence[RankOrder]) -> Column:
        """Return the values that are not NULL, in an order."""
        more, type_ = ordered_arguments(order), ArrayType(value.type)
        key = ("collect_list", (value, *more), type_)
        if key not in self._calls:
            name = unique("collect_list", self._taken)
            self._calls[key] = AggregateCall(name, "collect_list", value, type_, more)
        return Column(f"${self._calls[key].name}", type_)

    def _joined(self, node: exp.Expr, call: exp.Expr, ordering: Ordering | None = None) -> Expr:
        """Return string_agg(x, separator): collect_list(x) as one text, NULL if there is no value."""
        args: list[exp.Expr] = list(call.expressions)
        distinct = bool(args) and isinstance(args[0], exp.Distinct)
        if distinct:
            args = [*args[0].expressions, *args[1:]]
        check_number("string_agg", call, args)
        bound = self._inner.bind(args[0])
        separator = self._inner.bind(args[1]) if len(args) == 2 else Literal(DEFAULT_SEPARATOR[call.name.lower()], _S)
        if bound.type is not Type.STRING or not isinstance(separator, Literal) or separator.type is not Type.STRING:
            raise TypeFault(
                f"{call.name} takes a STRING and a constant separator",
                span=place(call),
                hint=f"write {call.name}(CAST(x AS STRING), ', ')",
            )
        held = self._listed(args[0], node, ordering, distinct=distinct)
        text = Call("array_join", (held, separator), Type.STRING)
        empty = Call("=", (Call("size", (held,), Type.BIGINT), Literal(0, Type.BIGINT)), Type.BOOLEAN)
        return Case(((empty, Literal(None, Type.STRING)),), text, Type.STRING)

    def _argument(self, name: str, call: exp.Expr) -> tuple[str, Expr | None, tuple[Expr, ...]]:
        args: list[exp.Expr] = call.expressions
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
            if name not in AGGREGATES or name == "shed_error":
                raise NotSupported(
                    f"{call.name} cannot have DISTINCT",
                    span=place(call),
                    hint="aggregate a sub-query with SELECT DISTINCT",
                )
            if name == "count" and len(args) > 1:
                return "count_distinct", whole_row([self._inner.bind(node) for node in args]), ()
            name = _WITH_DISTINCT.get(name, name)
        counts_rows = name == "count" and not distinct and (not args or isinstance(args[0], exp.Star))
        if counts_rows and len(args) < 2:
            return "count", None, ()
        check_number(name, call, args)
        if name == "shed_error":
            return name, None, ()
        arg, *further = (self._inner.bind(node) for node in args)
        if name == "count_if":
            return "count", Case(((self._inner.predicate(args[0]), Literal(1, Type.INT)),), None, Type.INT), ()
        if name == "count" and isinstance(arg, Literal) and arg.value is not None:
            return "count", None, ()
        if name in _FRACTIONS:
            further = [fraction(further[0], args[1], name)] if further else [Literal(0.5, Type.DOUBLE)]
        elif name in ENDS and further and further[0] not in (TRUE, FALSE):
            raise TypeFault(
                f"{call.name} takes one value",
                span=place(args[1]),
                hint=f"write {call.name}(x) or {call.name}(x, true)",
            )
        elif name == "approx_count_distinct":
            further = []  # the permitted error, of which there is less
        is_sketched = name == "approx_count_distinct" or (name == "approx_percentile" and has_sketch(arg.type))
        function = name if is_sketched and not distinct else COMPUTED_BY.get(name, name)
        if distinct and function in _ONCE:
            function = f"{function}_distinct"
        return function, arg, tuple(further)

    def _type(self, name: str, function: str, arg: Expr | None, more: tuple[Expr, ...], call: exp.Expr) -> DataType:
        if is_python_target(function):
            own = self._env.catalog.aggregate(call.name)
            assert own is not None
            return own.result
        known = name if name in COMPUTED_BY else function
        entry = AGGREGATES[known if known in AGGREGATES else known.removesuffix("_distinct")]
        types = [] if arg is None else [arg.type, *(expr.type for expr in more)]
        type_ = entry.typing(types)
        if type_ is None:
            shown = " and ".join(dict.fromkeys(type_.value for type_ in types)) or "nothing"
            raise TypeFault(f"{call.name} cannot take {shown}", span=place(call), hint=f"{name}: {entry.help}")
        return type_

    def _rewrite(self, expr: Expr) -> Expr:
        key = self._keys.get(expr)
        if key is not None:
            return Column(key, expr.type)
        match expr:
            case Column(name=name, type=type_):
                if name.startswith("$"):
                    return Column(name[1:], type_)
                if is_parameter(expr):
                    return expr
                if self._modifiers is not None:
                    return Column(self._known(_END[self._modifiers.profile], expr, type_).name, type_)
                shown = "rowtime" if name == TS else name
                hint = (
                    "write window_end"
                    if name == TS
                    else f"add it to GROUP BY, or select an aggregate of it such as max({name})"
                )
                raise TypeFault(
                    f"{shown!r} is neither in GROUP BY nor inside an aggregate", span=self._places.get(name), hint=hint
                )
            case Literal():
                return expr
            case Call(function=function, args=args, type=type_):
                return Call(function, tuple(self._rewrite(arg) for arg in args), type_)
            case Cast(arg=arg, type=type_):
                return Cast(self._rewrite(arg), type_)
            case Lambda(params=params, body=body, type=type_):
                return Lambda(params, self._rewrite(body), type_)
            case Case(branches=branches, default=default, type=type_):
                rewritten = tuple((self._rewrite(when), self._rewrite(then)) for when, then in branches)
                return Case(rewritten, None if default is None else self._rewrite(default), type_)


#: Aggregates of a value by another one, in which a row without the other does not count.
_COMPARING = (
    "max_by", "min_by", "corr", "covar_pop", "covar_samp", "corr_distinct", "covar_pop_distinct", "covar_samp_distinct",
)  # fmt: skip


#: Aggregates that give something else if each value is taken once, and have no name for that.
_ONCE = (
    "stddev", "variance", "var_pop", "stddev_pop", "covar_samp", "covar_pop", "corr", "percentile", "percentile_disc",
    "mode", "histogram", "skewness", "kurtosis", "product", "bit_xor",
)  # fmt: skip
#: The aggregate that takes each different value once.
_WITH_DISTINCT = {
    "count": "count_distinct", "min": "min", "max": "max", "sum": "sum_distinct", "avg": "avg_distinct",
    "collect_list": "collect_set",
}  # fmt: skip
_S = Type.STRING
#: What string_agg and its other names put between texts if nothing is written.
DEFAULT_SEPARATOR = {"string_agg": "", "listagg": "", "group_concat": ","}
#: Aggregates that take a fraction, a constant.
_FRACTIONS = ("median", "percentile", "percentile_disc", "approx_percentile")
#: Which tuple of a window a profile takes what else is selected from.
_END = {"old": "first", "new": "last"}


def is_grouped(select: exp.Select, env: Environment, binder: ExpressionBinder) -> bool:
    """Return whether a SELECT groups or aggregates."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(
        binder.aggregate_name(node) is not None
        for item in select.expressions
        for node in item.walk(prune=lambda inner: isinstance(inner, exp.Query | exp.Window))
    )


def _group_items(select: exp.Select, aggregated: Callable[[exp.Expr], bool]) -> list[exp.Expr]:
    group = select.args.get("group")
    if group is None:
        return []
    if not any(group.args.values()):
        raise SyntaxFault(
            "GROUP BY names no columns", span=place(select), hint="leave GROUP BY out to make one group of all tuples"
        )
    if group.args.get("all"):
        return [item.unalias() for item in select.expressions if not item.is_star and not aggregated(item)]
    return [item.this if isinstance(item, exp.Paren) else item for item in group.expressions]


def _key_name(expr: Expr) -> str:
    """Make a name that does not depend on aliases, so that equal groupings are equal plans."""
    match expr:
        case Column(name=name):
            return name
        case Cast(arg=arg):
            return _key_name(arg)
        case Call(function=function) if function[0].isalpha():
            return function
        case _:
            return "key"
