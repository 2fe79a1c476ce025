"""Simpler expressions of the same type that mean the same for every tuple, NULL included."""

from __future__ import annotations

from headrace.model.expressions.expression import FALSE, TRUE, Call, Case, Cast, Expr, Literal, transform
from headrace.model.types import DataType, Type
from headrace.optimizer import constants

#: Functions that may give something else than NULL although an argument is NULL.
_LENIENT = frozenset(
    {
        *(
            "and",
            "or",
            "<=>",
            "is_null",
            "in",
            "coalesce",
            "nullif",
            "greatest",
            "least",
            "aggregate",
            "isnan",
            "nanvl",
        ),
        *("concat_ws", "xxhash64", "array", "array_append", "map", "named_struct"),
    }
)
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def fold(expr: Expr) -> Expr:
    """Compute what is constant and drop what cannot matter."""
    return transform(expr, _fold_top)


def is_null(expr: Expr) -> bool:
    """Return whether the expression is a NULL constant of any type."""
    return isinstance(expr, Literal) and expr.value is None


def _fold_top(expr: Expr) -> Expr:
    """Fold an expression whose parts are folded, keeping its type."""
    match expr:
        case Call():
            return _retype(_fold_call(expr), expr.type)
        case Case():
            return _retype(_fold_case(expr), expr.type)
        case Cast():
            return _fold_cast(expr)
        case _:
            return expr


def _fold_call(call: Call) -> Expr:
    if call.function not in _LENIENT and any(map(is_null, call.args)):
        return Literal(None, call.type)
    match call:
        case Call(function="and", args=(left, right)):
            return _fold_connective(call, left, right, neutral=TRUE, absorbing=FALSE)
        case Call(function="or", args=(left, right)):
            return _fold_connective(call, left, right, neutral=FALSE, absorbing=TRUE)
        case Call(function="not", args=(Call(function="not", args=(arg,)),)):
            return arg
        case Call(function="not", args=(Literal(value=bool(value)),)):
            return FALSE if value else TRUE
        case Call(function="is_null", args=(Literal(value=value),)):
            return TRUE if value is None else FALSE
        case Call(function="<=>", args=(Literal() as left, Literal() as right)):
            return _fold_null_safe(call, left, right)
        case Call(function="in", args=(first, *choices)):
            return _fold_in(call, first, tuple(choices))
        case Call(function="coalesce", args=args):
            return _fold_coalesce(call, args)
        case Call(function="nullif", args=(first, second)):
            return first if is_null(first) or is_null(second) else call
        case Call(function=function, args=args):
            return _evaluate(call, function, args)


def _fold_connective(call: Call, left: Expr, right: Expr, *, neutral: Literal, absorbing: Literal) -> Expr:
    if absorbing in (left, right):
        return absorbing
    if left in (neutral, right):
        return right
    if right == neutral:
        return left
    return Literal(None, Type.BOOLEAN) if is_null(left) and is_null(right) else call


def _fold_null_safe(call: Call, left: Literal, right: Literal) -> Expr:
    if left.value is None or right.value is None:
        return TRUE if left.value is None and right.value is None else FALSE
    return _answer(call, constants.compare("=", left, right))


def _fold_in(call: Call, first: Expr, choices: tuple[Expr, ...]) -> Expr:
    if is_null(first):
        return Literal(None, Type.BOOLEAN)
    constant = [choice for choice in choices if isinstance(choice, Literal)]
    if not isinstance(first, Literal) or len(constant) < len(choices):
        return call
    answers = [None if choice.value is None else constants.compare("=", first, choice) for choice in constant]
    if True in answers:
        return TRUE
    if constants.UNKNOWN in answers:
        return call
    return Literal(None, Type.BOOLEAN) if None in answers else FALSE


def _fold_coalesce(call: Call, args: tuple[Expr, ...]) -> Expr:
    kept: list[Expr] = []
    for arg in args:
        if not is_null(arg):
            kept.append(arg)
        if isinstance(arg, Literal) and arg.value is not None:
            break  # what follows is never reached
    if not kept:
        return Literal(None, call.type)
    return kept[0] if len(kept) == 1 else Call("coalesce", tuple(kept), call.type)


def _evaluate(call: Call, function: str, args: tuple[Expr, ...]) -> Expr:
    constant = tuple(arg for arg in args if isinstance(arg, Literal))
    if len(constant) < len(args) or function in _LENIENT:
        return call
    if function in _COMPARISONS:
        return _answer(call, constants.compare(function, constant[0], constant[1]))
    return _answer(call, constants.call(function, constant, call.type))


def _answer(call: Call, answer: constants.Answer) -> Expr:
    return call if answer is constants.UNKNOWN else Literal(answer, call.type)


def _fold_case(case: Case) -> Expr:
    branches: list[tuple[Expr, Expr]] = []
    default = case.default
    for when, then in case.branches:
        if when == TRUE:
            default = then
            break
        if when != FALSE and not is_null(when):
            branches.append((when, then))
    if not branches:
        return Literal(None, case.type) if default is None else default
    if default is not None and is_null(default):
        default = None
    return Case(tuple(branches), default, case.type)


def _fold_cast(cast: Cast) -> Expr:
    arg = cast.arg
    if arg.type == cast.type:
        return arg
    if isinstance(arg, Literal):
        answer = None if arg.value is None else constants.cast(arg, cast.type)
        return cast if answer is constants.UNKNOWN else Literal(answer, cast.type)
    return cast


def _retype(expr: Expr, type_: DataType) -> Expr:
    """Cast a part that replaces the whole and may be narrower, as in CASE WHEN TRUE THEN an INT, ELSE a BIGINT."""
    return expr if expr.type == type_ else _fold_cast(Cast(expr, type_))
