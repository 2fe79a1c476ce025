"""Calls of functions that take functions: transform(xs, x -> x + 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from headrace.errors import NotSupported, Span, TypeFault
from headrace.model.expressions.expression import Call, Column, Expr, Lambda, parameter
from headrace.model.expressions.functions import HIGHER
from headrace.model.types import ArrayType, DataType, MapType, Type, common_type, has_map
from headrace.plan.binding.expressions.coerce import coerce
from headrace.plan.binding.span import place

#: Binds a body, given the parameters by name.
BindBody = Callable[[exp.Expr, Mapping[str, Column]], Expr]
#: The functions by all their names.
HIGHER_NAMES = {
    **{name: name for name in HIGHER},
    "reduce": "aggregate",
    "list_transform": "transform",
    "array_transform": "transform",
    "list_filter": "filter",
    "array_filter": "filter",
    "any_match": "exists",
    "all_match": "forall",
}


def bind_higher(node: exp.Anonymous, bind: Callable[[exp.Expr], Expr], bind_body: BindBody) -> Expr:
    """Bind a call with lambdas."""
    written, span = node.name.lower(), place(node)
    name = HIGHER_NAMES.get(written)
    if written == "array_sort":
        raise NotSupported(
            "array_sort takes no comparison",
            span=span,
            hint="write array_sort(xs) or sort_array(xs, false); CREATE FUNCTION ... FROM PYTHON can sort by anything",
        )
    if name is None:
        raise NotSupported(
            f"{node.name} takes no function", span=span, hint=f"functions that take one are {', '.join(HIGHER)}"
        )
    help_ = f"write {HIGHER[name].help}"
    nodes = node.expressions
    bodies = {"aggregate": (2, 3)}.get(name, (2,) if name == "zip_with" else (1,))
    for position, arg in enumerate(nodes):
        if isinstance(arg, exp.Lambda) != (position in bodies):
            raise TypeFault(f"the arguments of {written} are others", span=span, hint=help_)
    if not HIGHER[name].least <= len(nodes) <= (HIGHER[name].most or 4):
        raise TypeFault(f"{written} has a wrong number of arguments", span=span, hint=help_)

    def function(arg: exp.Expr, *types: DataType) -> Lambda:
        names = [param.name for param in arg.expressions]
        least = 1 if name in ("transform", "filter") else len(types)
        if not least <= len(names) <= len(types):
            raise TypeFault(f"the function has {len(names)} parameters", span=place(arg) or span, hint=help_)
        params = tuple(parameter(param, type_) for param, type_ in zip(names, types, strict=False))
        body = bind_body(arg.this, dict(zip((param.lower() for param in names), params, strict=True)))
        if body.type is Type.NULL:
            raise TypeFault("the type of NULL is not known", span=span, hint="write for example CAST(NULL AS STRING)")
        return Lambda(params, body, body.type)

    def condition(arg: exp.Expr, *types: DataType) -> Lambda:
        made = function(arg, *types)
        if made.type is not Type.BOOLEAN:
            raise TypeFault(f"the function must give BOOLEAN, not {made.type.value}", span=span, hint=help_)
        return made

    held = bind(nodes[0])
    match held.type:
        case ArrayType(element=element) if name in ("transform", "filter", "exists", "forall"):
            if name == "transform":
                made = function(nodes[1], element, Type.INT)
                return Call(name, (held, made), ArrayType(made.type))
            tested = condition(nodes[1], element, *([Type.INT] if name == "filter" else []))
            return Call(name, (held, tested), held.type if name == "filter" else Type.BOOLEAN)
        case ArrayType(element=element) if name == "zip_with":
            other = bind(nodes[1])
            if isinstance(other.type, ArrayType):
                made = function(nodes[2], element, other.type.element)
                return Call(name, (held, other, made), ArrayType(made.type))
        case ArrayType(element=element) if name == "aggregate":
            return _aggregate(held, element, bind(nodes[1]), nodes[2:], function, span)
        case MapType(key=key, of=of) if name == "map_filter":
            return Call(name, (held, condition(nodes[1], key, of)), held.type)
        case MapType(key=key, of=of) if name == "transform_values":
            made = function(nodes[1], key, of)
            return Call(name, (held, made), MapType(key, made.type))
        case MapType(key=key, of=of) if name == "transform_keys":
            made = function(nodes[1], key, of)
            if has_map(made.type):
                raise TypeFault("a key cannot be a MAP", span=span, hint=help_)
            return Call(name, (held, made), MapType(made.type, of))
        case _:
            pass
    raise TypeFault(f"{written} cannot take {held.type.value}", span=span, hint=help_)


def _aggregate(
    held: Expr,
    element: DataType,
    start: Expr,
    nodes: Sequence[exp.Expr],
    function: Callable[..., Lambda],
    span: Span | None,
) -> Expr:
    """Bind aggregate(xs, start, (acc, x) -> ... [, acc -> ...]); the sum of integers is a BIGINT, so start is, too."""
    merge = function(nodes[0], start.type, element)
    wide = common_type(start.type, merge.type)
    if wide is not None and wide != start.type:
        start = coerce(start, wide)
        merge = function(nodes[0], wide, element)
    if merge.type != start.type:
        raise TypeFault(
            f"aggregate begins with {start.type.value}, and its function gives {merge.type.value}",
            span=span,
            hint="write CAST around the start or the body, so that both have one type",
        )
    finish = (function(nodes[1], start.type),) if len(nodes) > 1 else ()
    return Call("aggregate", (held, start, merge, *finish), finish[0].type if finish else start.type)
