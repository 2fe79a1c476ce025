"""Parsed expressions to typed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Function
from headrace.errors import NotSupported, QueryError, Span, SyntaxFault, TypeFault
from headrace.language import other_systems
from headrace.language.names import DECIMAL_NAMES, DEFAULT_DECIMAL, TYPE_NAMES, decimal_type, did_you_mean
from headrace.language.reader import no_type
from headrace.language.size import terms_of
from headrace.language.syntax.clauses import ImputeClause, impute_of
from headrace.language.type_text import NESTED_NAMES, read_type
from headrace.model.expressions.expression import FALSE, LONG_CHAIN, TRUE, Call, Case, Column, Expr, Literal, chain
from headrace.model.expressions.functions import AGGREGATES, OTHER_AGGREGATES
from headrace.model.python_function import function_name
from headrace.model.types import ArrayType, DataType, DecimalType, Type, common_type
from headrace.plan.binding.expressions.coerce import cast, check_cast, coerce, unify
from headrace.plan.binding.expressions.function import ALIASES, apply, call, part
from headrace.plan.binding.expressions.intervals import interval, other_day, other_month
from headrace.plan.binding.expressions.lambdas import HIGHER_NAMES, bind_higher
from headrace.plan.binding.expressions.nested import CONSTRUCTORS, construct, item, type_text
from headrace.plan.binding.expressions.nested import field as field_of
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.expressions.standard_forms import text_in_json, without_escape
from headrace.plan.binding.expressions.time_units import shifted, unit_of
from headrace.plan.binding.expressions.written_out import NAMES, OF_ARRAYS, written_out
from headrace.plan.binding.modifier import refuse_modifier
from headrace.plan.binding.span import place

_OVER_HINT = "write it in SELECT or QUALIFY; or FROM (SELECT *, rank() OVER (...) AS r FROM ...) WHERE r = 1"
_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.DPipe: "||",
    exp.And: "and", exp.Or: "or", exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
}  # fmt: skip

#: The parts of a binary operator's node that mean something to us, and those that say nothing.
_OPERANDS = ("this", "expression", "negate", "typed", "safe")
#: Takes the name of an aggregate, its arguments and its node.
Collect = Callable[[str, exp.Expr], Expr]


@dataclass(frozen=True, slots=True)
class ExpressionBinder:
    """Binds expressions over the columns of a scope.

    `column`, `collect` and `modify` let a SELECT see more than its input.
    """

    scope: Scope
    catalog: Catalog
    where: str = "here"
    column: Callable[[exp.Column], Expr | None] | None = None
    collect: Collect | None = None
    impute: Callable[[ImputeClause], Expr] | None = None
    modify: Callable[[exp.Expr], Expr | None] | None = None
    member: Callable[[exp.In | exp.Exists | exp.Subquery], Expr] | None = None
    params: Mapping[str, Column] = field(default_factory=dict)

    def predicate(self, node: exp.Expr) -> Expr:
        """Bind a condition."""
        return _boolean(self.bind(node), node)

    def bind(self, node: exp.Expr) -> Expr:
        """Bind any expression."""
        operator = _BINARY.get(type(node))
        if operator is not None:
            return self._binary(operator, node)
        match node:
            case exp.Paren():
                return self.bind(node.this)
            case exp.Column() if isinstance(node.this, exp.Star):
                raise SyntaxFault("* is allowed only in SELECT and count(*)", span=place(node))
            case exp.Column():
                expr = self.column(node) if self.column is not None else None
                return self.scope.column(node) if expr is None else expr
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.Interval():
                return _literal(node)
            case exp.HexString():  # X'F' is one byte
                digits = Literal(node.name.zfill(len(node.name) + len(node.name) % 2), Type.STRING)
                return apply("unhex", (digits,), place(node))
            case exp.Identifier() if node.name.lower() in self.params:
                return self.params[node.name.lower()]
            case exp.Escape():
                return self.bind(without_escape(node))
            case exp.Not():
                return apply("not", (self.predicate(node.this),), place(node))
            case exp.Neg():
                return self._negative(node)
            case exp.BitwiseNot():
                return apply("~", (self.bind(node.this),), place(node))
            case exp.Is():
                return self._is(node)
            case exp.NullSafeNEQ():
                same = apply("<=>", (self.bind(node.this), self.bind(node.expression)), place(node))
                return apply("not", (same,), place(node))
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Exists() if isinstance(node.this, exp.Query):
                return self._member(node)
            case exp.Subquery():
                return self._scalar(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Dot(expression=exp.Identifier() as name):
                return field_of(self.bind(node.this), name.name, place(name) or place(node))
            case exp.Bracket():
                return self._item(node)
            case exp.Array():
                elements = [self.bind(element) for element in node.expressions]
                return construct("array", elements, node.expressions, place(node))
            case exp.Struct():
                return self._struct_literal(node)
            case exp.Window() | exp.Filter() | exp.Anonymous():
                return self._call(node)
            case exp.JSONExtractScalar() if (found := text_in_json(node)) is not None:
                return self.bind(found)
            case exp.Extract():
                return part(Literal(node.name, Type.STRING), self.bind(node.expression), place(node))
            case exp.StrPosition():
                return apply("position", (self.bind(node.args["substr"]), self.bind(node.this)), place(node))
            case exp.Substring():
                args = [node.this, node.args.get("start"), node.args.get("length")]
                return call("substring", [self.bind(arg) for arg in args if arg is not None], place(node))
            case exp.Trim():
                return self._trim(node)
            case exp.CurrentTimestamp() | exp.CurrentDate() | exp.CurrentTime():
                return call("now", (), place(node))
            case _:
                _refuse(node)

    def aggregate_name(self, node: exp.Expr) -> str | None:
        """Return the name of the aggregate that a node calls: ours, 'python:module:Class' or 'sql:name'."""
        if not isinstance(node, exp.Anonymous):
            return None
        own = self.catalog.aggregate(node.name)
        if own is not None:
            return f"python:{own.target}" if own.target else f"sql:{own.name}"
        name = ALIASES.get(node.name.lower(), node.name.lower())
        return name if name in AGGREGATES or name in OTHER_AGGREGATES else None

    def _binary(self, operator: str, node: exp.Expr) -> Expr:
        side = node.expression
        if (operator, type(side)) in (("=", exp.Any), ("<>", exp.All)) and isinstance(side.this, exp.Query):
            member = self._member(exp.In(this=node.this, query=side.this))
            return member if operator == "=" else apply("not", (member,), place(node))
        if isinstance(side, exp.Any | exp.All) and not isinstance(side.this, exp.Query):
            several = self._several(operator, node, side)
            if several is not None:
                return several
        if operator in ("=", "<>") and isinstance(node.this, exp.Tuple) and isinstance(side, exp.Tuple):
            equal = self._equal_rows(node.this, side, node)
            return equal if operator == "=" else apply("not", (equal,), place(node))
        for side in (node.this, node.expression):
            if isinstance(side, exp.Any | exp.All):
                raise NotSupported(
                    "ANY and ALL are not supported here",
                    span=place(node),
                    hint="write x > (SELECT max(y) FROM table) for > ALL, min for > ANY; = ANY (SELECT ...) and <> ALL "
                    "(SELECT ...) are allowed",
                )
        if operator in ("and", "or"):
            return chain(operator, [self.predicate(term) for term in terms_of(node)])
        if operator == "||" and len(terms := terms_of(node)) > LONG_CHAIN:
            return apply("||", tuple(self.bind(term) for term in terms), place(node))
        if any(value and name not in _OPERANDS for name, value in node.args.items()):
            raise NotSupported("this form of the operator is not supported", span=place(node))
        if operator in ("+", "-"):
            return self._sum(operator, node)
        result = apply(operator, (self.bind(node.this), self.bind(node.expression)), place(node))
        return apply("not", (result,), place(node)) if node.args.get("negate") else result

    def _sum(self, operator: str, node: exp.Expr) -> Expr:
        left = self.bind(node.this)
        date = other_month(operator, node, left)
        if date is not None:
            return date
        right = self.bind(node.expression)
        return other_day(operator, node, left, right) or apply(operator, (left, right), place(node))

    def _several(self, operator: str, node: exp.Expr, side: exp.Any | exp.All) -> Expr | None:
        """Bind x LIKE ANY ('a%', 'b%'), x = ANY (1, 2) and x = ANY (array)."""
        inner = side.this.unnest() if isinstance(side.this, exp.Paren) else side.this
        joined = "or" if isinstance(side, exp.Any) else "and"
        if isinstance(node.parent, exp.Not) or node.args.get("negate"):
            raise NotSupported(
                "NOT before ANY and ALL means different things in different systems",
                span=place(node),
                hint="write NOT (x LIKE ANY ('a%', 'b%'))",
            )
        if isinstance(inner, exp.Tuple | exp.Array) or operator in ("like", "ilike"):
            choices = inner.expressions if isinstance(inner, exp.Tuple | exp.Array) else [inner]
            terms = [apply(operator, (self.bind(node.this), self.bind(one)), place(node)) for one in choices]
            return chain(joined, terms)
        if (operator, joined) == ("=", "or"):
            return apply("array_contains", (self.bind(inner), self.bind(node.this)), place(node), written="= ANY")
        return None

    def _equal_rows(self, left: exp.Tuple, right: exp.Expr, node: exp.Expr) -> Expr:
        """Compare two rows of values, column by column."""
        if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
            raise TypeFault(
                f"{len(left.expressions)} values are compared with another number of values",
                span=place(node),
                hint="write (a, b) = (1, 2)",
            )
        pairs = zip(left.expressions, right.expressions, strict=True)
        return chain("and", [apply("=", (self.bind(mine), self.bind(other)), place(node)) for mine, other in pairs])

    def _negative(self, node: exp.Neg) -> Expr:
        number = node.this.unnest()
        if isinstance(number, exp.Literal) and not number.is_string and number.name == str(2**63):
            return Literal(-(2**63), Type.BIGINT)
        arg = self.bind(node.this)
        if isinstance(arg, Literal) and isinstance(arg.type, DecimalType) and isinstance(arg.value, str):
            return Literal(arg.value[1:] if arg.value.startswith("-") else f"-{arg.value}", arg.type)
        if isinstance(arg, Literal) and isinstance(arg.value, int | float) and not isinstance(arg.value, bool):
            return Literal(arg.value if arg.value == -(2**63) else -arg.value, arg.type)  # it wraps
        return apply("neg", (arg,), place(node))

    def _is(self, node: exp.Is) -> Expr:
        arg, right = self.bind(node.this), node.expression
        if isinstance(right, exp.Null):
            return apply("is_null", (arg,), place(node))
        if isinstance(right, exp.Boolean):
            return apply("<=>", (_boolean(arg, node.this), TRUE if right.this else FALSE), place(node))
        is_json = isinstance(right, exp.JSON)
        hint = "write get_json_object(s, '$') IS NOT NULL" if is_json else None
        raise SyntaxFault("IS needs NULL, TRUE or FALSE", span=place(node), hint=hint)

    def _between(self, node: exp.Between) -> Expr:
        if node.args.get("symmetric"):
            raise NotSupported(
                "BETWEEN SYMMETRIC is not supported",
                span=place(node),
                hint="write x BETWEEN least(a, b) AND greatest(a, b)",
            )
        arg = self.bind(node.this)
        low = apply(">=", (arg, self.bind(node.args["low"])), place(node))
        high = apply("<=", (arg, self.bind(node.args["high"])), place(node))
        return apply("and", (low, high), place(node))

    def _member(self, node: exp.In | exp.Exists) -> Expr:
        """Bind IN or EXISTS with a sub-query."""
        if self.member is None:
            raise NotSupported(
                f"IN and EXISTS with a sub-query are not allowed {self.where}",
                span=place(node),
                hint="write them in WHERE, or in SELECT without aggregates; aggregate over a sub-query in FROM",
            )
        return self.member(node)

    def _scalar(self, node: exp.Subquery) -> Expr:
        """Bind a sub-query that stands for a value."""
        if self.member is None:
            raise NotSupported(
                "a sub-query for a value stands in WHERE, or in a SELECT without aggregates",
                span=place(node),
                hint="compare results of an aggregate in an outer query: "
                "SELECT ... FROM (SELECT ... GROUP BY ...) AS g WHERE g.n > (SELECT ...)",
            )
        return self.member(node)

    def _in(self, node: exp.In) -> Expr:
        if node.args.get("query") is not None:
            return self._member(node)
        if not node.expressions:
            _refuse(exp.Subquery(this=node))
        if isinstance(node.this, exp.Tuple):
            return chain("or", [self._equal_rows(node.this, choice, node) for choice in node.expressions])
        return apply(
            "in", (self.bind(node.this), *(self.bind(choice) for choice in node.expressions)), place(node), written="IN"
        )

    def _case(self, node: exp.Case | exp.If) -> Expr:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        otherwise = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        subject = self.bind(node.this) if isinstance(node, exp.Case) and node.this is not None else None
        whens: list[Expr] = []
        for branch in branches:
            when = self.bind(branch.this)
            whens.append(_boolean(when, branch.this) if subject is None else apply("=", (subject, when), place(branch)))
        thens = [self.bind(branch.args["true"]) for branch in branches]
        if otherwise is not None:
            thens.append(self.bind(otherwise))
        try:
            unified = unify(thens)
        except ValueError as error:
            raise TypeFault(str(error), span=place(node)) from error
        if unified is None:
            kinds = " and ".join(dict.fromkeys(then.type.value for then in thens))
            raise TypeFault(
                f"the results of CASE have different types: {kinds}",
                span=place(node),
                hint="convert them to one type with CAST",
            )
        default = unified[-1] if otherwise is not None else None
        return Case(tuple(zip(whens, unified[: len(whens)], strict=True)), default, unified[0].type)

    def _cast(self, node: exp.Cast) -> Expr:
        if node.args.get("format") is not None:
            raise NotSupported("CAST with FORMAT is not supported", span=place(node))
        arg, to = self.bind(node.this), type_of(node.args["to"])
        try:
            return check_cast(coerce(arg, to) if node.meta.get("written") else cast(arg, to), place(node))
        except ValueError as error:
            if isinstance(node, exp.TryCast):
                return Literal(None, to)
            raise TypeFault(
                str(error), span=place(node), hint="write it as '2026-01-31' or '2026-01-31 12:00:00'"
            ) from error

    def _call(self, node: exp.Window | exp.Filter | exp.Anonymous) -> Expr:
        modified = None if self.modify is None else self.modify(node)
        if modified is not None:
            return modified
        refuse_modifier(node, self.where)
        if isinstance(node, exp.Window):
            raise NotSupported(
                f"{node.this.name.upper() or 'a function with'} OVER is not allowed here",
                span=place(node),
                hint=_OVER_HINT,
            )
        clause = impute_of(node)
        if clause is not None:
            if self.impute is None:
                hint = "impute in a sub-query: FROM (SELECT *, IMPUTE(...) AS x FROM ...)"
                raise NotSupported(
                    f"IMPUTE is not allowed {self.where}, only in SELECT without aggregates",
                    span=clause.span,
                    hint=hint,
                )
            return self.impute(clause)
        inner = node.this if isinstance(node, exp.Filter) else node
        name = self.aggregate_name(inner)
        if name is not None:
            if self.collect is None:
                raise TypeFault(
                    f"the aggregate {inner.name} is not allowed {self.where}",
                    span=place(inner),
                    hint="write it in SELECT or HAVING",
                )
            return self.collect(name, node)
        if isinstance(node, exp.Filter):
            raise TypeFault(f"{inner.name} cannot have FILTER: it is not an aggregate", span=place(node))
        if any(isinstance(arg, exp.Star | exp.Distinct) for arg in node.expressions):
            raise TypeFault(
                f"{node.name} is not an aggregate, so it cannot have * or DISTINCT",
                span=place(node),
                hint=did_you_mean(node.name, AGGREGATES),
            )
        if (
            node.name.lower() in OF_ARRAYS
            and len(node.expressions) == 1
            and self.catalog.function(node.name) is None
            and isinstance(self.bind(node.expressions[0]).type, ArrayType)
        ):
            of_array = OF_ARRAYS[node.name.lower()]
            node = exp.Anonymous(this=of_array, expressions=node.expressions).update_positions(node)
        if node.name.lower() in NAMES and self.catalog.function(node.name) is None:
            return self.bind(written_out(node))
        if any(isinstance(arg, exp.Lambda) for arg in node.expressions) or (
            node.name.lower() in HIGHER_NAMES and self.catalog.function(node.name) is None
        ):
            return bind_higher(node, self.bind, self._body)
        if node.name.lower() in CONSTRUCTORS and self.catalog.function(node.name) is None:
            parts = [arg.this if isinstance(arg, exp.Alias) else arg for arg in node.expressions]
            return construct(node.name.lower(), [self.bind(arg) for arg in parts], node.expressions, place(node))
        if any(isinstance(arg, exp.Alias) for arg in node.expressions):
            raise SyntaxFault(
                f"the arguments of {node.name} cannot have names",
                span=place(node),
                hint=other_systems.FUNCTIONS.get(node.name.lower()),
            )
        unit = unit_of(node.name, [_word(arg) for arg in node.expressions], place(node))
        if unit is not None:
            args = [self.bind(arg) for arg in node.expressions[1:]]
            return shifted(node.name, unit, args, place(node))
        own = self.catalog.function(node.name)
        if own is not None:
            return _own_call(own, [self.bind(arg) for arg in node.expressions], place(node))
        return call(node.name, self._arguments(node), place(node))

    def _arguments(self, node: exp.Anonymous) -> list[Expr]:
        """Bind the arguments of a function; if it is one of another system, they may be words, as it has them."""
        try:
            return [self.bind(arg) for arg in node.expressions]
        except QueryError as error:
            elsewhere = other_systems.FUNCTIONS.get(node.name.lower())
            if elsewhere is None:
                raise
            raise NotSupported(f"function {node.name!r} is not supported", span=place(node), hint=elsewhere) from error

    def _body(self, node: exp.Expr, params: Mapping[str, Column]) -> Expr:
        """Bind the body of a lambda, which may read columns and the parameters of lambdas around it."""
        inner = replace(
            self,
            where="in a lambda",
            collect=None,
            impute=None,
            modify=None,
            member=None,
            params={**self.params, **params},
        )
        return inner.bind(node)

    def _item(self, node: exp.Bracket) -> Expr:
        """Bind x[i], and MAP['a', 1] of Flink."""
        base, inside = node.this, node.expressions
        if isinstance(base, exp.Column) and base.name.upper() == "MAP" and not base.table and len(inside) % 2 == 0:
            return construct("map", [self.bind(arg) for arg in inside], inside, place(node))
        if len(inside) != 1 or isinstance(inside[0], exp.Slice):
            raise NotSupported(
                "a part of an ARRAY cannot be written with a colon",
                span=place(node),
                hint="write slice(xs, 1, 2): two elements from the first",
            )
        return item(self.bind(base), self.bind(inside[0]), place(node))

    def _struct_literal(self, node: exp.Struct) -> Expr:
        """Bind {'a': x, 'b': y} of DuckDB."""
        args: list[Expr] = []
        for pair in node.expressions:
            if not isinstance(pair, exp.PropertyEQ):
                raise SyntaxFault(
                    "a STRUCT in braces needs names", span=place(node), hint="write {'a': x}, or struct(x AS a)"
                )
            args += [Literal(pair.this.name, Type.STRING), self.bind(pair.expression)]
        return construct("named_struct", args, node.expressions, place(node))

    def _trim(self, node: exp.Trim) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        args = [node.this] if node.expression is None else [node.this, node.expression]
        return apply(name, tuple(map(self.bind, args)), place(node))


def _own_call(own: Function, args: list[Expr], span: Span | None) -> Expr:
    """Call a user's function, with its arguments converted where that loses nothing."""
    declared = f"{own.name}({', '.join(type_.value for type_ in own.args)})"
    if len(args) != len(own.args):
        raise TypeFault(f"{own.name} takes {len(own.args)} arguments, not {len(args)}", span=span, hint=declared)
    for arg, type_ in zip(args, own.args, strict=True):
        if arg.type is not Type.NULL and common_type(arg.type, type_) != type_:
            raise TypeFault(
                f"{own.name} cannot take {arg.type.value} as {type_.value}",
                span=span,
                hint=f"{declared}; convert it with CAST",
            )
    fitted = tuple(coerce(arg, type_) for arg, type_ in zip(args, own.args, strict=True))
    return Call(function_name(own.style, own.target), fitted, own.result)


