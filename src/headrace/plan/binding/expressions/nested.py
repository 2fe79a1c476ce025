"""ARRAY, MAP and STRUCT in expressions: `s.name`, `a[0]`, `m['key']`, constructors, and the schema of from_json."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.errors import NameFault, NotSupported, Span, TypeFault
from headrace.language.names import TYPE_NAMES, did_you_mean
from headrace.language.type_text import NESTED_NAMES, read_schema
from headrace.model.expressions.expression import Call, Expr, Lambda, Literal, parameter
from headrace.model.types import ArrayType, DataType, MapType, StructType, Type, has_map
from headrace.plan.binding.expressions.coerce import coerce, unify
from headrace.plan.binding.expressions.function import apply

#: Functions that this module binds, beside those of the table.
CONSTRUCTORS = ("array", "map", "struct", "row", "named_struct", "from_json")


def field(expr: Expr, name: str, span: Span | None) -> Expr:
    """Return `expr.name`: the field of a STRUCT, or the value of a key of a MAP."""
    if isinstance(expr.type, MapType) and expr.type.key is Type.STRING:
        return Call("item", (expr, Literal(name, Type.STRING)), expr.type.of)
    if isinstance(expr.type, ArrayType) and isinstance(expr.type.element, StructType):
        element = parameter("element", expr.type.element)  # of each element, as in Spark
        value = field(element, name, span)
        return Call("transform", (expr, Lambda((element,), value, value.type)), ArrayType(value.type))
    if not isinstance(expr.type, StructType):
        hint = "write x[0].name for a field of an element" if isinstance(expr.type, ArrayType) else None
        raise TypeFault(f"{expr.type.value} has no field {name!r}", span=span, hint=hint)
    found = expr.type.find(name)
    if found is None:
        names = [known for known, _ in expr.type.fields]
        hint = did_you_mean(name, names, otherwise=f"its fields are {', '.join(names)}")
        raise NameFault(f"the STRUCT has no field {name!r}", span=span, hint=hint)
    return Call("field", (expr, Literal(found[0], Type.STRING)), found[1])


def fields(expr: Expr, span: Span | None) -> list[tuple[str, Expr]]:
    """Return what `expr.*` stands for: the fields of a STRUCT."""
    if not isinstance(expr.type, StructType):
        raise TypeFault(f"{expr.type.value} has no fields", span=span, hint="only items of FROM and STRUCTs have .*")
    return [(name, field(expr, name, span)) for name, _ in expr.type.fields]


def item(expr: Expr, index: Expr, span: Span | None) -> Expr:
    """Return `expr[index]`: an element from 0, the value of a key, or a field."""
    match expr.type:
        case StructType() if isinstance(index, Literal) and isinstance(index.value, str):
            return field(expr, index.value, span)
        case MapType(key=key):
            return apply("item", (expr, _as_key(index, key)), span, written="[]")
        case ArrayType():
            return apply("item", (expr, index), span, written="[]")
        case _:
            raise TypeFault(f"{expr.type.value} has no elements", span=span, hint="only ARRAY, MAP and STRUCT have [ ]")


def construct(name: str, args: Sequence[Expr], nodes: Sequence[exp.Expr], span: Span | None) -> Expr:
    """Return array(...), map(...), struct(...), named_struct(...) or from_json(...)."""
    match name:
        case "array":
            if not args:
                raise NotSupported("the type of an empty ARRAY is not known", span=span, hint="write array(1, 2)")
            return apply("array", unify(args) or tuple(args), span)
        case "map":
            keys, values = unify(args[::2]), unify(args[1::2])
            if not args or keys is None or values is None or len(keys) != len(values):
                return apply("map", tuple(args), span)
            pairs = tuple(arg for pair in zip(keys, values, strict=True) for arg in pair)
            return apply("map", pairs, span)
        case "named_struct":
            names = [arg.value if isinstance(arg, Literal) else None for arg in args[::2]]
            if not args or len(args) % 2 or not all(isinstance(known, str) for known in names):
                raise TypeFault(
                    "named_struct takes names and values in turn", span=span, hint="write named_struct('a', 1, 'b', x)"
                )
            return _struct([str(known) for known in names], args[1::2], span)
        case "from_json":
            return _from_json(args, span)
        case _:
            if not args:
                raise TypeFault(f"{name} needs at least one field", span=span, hint="write struct(1 AS a, x AS b)")
            return _struct([_name(node, number) for number, node in enumerate(nodes, start=1)], args, span)


def check_keys(exprs: Sequence[Expr], what: str, span: Span | None) -> None:
    """Refuse a MAP where values are compared, as Spark does."""
    for expr in exprs:
        if has_map(expr.type):
            raise TypeFault(f"{what} cannot be a MAP", span=span, hint="use a key, such as m['a'], or to_json(m)")


def _as_key(index: Expr, key: DataType) -> Expr:
    return coerce(index, key) if isinstance(index, Literal) and index.type.is_integer and key.is_integer else index


def _struct(names: Sequence[str], values: Sequence[Expr], span: Span | None) -> Expr:
    seen: set[str] = set()
    for name, value in zip(names, values, strict=True):
        if name.lower() in seen:
            raise NameFault(f"the STRUCT would have two fields {name!r}", span=span, hint="name them with AS")
        if value.type is Type.NULL:
            raise TypeFault(
                f"the type of the field {name!r} is not known", span=span, hint="write CAST(NULL AS STRING)"
            )
        seen.add(name.lower())
    type_ = StructType(tuple((name, value.type) for name, value in zip(names, values, strict=True)))
    args = tuple(arg for name, value in zip(names, values, strict=True) for arg in (Literal(name, Type.STRING), value))
    return Call("named_struct", args, type_)


def _name(node: exp.Expr, number: int) -> str:
    """Return the name of a field as Spark gives it: that of a column, or col1, col2, ..."""
    if isinstance(node, exp.Alias):
        return node.alias
    return node.name if isinstance(node, exp.Column) else node.expression.name if _is_dot(node) else f"col{number}"


def _is_dot(node: exp.Expr) -> bool:
    return isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier)


def _from_json(args: Sequence[Expr], span: Span | None) -> Expr:
    hint = "write from_json(s, 'a INT, b ARRAY<STRING>'), or a type such as 'MAP<STRING, INT>'"
    if len(args) != 2 or args[0].type is not Type.STRING:
        raise TypeFault("from_json takes a STRING and a schema", span=span, hint=hint)
    schema = args[1]
    if not isinstance(schema, Literal) or not isinstance(schema.value, str):
        raise NotSupported("the schema of from_json must be a constant", span=span, hint=hint)
    try:
        type_ = read_schema(schema.value)
    except ValueError as error:
        raise TypeFault(f"the schema of from_json cannot be read: {error}", span=span, hint=hint) from error
    return Call("from_json", tuple(args), type_)


def type_text(node: exp.Expr) -> str:
    """Write a parsed type as `read_type` reads it."""
    if isinstance(node, exp.ColumnDef):
        return f"`{node.name}`: {type_text(node.args['kind'])}"
    if isinstance(node, exp.DataType) and isinstance(node.this, exp.DType) and node.this.value in NESTED_NAMES:
        return f"{node.this.value}<{', '.join(map(type_text, node.expressions))}>"
    sizes = ", ".join(part.name for part in node.expressions)
    name = node.this.value if isinstance(node, exp.DataType) and isinstance(node.this, exp.DType) else node.name
    known = TYPE_NAMES.get(name)
    return f"{known.value if known is not None else name}{f'({sizes})' if sizes else ''}"
