"""UNNEST and explode: items of FROM that make of each tuple one for each element of an ARRAY or entry of a MAP.

`FROM s CROSS JOIN UNNEST(s.xs) AS u(x)`, `FROM s LATERAL VIEW explode(xs) u AS x` and `SELECT explode(xs) AS x FROM s`
are the same. Elements are unnested before streams are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.catalog.definitions import Table
from headrace.errors import NameFault, NotSupported, SyntaxFault, TypeFault
from headrace.language import other_systems
from headrace.language.syntax.clauses import RowsClause, WhileClause
from headrace.model.expressions.expression import Column, Expr
from headrace.model.types import ArrayType, MapType, StructType
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.nested import field
from headrace.plan.binding.expressions.scope import Scope, unique
from headrace.plan.binding.from_item import Columns, Item
from headrace.plan.binding.span import place
from headrace.plan.nodes import Node, Project, Unnest

#: Functions that make several rows of one.
GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "unnest")
_HINT = "write FROM (SELECT ... FROM a JOIN b ON ...) CROSS JOIN UNNEST(xs) AS u(x)"


@dataclass(frozen=True, slots=True)
class Generator:
    """A call of UNNEST or explode in FROM, with the name and the columns that are written for it."""

    node: exp.Expr
    function: str
    arg: exp.Expr
    outer: bool
    alias: str
    columns: tuple[str, ...]
    ordinality: bool

    @property
    def has_place(self) -> bool:
        return self.ordinality or self.function.startswith("pos")


def lift_generators(select: exp.Select) -> exp.Select:
    """Move explode from SELECT into FROM."""
    calls = [item for item in select.expressions if _called(item) is not None]
    if not calls:
        return select
    if len(calls) > 1:
        raise NotSupported(
            "SELECT can have one explode only", span=place(calls[1]), hint="write the others in FROM: LATERAL VIEW"
        )
    lifted = select.copy()
    for item in lifted.expressions:
        call = _called(item)
        if call is not None:
            single = [item.args["alias"]] if isinstance(item, exp.Alias) else []
            names = item.expressions if isinstance(item, exp.Aliases) else single
            alias = exp.TableAlias(this=exp.to_identifier("__exploded"), columns=[name.copy() for name in names])
            lateral = exp.Lateral(this=call.copy(), view=True, alias=alias)
            lifted.set("laterals", [*(lifted.args.get("laterals") or []), lateral])
            item.replace(exp.Column(this=exp.Star(), table=exp.to_identifier("__exploded")))
    return lifted


def generators_of(select: exp.Select, joins: Sequence[exp.Join]) -> list[Generator]:
    """Return the calls of UNNEST and explode in FROM, in the order written."""
    read = [_generator(join.this, join) for join in joins if isinstance(join.this, exp.Lateral)]
    return read + [_generator(lateral, None) for lateral in select.args.get("laterals") or []]


def unnested(items: list[Item], generators: Sequence[Generator], env: Environment, *, inner: bool) -> list[Item]:
    """Give the items the columns of the generators that read them."""
    for generator in generators:
        if not inner:
            raise NotSupported(
                "UNNEST cannot follow an outer or FOLLOWING join", span=place(generator.node), hint=_HINT
            )
        at, of = _find(items, generator, env)
        items = [_with(item, generator, of) if i == at else item for i, item in enumerate(items)]
    return items


def _called(item: exp.Expr) -> exp.Anonymous | None:
    inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
    return inner if isinstance(inner, exp.Anonymous) and inner.name.lower() in GENERATORS else None


def _generator(lateral: exp.Lateral, join: exp.Join | None) -> Generator:
    call = lateral.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if name not in GENERATORS:
        raise NotSupported(
            "LATERAL needs explode, posexplode, inline or UNNEST",
            span=place(lateral) or place(call),
            hint=other_systems.FUNCTIONS.get(name, "write CROSS JOIN UNNEST(xs) AS u(x)"),
        )
    if len(call.expressions) != 1:
        raise TypeFault(f"{name} takes one ARRAY or MAP", span=place(call))
    side = "" if join is None else str(join.args.get("side") or "").upper()
    if join is not None:
        _check_join(join, side)
    alias = lateral.args.get("alias")
    return Generator(
        call,
        name,
        call.expressions[0],
        bool(lateral.args.get("outer")) or side == "LEFT" or name.endswith("_outer"),
        "" if alias is None or alias.this is None else alias.this.name,
        () if alias is None else tuple(column.name for column in alias.columns),
        bool(lateral.args.get("ordinality")),
    )


def _check_join(join: exp.Join, side: str) -> None:
    on = join.args.get("on")
    is_true = on is None or (isinstance(on, exp.Boolean) and on.this)
    if side not in ("", "LEFT") or not is_true or join.args.get("using"):
        raise NotSupported(
            "UNNEST has no condition", span=place(join.this.this), hint="write CROSS JOIN UNNEST(xs) AS u(x) WHERE ..."
        )


def _find(items: list[Item], generator: Generator, env: Environment) -> tuple[int, Expr]:
    """Return the item whose columns the call reads, and the bound argument."""
    fault: NameFault | None = None
    for at, item in enumerate(items):
        try:
            bound = ExpressionBinder(Scope(item.relations()), env.catalog, "in UNNEST").bind(generator.arg)
        except NameFault as error:
            fault = fault or error
        else:
            return at, bound
    assert fault is not None
    raise fault


def _with(item: Item, generator: Generator, of: Expr) -> Item:
    span = place(generator.node)
    if isinstance(item.source, Table):
        raise NotSupported(f"the stored table {item.source.name} cannot be unnested", span=span, hint=_HINT)
    if isinstance(item.clause, RowsClause | WhileClause):
        raise NotSupported(
            "a window that counts tuples cannot be combined with UNNEST",
            span=item.clause.span,
            hint="write it after a sub-query: FROM (SELECT ... CROSS JOIN UNNEST(xs) AS u(x)) [ROWS 10]",
        )
    if not isinstance(of.type, ArrayType | MapType):
        raise TypeFault(f"{generator.function} takes an ARRAY or MAP, not {of.type.value}", span=span)
    names = _names(generator, of)
    taken = {name.lower() for name in item.schema.names}
    made = {name: unique(name, taken) for name in names}
    node, columns = _node(item.source, generator, of, names, made, taken)
    alias: tuple[str, ...] = (generator.alias,) if generator.alias else ()
    return replace(item, source=node, extra=(*item.extra, Columns(alias, columns)))


def _node(
    source: Node, generator: Generator, of: Expr, names: Sequence[str], made: dict[str, str], taken: set[str]
) -> tuple[Node, tuple[tuple[str, str], ...]]:
    """Return the plan, and the visible and the real names of the new columns."""
    shown = tuple((name, made[name]) for name in names)
    values = [made[name] for name in names]
    at = ""
    if generator.has_place:
        at = values.pop(0 if generator.function.startswith("pos") else -1)
    fields = _fields(generator, of)
    first = 1 if generator.ordinality else 0
    if fields is None:
        return Unnest(source, of, tuple(values), at, first, generator.outer), shown
    whole = unique("element", taken)
    node = Unnest(source, of, (whole,), at, first, generator.outer)
    assert isinstance(of.type, ArrayType)
    kept = [(name, Column(name, known.type)) for known in node.schema if (name := known.name) != whole]
    parts = [
        (name, field(Column(whole, of.type.element), known, None)) for name, known in zip(values, fields, strict=True)
    ]
    return Project(node, (*kept, *parts)), shown


def _fields(generator: Generator, of: Expr) -> list[str] | None:
    """Return the fields that become columns: of inline, and of UNNEST if several columns are named for a STRUCT."""
    element = of.type.element if isinstance(of.type, ArrayType) else None
    if not isinstance(element, StructType):
        if generator.function.startswith("inline"):
            raise TypeFault(f"inline takes an ARRAY of STRUCTs, not {of.type.value}", span=place(generator.node))
        return None
    known = [name for name, _ in element.fields]
    named = len(generator.columns) - generator.has_place
    expands = generator.function.startswith("inline") or (generator.function == "unnest" and named == len(known) > 1)
    return known if expands else None


def _names(generator: Generator, of: Expr) -> list[str]:
    """Return the names of the new columns, in the order written."""
    fields = _fields(generator, of)
    values = fields or (["key", "value"] if isinstance(of.type, MapType) else [_single(generator)])
    if generator.has_place:
        values = ["pos", *values] if generator.function.startswith("pos") else [*values, "ordinality"]
    if not generator.columns:
        return values
    if len(generator.columns) != len(values):
        raise SyntaxFault(
            f"{generator.function} gives {_count(len(values))}, and {len(generator.columns)} are named",
            span=place(generator.node),
            hint=f"name {_count(len(values))}, such as AS u({', '.join(f'c{i}' for i, _ in enumerate(values, 1))})",
        )
    for name in generator.columns:
        if name.startswith("__"):
            raise NameFault(f"{name!r}: names that begin with '__' are reserved", span=place(generator.node))
    if len({name.lower() for name in generator.columns}) < len(values):
        raise NameFault("two columns have the same name", span=place(generator.node))
    return list(generator.columns)


def _count(number: int) -> str:
    return f"{number} column{'s' if number > 1 else ''}"


def _single(generator: Generator) -> str:
    """Return the name of a column that has none: Spark's, or that of the item, as in other systems."""
    return generator.alias or "unnest" if generator.function == "unnest" else "col"