def _word(node: exp.Expr) -> str:
    """Return a bare word or a text, such as the unit of TIMESTAMPDIFF; empty for anything else."""
    if isinstance(node, exp.Column) and not node.table:
        return node.name
    return node.name if isinstance(node, exp.Literal | exp.Var) else ""


def type_of(node: exp.Expr) -> DataType:
    """Return the type that a CAST names."""
    written = node.args.get("kind") or (
        node.this.value if isinstance(node, exp.DataType) and isinstance(node.this, exp.DType) else node.name
    )
    type_ = TYPE_NAMES.get(str(written).upper())
    if str(written).upper() in DECIMAL_NAMES:
        return _decimal_type(node)
    if type_ is None and isinstance(node, exp.DataType) and str(written).upper() in NESTED_NAMES and node.expressions:
        try:
            return read_type(type_text(node))[0]
        except ValueError as error:
            raise TypeFault(str(error), span=place(node) or place(node.parent)) from error
    if type_ is None:
        raise no_type(node.sql(), place(node) or place(node.parent))
    return type_


def _decimal_type(node: exp.Expr) -> DataType:
    digits = [int(size.name) for size in node.expressions if size.name.isdigit()]
    try:
        if len(digits) != len(node.expressions) or len(digits) > 2:
            raise ValueError(f"{node.sql()} is not a type")
        return decimal_type(*digits, *[0] * (2 - len(digits))) if digits else DEFAULT_DECIMAL
    except ValueError as error:
        span = place(node) or place(node.parent)
        raise TypeFault(str(error), span=span, hint="write for example DECIMAL(10, 2)") from error


