"""From an event expression to the nodes that detect it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import InternalError
from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Mode, operands, primitives, reaches
from headrace.model.expressions.expression import Expr, columns
from headrace.operators.events import between, combining
from headrace.operators.events.conditions import Links, Parts, Test
from headrace.operators.events.node import Leaf, Node, Setting
from headrace.operators.events.repeating import RepetitionNode
from headrace.operators.events.selection import Keeping


def compile_event(event: Event, context: Context, parts: Parts, conditions: Sequence[Expr]) -> tuple[Node, int]:
    """Return the node of an expression and how many stores it and those below it need.

    Each condition is tested at the lowest node that covers it.
    """
    compiler = _Compiler(context, parts)
    node, unplaced = compiler.compile(event, None, list(conditions))
    if unplaced:
        raise InternalError(f"conditions name parts that the event does not have: {unplaced}")
    return node, compiler.stores


class _Compiler:
    def __init__(self, context: Context, parts: Parts) -> None:
        self.context, self.parts = context, parts
        self.stores = 0

    def compile(self, event: Event, span: int | None, conditions: list[Expr]) -> tuple[Node, list[Expr]]:
        """Return the node of an event that may last `span`, and the conditions that were for others."""
        if isinstance(event, events.Primitive):
            return Leaf(self.parts.names.index(event.name)), conditions
        spans = reaches(event, span)
        if isinstance(event, events.Within | events.Alias):
            return self.compile(event.event, spans[0], conditions)
        below: list[Node] = []
        for operand, reach in zip(operands(event), spans, strict=True):
            node, conditions = self.compile(operand, reach, conditions)
            below.append(node)
        own = frozenset(part.name for part in primitives(event))
        mine = [term for term in conditions if _named(term) <= own]
        apart = _apart(event)
        blocks = [term for term in mine if _named(term) & apart]
        setting = Setting(
            self.context.mode,
            self.context.point,
            span,
            tuple(self._keeping(event, place, operand, span) for place, operand in enumerate(operands(event))),
            Test(self.parts, [term for term in mine if term not in blocks]),
            Test(self.parts, blocks),
        )
        made = (
            RepetitionNode(event.counts, self._links(event), setting, below, self.stores)
            if isinstance(event, events.Repetition)
            else _node(event, setting, below, self.stores)
        )
        self.stores += made.stores
        return made, [term for term in conditions if term not in mine]

    def _links(self, event: events.Repetition) -> list[Links | None]:
        """Return for each middle the conditions between its tuples."""
        return [
            Links(self.parts, self.parts.names.index(middle.name), links)
            if links and isinstance(middle, events.Primitive)
            else None
            for middle, links in zip(event.middles, event.links or ((),) * len(event.middles), strict=True)
        ]

    def _keeping(self, event: Event, place: int, operand: Event, span: int | None) -> Keeping:
        """Return what is kept of an operand; only one that begins something is kept once where the latest counts."""
        repeats = isinstance(event, events.Repetition) and event.start is None
        begins = (place == 0 and not repeats) or isinstance(event, events.And | events.AnyOf)
        latest = begins and self.context.mode in (Mode.RECENT, Mode.PROXIMAL)
        own = self.context.kept_of(operand)
        divided: list[Event] = [*([operand] if isinstance(operand, events.Alias) else []), *primitives(operand)]
        by = [self.parts.by(kept) for part in divided if (kept := self.context.kept_of(part)) is not None]
        count = own.keep if own is not None and own.keep is not None else 1 if latest else None
        return Keeping(
            count, tuple(column for columns_ in by for column in columns_), None if own is None else own.age, span
        )


def _node(event: Event, setting: Setting, below: Sequence[Node], base: int) -> Node:
    match event:
        case events.Or():
            return combining.OrNode(setting, below, base)
        case events.And():
            return combining.AndNode(setting, below, base)
        case events.Sequence():
            return combining.SequenceNode(setting, below, base)
        case events.Not():
            return between.NotNode(setting, below, base)
        case events.Absent(span=length):
            return between.AbsentNode(length, setting, below, base)
        case events.AnyOf(count=count):
            return combining.AnyNode(count, setting, below, base)
        case events.Times(count=count):
            return combining.TimesNode(count, setting, below, base)
        case events.Aperiodic():
            return between.AperiodicNode(setting, below, base)
        case events.AperiodicStar():
            return between.AperiodicStarNode(setting, below, base)
        case events.Periodic(span=length):
            return between.PeriodicNode(length, setting, below, base)
        case events.PeriodicStar(span=length):
            return between.PeriodicStarNode(length, setting, below, base)
        case events.Plus(span=length):
            return between.PlusNode(length, setting, below, base)
        case events.Primitive() | events.Within() | events.Alias() | events.Repetition():
            raise InternalError(f"{type(event).__name__} has no node of its own")


def _apart(event: Event) -> frozenset[str]:
    """Return the parts that prevent, fill or end an occurrence, if a condition is on one of them."""
    match event:
        case (
            events.Not(middle=other)
            | events.Absent(middle=other)
            | events.AperiodicStar(middle=other)
            | events.Aperiodic(end=other)
            | events.Periodic(end=other)
        ):
            return frozenset(part.name for part in primitives(other))
        case events.Repetition(middles=middles):
            return frozenset(part.name for middle in middles for part in primitives(middle))
        case _:
            return frozenset()


def _named(term: Expr) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in columns(term))
