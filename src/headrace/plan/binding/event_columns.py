"""The SELECT list of a complex event: columns of its parts, aggregates over the tuples of a part, and expressions."""

from __future__ import annotations

from msgspec.structs import replace
from sqlglot import exp

from headrace.catalog.catalog import Catalog
from headrace.errors import NotSupported, SyntaxFault, TypeFault
from headrace.language.syntax.statements import Detection
from headrace.model.events.output import Aggregated, Output, Pick, Started
from headrace.model.events.rewrite import own_names
from headrace.model.expressions.expression import Column, Expr, columns, substitute
from headrace.model.expressions.functions import AGGREGATES, COMPUTED_BY
from headrace.model.schema import TS
from headrace.model.types import DataType, Type
from headrace.model.window import AggregateCall
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.item_name import item_name
from headrace.plan.binding.expressions.scope import Scope, unique
from headrace.plan.binding.span import place
from headrace.plan.nodes import Detect, Node, Project

#: The column with the start of an occurrence of a complex event.
EVENT_START = "event_start"
_HINT = "write COUNT(b), SUM(b.x), AVG, MIN, MAX, FIRST, LAST or ARRAY_AGG of one part"


def select_columns(detection: Detection, detect: Detect, scope: Scope, catalog: Catalog) -> Node:
    """Return a detection with the columns of its SELECT list, and its start, which other events need."""
    chosen = _Chosen(detection, detect, scope, catalog)
    taken: set[str] = {EVENT_START}
    items: list[tuple[str, Expr]] = []
    for item in detection.items:
        if isinstance(item, exp.Star):
            items += [
                (unique(output.name, taken), chosen.output(output))
                for output in detect.outputs
                if not isinstance(output, Started)
            ]
            continue
        value = item.this if isinstance(item, exp.Alias) else item
        expr = chosen.bind(value)
        if expr.type is Type.NULL:
            raise TypeFault("the type of NULL is not known", span=place(item), hint="write CAST(NULL AS STRING)")
        name = item.alias if isinstance(item, exp.Alias) else item_name(value)
        if name.startswith("__"):
            raise SyntaxFault(f"{name!r}: names that begin with '__' are reserved", span=place(item))
        if name.lower() != EVENT_START or expr != chosen.start:
            items.append((unique(name, taken), expr))
    below = replace(detect, outputs=(*chosen.outputs, Started(EVENT_START)))
    return Project(below, (*items, (EVENT_START, chosen.start)))


class _Chosen:
    """Binds the items of a SELECT list, and collects what the detection must show for them."""

    def __init__(self, detection: Detection, detect: Detect, scope: Scope, catalog: Catalog) -> None:
        self._names = {part.alias.text.lower(): part for part in detection.parts}
        self._schemas = {part.alias.text: node.schema for part, node in zip(detection.parts, detect.parts, strict=True)}
        self._inner = ExpressionBinder(scope, catalog, "inside an aggregate of an event")
        self.start = Column(EVENT_START, Type.TIMESTAMP)
        self._binder = ExpressionBinder(
            scope, catalog, "in the SELECT list of an event", column=self._column, collect=self._collect
        )
        self._taken: set[str] = {EVENT_START}
        self._made: dict[Output, Column] = {}
        self._types = {output.name: field.type for output, field in zip(detect.outputs, detect.schema, strict=True)}

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(self._made)

    def bind(self, node: exp.Expr) -> Expr:
        """Return an expression over the columns of the detection."""
        expr = self._binder.bind(node)
        picked = {name: self._picked(name) for name in columns(expr) if "." in name}
        return substitute(expr, picked)

    def output(self, output: Output) -> Column:
        """Show a column under a name of its own."""
        return self._show(output, Column(unique(output.name, self._taken), self._types[output.name]))

    def _picked(self, qualified: str) -> Column:
        part, _, column = qualified.partition(".")
        if column == TS:
            return self._shown_aggregate("last", part, Column(TS, Type.BIGINT), Type.BIGINT)
        field = self._schemas[part].find(column)
        assert field is not None, f"no column {column!r} in {part}"
        for output, shown in self._made.items():
            if isinstance(output, Pick) and (output.part, output.column) == (part, column):
                return shown
        name = unique(column, self._taken)
        return self._show(Pick(name, part, column), Column(name, field.type))

    def _show(self, output: Output, column: Column) -> Column:
        return self._made.setdefault(replace(output, name=column.name), column)

    def _column(self, node: exp.Column) -> Expr | None:
        return self.start if not node.table and node.name.lower() == EVENT_START else None

    def _collect(self, name: str, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Filter):
            raise NotSupported("an aggregate of an event cannot have FILTER", span=place(node), hint=_HINT)
        entry = AGGREGATES.get(name)
        if entry is None or entry.most != 1 or name in ("median", "mode"):
            raise NotSupported(
                f"{node.name} is not supported in the SELECT list of an event", span=place(node), hint=_HINT
            )
        args = node.expressions
        if len(args) != 1 or isinstance(args[0], exp.Star | exp.Distinct):
            raise TypeFault(f"{node.name} takes a part of the event or a value of it", span=place(node), hint=_HINT)
        part = self._part(args[0])
        if part is not None and name == "count":
            return self._aggregated(name, part, None, node)
        arg = self._inner.bind(self._whole(part) if part is not None else args[0])
        parts = {column.partition(".")[0] for column in columns(arg)}
        if len(parts) != 1:
            raise TypeFault(f"{node.name} must be of one part of the event", span=place(node), hint=_HINT)
        return self._aggregated(name, parts.pop(), own_names(arg), node)

    def _part(self, arg: exp.Expr) -> str | None:
        """Return the part that an argument names as a whole."""
        if not isinstance(arg, exp.Column) or arg.table:
            return None
        part = self._names.get(arg.name.lower())
        return None if part is None else part.alias.text

    def _whole(self, part: str) -> exp.Expr:
        """Write the tuples of a part as a STRUCT of its columns."""
        pairs: list[exp.Expr] = []
        for field in self._schemas[part]:
            pairs += [exp.Literal.string(field.name), exp.column(field.name, part, quoted=True)]
        return exp.Anonymous(this="named_struct", expressions=pairs)

    def _aggregated(self, name: str, part: str, arg: Expr | None, node: exp.Expr) -> Expr:
        type_ = AGGREGATES[name].typing([] if arg is None else [arg.type])
        if type_ is None:
            shown = "nothing" if arg is None else arg.type.value
            help_ = AGGREGATES[name].help
            raise TypeFault(f"{node.name} cannot take {shown}", span=place(node), hint=f"{name}: {help_}")
        return self._shown_aggregate(COMPUTED_BY.get(name, name), part, arg, type_)

    def _shown_aggregate(self, function: str, part: str, arg: Expr | None, type_: DataType) -> Column:
        for output, column in self._made.items():
            known = (output.part, output.call.function, output.call.arg) if isinstance(output, Aggregated) else None
            if known == (part, function, arg):
                return column
        name = unique(function, self._taken)
        return self._show(Aggregated(name, part, AggregateCall(name, function, arg, type_)), Column(name, type_))
