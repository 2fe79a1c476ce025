"""What nobody needs in a running graph: guards on arcs that drop it, until a bound says that no more of it can come.

A guard drops tuples, never promises. What an operator keeps of it is purged when the guard is in place. Once something was purged, or sources were
told, the guard must stay; one that only drops results may go at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from headrace.engine.network import Network
from headrace.graph.feedback import Respond, Spread, arcs_of, facts_of, spread_from, tap_of
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between
from headrace.model.patterns.pattern import Pattern, covers, matches
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.feedback.known_facts import NO_FACTS, Facts, until
from headrace.operators.feedback.response import respond
from headrace.operators.feedback.time_columns import Clock
from headrace.operators.operator import Operator
from headrace.operators.specs import PaneAggregate
from headrace.operators.windows.panes import PANE, pane_length

#: Guards on one arc at most: of those that follow from what was told, and of groups that were found to match.
MOST_GUARDS = 128
MOST_GROUPS = 64
#: Desires at one source at most; the newest count, for an impatient join has new ones with every page.
MOST_WISHES = 16
_MOST_ENDED = 1024


class Guard(Struct):
    """Drops matching tuples on an arc; goes when a bound reaches `until`. `saved` counts what it dropped.

    It was `told` from outside, it follows from such a one (`derived`), or from a `group` that was found to match.
    """

    reader: VertexId
    port: int
    pattern: Pattern
    until: int | None
    kind: Literal["told", "derived", "group"]
    firm: bool
    saved: int = 0

    @property
    def arc(self) -> Arc:
        return self.reader, self.port

    def __str__(self) -> str:
        return f"{self.reader}.{self.port}: not [{self.pattern}], {self.saved} saved"


class Assumptions:
    """The guards of a running graph, by arc, and what follows from them."""

    def __init__(
        self,
        network: Network,
        operators: Mapping[VertexId, Operator],
        bounds: Mapping[VertexId, int],
        answer: Respond = respond,
    ) -> None:
        self._network, self._operators, self._bounds = network, operators, bounds
        self.answer = answer  # how operators respond
        self.by_arc: dict[Arc, list[Guard]] = {}
        self.watches: dict[VertexId, list[Pattern]] = {}
        self.relayed: dict[VertexId, list[Feedback]] = {}  # what sources may leave out
        self.ended: deque[Guard] = deque(maxlen=_MOST_ENDED)  # since somebody looked
        self.purged = 0
        self._graph, self._taps = Graph(), frozenset[VertexId]()
        self._facts: dict[VertexId, Facts] = {}
        self._given: Mapping[VertexId, Facts] = {}

    def know(self, facts: Mapping[VertexId, Facts]) -> None:
        """Take over what is known of the vertices, in other graphs, from which this one gets its input; before `use`."""
        self._given, self._facts = facts, {}

    def use(self, graph: Graph, taps: frozenset[VertexId]) -> None:
        """Go on with another graph: what was told stays, what follows from it is found anew, for there may be other readers now."""
        self._graph, self._taps, self._facts = graph, taps, {}
        if not self.by_arc:
            return
        old = [guard for guards in self.by_arc.values() for guard in guards]
        self._clear()
        for guard in old:
            # a group that was given up stays so, or it would begin again with what comes now
            if guard.kind != "derived" and self.exists(guard.arc):
                self._take((guard.arc,), guard.pattern, guard.kind)
        saved = {(guard.arc, guard.pattern): guard.saved for guard in old}
        for guards in self.by_arc.values():
            for guard in guards:
                guard.saved = saved.get((guard.arc, guard.pattern), 0)

    def hear(self, vertex: VertexId, wanted: Pattern) -> bool:
        """Nobody needs what matches of a vertex's output (of an end: what reaches it); False if nothing is done about it."""
        self._forget_relayed()
        return self._take(arcs_of(self._graph, vertex, self._taps), wanted, "told")

    def hear_reader(self, arc: Arc, wanted: Pattern) -> bool:
        """An operator does not need this of an input."""
        return self._take((arc,), wanted, "group")

    def screen(self, arc: Arc, page: Page) -> Page:
        """What is left of a page."""
        rows = page.rows
        for guard in self.by_arc.get(arc, ()):
            dropped = matches(guard.pattern, rows)
            count = int(dropped.sum())
            if count:
                guard.saved += count
                rows = rows.filter(~dropped)
        return page if rows is page.rows else Page(rows)

    def let_in(self, arc: Arc, element: Element, *, tells_time: bool) -> tuple[Element, int]:
        """What an operator gets of an element, and the bound that its last tuple stood for, if that was dropped where tuples tell the time."""
        match element:
            case Punctuation():
                self.expire(arc, element.bound)
                return element, BEGIN
            case Page():
                left = self.screen(arc, element)
                if left is element or not tells_time or (len(left) and left.rows[TS][-1] == element.rows[TS][-1]):
                    return left, BEGIN
                return left, int(element.rows[TS][-1])

    def let_out(self, arc: Arc, pages: Sequence[Page], bound: int) -> Sequence[Page]:
        """What the outside gets of pages that were promised to be followed by nothing below a bound."""
        if arc not in self.by_arc:
            return pages
        pages = [page for page in (self.screen(arc, page) for page in pages) if len(page)]
        self.expire(arc, bound)
        return pages

    def expire(self, arc: Arc, bound: int) -> None:
        """Drop the guards of which no tuple can come any more."""
        guards = self.by_arc[arc]
        left = [guard for guard in guards if guard.until is None or guard.until > bound]
        if len(left) < len(guards):
            self.ended += [guard for guard in guards if guard.until is not None and guard.until <= bound]
            if left:
                self.by_arc[arc] = left
            else:
                del self.by_arc[arc]

    def look(self, vertex: VertexId) -> None:
        """Find the groups that match by now and will for ever."""
        facts = self._known(vertex)
        alive = [
            wanted
            for wanted in self.watches[vertex]
            if (end := until(wanted, facts)) is None or end > self._bounds[vertex]
        ]
        for wanted in alive:
            for group in self._operators[vertex].settled(wanted):
                self._take(((vertex, 0),), group, "group")
        if alive:
            self.watches[vertex] = alive
        else:
            del self.watches[vertex]

    def due(self) -> dict[VertexId, int]:
        """For each reader with guards the least bound that would end one."""
        found: dict[VertexId, int] = {}
        for (reader, _), guards in self.by_arc.items():
            for guard in guards:
                if guard.until is not None and reader in self._operators:
                    found[reader] = min(guard.until, found.get(reader, guard.until))
        return found

    def take_purged(self) -> int:
        """How many rows of state went since the last call."""
        purged, self.purged = self.purged, 0
        return purged

    def take_ended(self) -> list[Guard]:
        """Guards that have gone since the last call."""
        ended = list(self.ended)
        self.ended.clear()
        return ended

    def forget_wishes(self) -> None:
        """What sources were to give first is said anew."""
        left = {name: [one for one in said if one.intent is not Intent.DESIRED] for name, said in self.relayed.items()}
        self.relayed.clear()
        self.relayed.update({name: said for name, said in left.items() if said})

    def note_wishes(self, found: Spread) -> None:
        """Sources are to give this first."""
        for name, patterns in found.of_sources(self._graph).items():
            said = self.relayed.setdefault(name, [])
            said += [wish for mine in patterns if (wish := Feedback(Intent.DESIRED, mine)) not in said]
            for old in [one for one in said if one.intent is Intent.DESIRED][:-MOST_WISHES]:
                said.remove(old)

    def guards(self) -> list[Guard]:
        """All guards, as values that can be kept."""
        return [guard for guards in self.by_arc.values() for guard in guards]

    def restore(self, guards: Iterable[Guard]) -> None:
        """Go on with guards that were kept: nothing is purged again, and sources need not be told again."""
        self._clear()
        for guard in guards:
            if self.exists(guard.arc):
                self._put(guard)
        for guard in self.guards():
            if guard.kind != "derived":
                known = {
                    arc: [one.pattern for one in found if one.kind != "derived" and one is not guard]
                    for arc, found in self.by_arc.items()
                }
                self._note(self._spread((guard.arc,), guard.pattern, known))

    def _take(self, arcs: Sequence[Arc], wanted: Pattern, kind: Literal["told", "group"]) -> bool:
        """Put guards in place, nearest to the sender first, then forget what is kept, then tell the sources."""
        found = self._spread(arcs, wanted)
        if kind == "told" and not all(self._make_room(arc, kind) for arc, _ in found.guards):
            # others may heed it: what leaves here is dropped in any case
            found = Spread(tuple((arc, mine) for arc, mine in found.guards if arc in arcs and mine == wanted))
        if not found.guards or not all(self._make_room(arc, kind) for arc, _ in found.guards):
            return False
        firm = kind == "group" or len(found.guards) > len(arcs)
        for arc, mine in found.guards:
            is_own = arc in arcs and mine == wanted
            self._put(Guard(*arc, mine, self._end(arc, mine), kind if is_own else "derived", firm))
        for (reader, port), mine in found.guards:
            if reader in self._operators:
                self.purged += self._operators[reader].purge(port, mine)
            self._raise_register(reader, port, mine)
        self._note(found)
        return True

    def _note(self, found: Spread) -> None:
        for vertex, wanted in found.watches:
            watches = self.watches.setdefault(vertex, [])
            if wanted not in watches:
                watches.append(wanted)
        for source, patterns in found.of_sources(self._graph).items():
            for wanted in patterns:
                said = self.relayed.get(source, [])
                if not any(one.intent is Intent.ASSUMED and covers(one.pattern, wanted) for one in said):
                    left = [one for one in said if one.intent is not Intent.ASSUMED or not covers(wanted, one.pattern)]
                    self.relayed[source] = [*left, Feedback(Intent.ASSUMED, wanted)]

    def _put(self, guard: Guard) -> None:
        """Add a guard in place of those that it covers."""
        before = self.by_arc.get(guard.arc, [])
        covered = [one for one in before if one.kind == guard.kind and covers(guard.pattern, one.pattern)]
        guard.saved += sum(one.saved for one in covered)
        guard.firm |= any(one.firm for one in covered)
        self.by_arc[guard.arc] = [*(one for one in before if one not in covered), guard]

    def _make_room(self, arc: Arc, kind: Literal["told", "group"]) -> bool:
        guards = self.by_arc.get(arc, [])
        groups = sum(guard.kind == "group" for guard in guards)
        if kind == "group":
            return groups < MOST_GROUPS
        if len(guards) - groups < MOST_GUARDS:
            return True
        loose = next((guard for guard in guards if not guard.firm), None)
        if loose is None:
            return False
        guards.remove(loose)
        return True

    def _raise_register(self, reader: VertexId, port: int, wanted: Pattern) -> None:
        """A merging vertex need not wait for what it would drop: if all before a time is assumed, its register is as far as that."""
        found, match = self._network.registers.get(reader), wanted.get(TS)
        if (
            found is None
            or len(wanted.terms) > 1
            or not isinstance(match, Between)
            or match.low is not None
            or match.but
        ):
            return
        if isinstance(match.high, int):
            found.write(port, match.high + (not match.open_high))

    def _end(self, arc: Arc, wanted: Pattern) -> int | None:
        """When a guard goes. A register that was raised says nothing about what really came, so there it must have been passed."""
        facts, reader = self._known(self.origin(arc)), self._graph.by_id().get(arc[0])
        if reader is not None and isinstance(reader.spec, PaneAggregate):
            facts = Facts(facts.holds, (*facts.clocks, Clock(PANE, 0, pane_length(reader.spec.window) - 1)))
        end = until(wanted, facts)
        return end if end is None or arc[0] not in self._network.registers else end + 1

    def _spread(
        self, arcs: Sequence[Arc], wanted: Pattern, known: Mapping[Arc, Sequence[Pattern]] | None = None
    ) -> Spread:
        if known is None:
            known = {arc: [guard.pattern for guard in guards] for arc, guards in self.by_arc.items()}
        return spread_from(
            self._graph, arcs, wanted, known=known, taps=self._taps, facts=self.facts(), answer=self.answer
        )

    def facts(self) -> Mapping[VertexId, Facts]:
        """What is known of every vertex's output."""
        if not self._facts:
            self._facts = facts_of(self._graph, given=self._given)
        return self._facts

    def _known(self, vertex: VertexId) -> Facts:
        return self.facts().get(vertex, NO_FACTS)

    def origin(self, arc: Arc) -> VertexId:
        """The vertex whose output is read on an arc."""
        vertex = self._graph.by_id().get(arc[0])
        return arc[0].removeprefix(tap_of("")) if vertex is None else vertex.inputs[arc[1]]

    def exists(self, arc: Arc) -> bool:
        """Whether anybody reads there."""
        vertex = self._graph.by_id().get(arc[0])
        return arc[0].removeprefix(tap_of("")) in self._taps if vertex is None else arc[1] < len(vertex.inputs)

    def _clear(self) -> None:
        self.by_arc.clear()
        self.watches.clear()
        self.relayed.clear()

    def _forget_relayed(self) -> None:
        """What sources were told and is over."""
        for source, said in list(self.relayed.items()):
            facts = self._known(source)
            self.relayed[source] = [
                one for one in said if (end := until(one.pattern, facts)) is None or end > self._bounds.get(source, end)
            ]


def guards_of(part: Graph, taps: Collection[VertexId], found: Spread, facts: Mapping[VertexId, Facts]) -> list[Guard]:
    """The guards of a part of a graph, such as its ingest, that follow from what was spread over the whole; for `Assumptions.restore`."""
    vertices = part.by_id()
    inner = [(arc, wanted, vertices[arc[0]].inputs[arc[1]]) for arc, wanted in found.guards if arc[0] in vertices]
    guards = [Guard(*arc, wanted, until(wanted, facts[origin]), "derived", True) for arc, wanted, origin in inner]
    tapped = [(name, wanted) for name, wanted in found.unneeded if name in taps]
    return guards + [
        Guard(tap_of(name), 0, wanted, until(wanted, facts[name]), "derived", True) for name, wanted in tapped
    ]