def _boolean(expr: Expr, node: exp.Expr) -> Expr:
    if expr.type is Type.NULL:
        return Literal(None, Type.BOOLEAN)
    if expr.type is not Type.BOOLEAN:
        raise TypeFault(
            f"a condition must be BOOLEAN, not {expr.type.value}", span=place(node), hint="compare it with a value"
        )
    return expr


def _literal(node: exp.Literal | exp.Boolean | exp.Null | exp.Interval) -> Expr:
    match node:
        case exp.Boolean():
            return TRUE if node.this else FALSE
        case exp.Null():
            return Literal(None, Type.NULL)
        case exp.Interval():
            return interval(node)
        case exp.Literal():
            return Literal(node.name, Type.STRING) if node.is_string else _number(node)


def _number(node: exp.Literal) -> Expr:
    text = node.name
    if not text.isdigit():
        try:
            return Literal(float(text), Type.DOUBLE)
        except ValueError:  # such as 0.35E
            raise SyntaxFault(f"{text!r} is no number", span=place(node)) from None
    value = int(text)
    if value >= 2**63:
        raise TypeFault(f"{text} does not fit into BIGINT", span=place(node), hint=f"write {text}.0 for a DOUBLE")
    return Literal(value, Type.INT if value < 2**31 else Type.BIGINT)


def _refuse(node: exp.Expr) -> NoReturn:
    span: Span | None = place(node)
    if isinstance(node, exp.Subquery | exp.Exists | exp.Query) or node.find(exp.Query):
        raise NotSupported(
            "a sub-query is allowed only in FROM",
            span=span,
            hint="write a join: ... JOIN (SELECT ...) [RANGE 1 MINUTE] AS x ON ...",
        )
    if isinstance(node, exp.Star):
        raise SyntaxFault("* is allowed only in SELECT and count(*)", span=span)
    if isinstance(node, exp.Alias):
        raise SyntaxFault("AS is allowed only in SELECT and FROM", span=span)
    for function in (node.this, node.parent):  # of string_agg(x ORDER BY y), the ORDER BY is not what is wrong
        if isinstance(function, exp.Anonymous) and function.name.lower() in other_systems.FUNCTIONS:
            hint = other_systems.FUNCTIONS[function.name.lower()]
            raise NotSupported(f"function {function.name!r} is not supported", span=place(function), hint=hint)
    name = node.key.replace("_", " ").upper()
    shown = other_systems.WRITTEN.get(name, name)
    raise NotSupported(f"{shown} is not supported", span=span, hint=other_systems.EXPRESSIONS.get(name))
