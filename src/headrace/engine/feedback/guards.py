"""Guards on arcs: each drops the tuples that no reader needs, until a bound says that no more of them can come.

A guard drops tuples, never punctuation. Once it is in place, operators purge what they keep of such tuples. A guard
that led to a purge, or whose pattern was sent to sources, must stay; one that only drops results may go at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from headrace.engine.network import Network
from headrace.graph.feedback import Respond, Spread, arcs_of, invariants_of, spread_from, tap_of
from headrace.graph.graph import Arc, Graph, VertexId
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.completion import is_complete
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import Between
from headrace.model.patterns.pattern import Pattern, covers, matches
from headrace.model.schema import TS
from headrace.model.time import BEGIN
from headrace.operators.capabilities import purge, settled_in
from headrace.operators.feedback.invariants import NO_INVARIANTS, Invariants, in_time, until
from headrace.operators.feedback.response import respond
from headrace.operators.feedback.time_columns import Clock
from headrace.operators.operator import Operator
from headrace.operators.specs import PaneAggregate
from headrace.operators.windows.pane_times import PANE, pane_length

#: The most guards on one arc: given or derived ones, and those of groups that were found to match.
MAX_GUARDS = 128
MAX_GROUPS = 64
#: The most desires at one source; the newest ones count, as an impatient join has new ones with every page.
MAX_DESIRES = 16
_MAX_ENDED = 1024


class Guard(Struct):
    """A filter on an arc that drops matching tuples until a bound reaches `until`; `saved` counts them.

    It was `given` from outside, `derived` from another guard, or found by an operator for a `group`.
    """

    reader: VertexId
    port: int
    pattern: Pattern
    until: int | None
    kind: Literal["given", "derived", "group"]
    firm: bool
    saved: int = 0

    @property
    def arc(self) -> Arc:
        return self.reader, self.port

    def __str__(self) -> str:
        return f"{self.reader}.{self.port}: not [{self.pattern}], {self.saved} saved"


class Guards:
    """The guards of a running graph, by arc, and the patterns that they allow sources to leave out."""

    def __init__(
        self,
        network: Network,
        operators: Mapping[VertexId, Operator],
        bounds: Mapping[VertexId, int],
        answer: Respond = respond,
    ) -> None:
        self._network, self._operators, self._bounds = network, operators, bounds
        self.answer = answer  # the table of operators' responses
        self.by_arc: dict[Arc, list[Guard]] = {}
        self.watches: dict[VertexId, list[Pattern]] = {}  # patterns for which an operator may find groups
        self.relayed: dict[VertexId, list[Feedback]] = {}  # what sources may leave out
        self.ended: deque[Guard] = deque(maxlen=_MAX_ENDED)  # since `take_ended`
        self.purged = 0
        self._graph, self._taps = Graph(), frozenset[VertexId]()
        self._invariants: dict[VertexId, Invariants] = {}
        self._given: Mapping[VertexId, Invariants] = {}

    def use_invariants(self, invariants: Mapping[VertexId, Invariants]) -> None:
        """Set the invariants of vertices in other graphs from which input comes; call it before `use`."""
        self._given, self._invariants = invariants, {}

    def use(self, graph: Graph, taps: frozenset[VertexId]) -> None:
        """Change to another graph: given guards stay, derived ones are computed again, as the readers may be others."""
        self._graph, self._taps, self._invariants = graph, taps, {}
        if not self.by_arc:
            return
        old = [guard for guards in self.by_arc.values() for guard in guards]
        self._clear()
        for guard in old:
            # a group that was dropped stays so, or its aggregate would start again with the next tuple
            if guard.kind != "derived" and self.exists(guard.arc):
                self._take((guard.arc,), guard.pattern, guard.kind)
        saved = {(guard.arc, guard.pattern): guard.saved for guard in old}
        for guards in self.by_arc.values():
            for guard in guards:
                guard.saved = saved.get((guard.arc, guard.pattern), 0)

    def assume(self, vertex: VertexId, pattern: Pattern) -> bool:
        """Drop what matches of a vertex's output (of an end: its input), as no reader needs it; False if impossible."""
        self._forget_relayed()
        return self._take(arcs_of(self._graph, vertex, self._taps), pattern, "given")

    def assume_at(self, arc: Arc, pattern: Pattern) -> bool:
        """Drop what matches on an arc, as its reader does not need it."""
        return self._take((arc,), pattern, "group")

    def screen(self, arc: Arc, page: Page) -> Page:
        """Return the rest of a page that is read on an arc."""
        rows = page.rows
        for guard in self.by_arc.get(arc, ()):
            dropped = matches(guard.pattern, rows)
            count = int(dropped.sum())
            if count:
                guard.saved += count
                rows = rows.clear() if count == rows.height else rows.filter(~dropped)
        return page if rows is page.rows else Page(rows)

    def let_in(self, arc: Arc, element: Element, *, tells_time: bool) -> tuple[Element, int]:
        """Return what an operator gets of an element, and a bound in place of a last tuple that was dropped."""
        match element:
            case Punctuation():
                self.expire(arc, element.bound)
                return element, BEGIN
            case Completion():
                self.complete(arc, element)
                return element, BEGIN
            case Page():
                rest = self.screen(arc, element)
                if rest is element or not tells_time or (len(rest) and rest.rows[TS][-1] == element.rows[TS][-1]):
                    return rest, BEGIN
                return rest, int(element.rows[TS][-1])

    def let_out(self, arc: Arc, pages: Sequence[Page], bound: int) -> Sequence[Page]:
        """Return what leaves the graph of pages; nothing below the bound follows them."""
        if arc not in self.by_arc:
            return pages
        pages = [page for page in (self.screen(arc, page) for page in pages) if len(page)]
        self.expire(arc, bound)
        return pages

    def expire(self, arc: Arc, bound: int) -> None:
        """End the guards that no further tuple can match."""
        guards = self.by_arc[arc]
        alive = [guard for guard in guards if guard.until is None or guard.until > bound]
        if len(alive) < len(guards):
            self.ended += [guard for guard in guards if guard.until is not None and guard.until <= bound]
            if alive:
                self.by_arc[arc] = alive
            else:
                del self.by_arc[arc]

    def complete(self, arc: Arc, completion: Completion) -> None:
        """End the guards against keys that are complete: all tuples that they could match have come."""
        invariants = self._known(self.origin(arc))
        over = [guard for guard in self.by_arc[arc] if is_complete(in_time(guard.pattern, invariants), completion)]
        if over:
            self.ended += over
            self.by_arc[arc] = [guard for guard in self.by_arc[arc] if guard not in over]
            if not self.by_arc[arc]:
                del self.by_arc[arc]

    def find_groups(self, vertex: VertexId) -> None:
        """Guard against the groups of an operator that match a watched pattern now and will do so for ever."""
        invariants = self._known(vertex)
        alive = [
            pattern
            for pattern in self.watches[vertex]
            if (end := until(pattern, invariants)) is None or end > self._bounds[vertex]
        ]
        for pattern in alive:
            for group in settled_in(self._operators[vertex], pattern):
                self._take(((vertex, 0),), group, "group")
        if alive:
            self.watches[vertex] = alive
        else:
            del self.watches[vertex]

    def due(self) -> dict[VertexId, int]:
        """Return for each reader with guards the least bound that would end one."""
        least: dict[VertexId, int] = {}
        for (reader, _), guards in self.by_arc.items():
            for guard in guards:
                if guard.until is not None and reader in self._operators:
                    least[reader] = min(guard.until, least.get(reader, guard.until))
        return least

    def take_purged(self) -> int:
        """Return how many rows of state were purged since the last call."""
        purged, self.purged = self.purged, 0
        return purged

    def take_ended(self) -> list[Guard]:
        """Return the guards that ended since the last call."""
        ended = list(self.ended)
        self.ended.clear()
        return ended

    def forget_desires(self) -> None:
        """Remove all desires from what is relayed to sources."""
        others = {
            name: [relayed for relayed in feedback if relayed.intent is not Intent.DESIRED]
            for name, feedback in self.relayed.items()
        }
        self.relayed.clear()
        self.relayed.update({name: feedback for name, feedback in others.items() if feedback})

    def relay_desires(self, spread: Spread) -> None:
        """Ask sources for matching tuples first."""
        for name, patterns in spread.of_sources(self._graph).items():
            feedback = self.relayed.setdefault(name, [])
            feedback += [desire for mine in patterns if (desire := Feedback(Intent.DESIRED, mine)) not in feedback]
            for old in [relayed for relayed in feedback if relayed.intent is Intent.DESIRED][:-MAX_DESIRES]:
                feedback.remove(old)

    def in_force(self) -> list[Guard]:
        """Return all guards, as values that can be saved and given to `restore`."""
        return [guard for guards in self.by_arc.values() for guard in guards]

    def restore(self, guards: Iterable[Guard]) -> None:
        """Continue with saved guards, without purging state again or relaying anything to sources again."""
        self._clear()
        for guard in guards:
            if self.exists(guard.arc):
                self._put(guard)
        for guard in self.in_force():
            if guard.kind != "derived":
                known = {
                    arc: [other.pattern for other in here if other.kind != "derived" and other is not guard]
                    for arc, here in self.by_arc.items()
                }
                self._note(self._spread((guard.arc,), guard.pattern, known))

    def of_groups(self, readers: Collection[VertexId]) -> list[Guard]:
        """Return the guards of groups that these readers found to be settled; their tuples are needed nowhere."""
        return [guard for guard in self.in_force() if guard.kind == "group" and guard.reader in readers]

    def take_over(self, guards: Iterable[Guard]) -> None:
        """Guard against groups that were found to be settled where their tuples went before."""
        for guard in guards:
            if self.exists(guard.arc):
                self._put(Guard(*guard.arc, guard.pattern, guard.until, guard.kind, guard.firm))

    def _take(self, arcs: Sequence[Arc], pattern: Pattern, kind: Literal["given", "group"]) -> bool:
        """Put guards in place, nearest to the sender first, then purge state, then relay the pattern to sources."""
        spread = self._spread(arcs, pattern)
        if kind == "given" and not all(self._make_room(arc, kind) for arc, _ in spread.guards):
            # other buckets may have room for it, so what leaves here is dropped in any case
            spread = Spread(tuple((arc, mine) for arc, mine in spread.guards if arc in arcs and mine == pattern))
        if not spread.guards or not all(self._make_room(arc, kind) for arc, _ in spread.guards):
            return False
        firm = kind == "group" or len(spread.guards) > len(arcs)
        for arc, mine in spread.guards:
            is_own = arc in arcs and mine == pattern
            self._put(Guard(*arc, mine, self._end(arc, mine), kind if is_own else "derived", firm))
        for (reader, port), mine in spread.guards:
            if reader in self._operators:
                self.purged += purge(self._operators[reader], port, mine)
            self._raise_register(reader, port, mine)
        self._note(spread)
        return True

    def _note(self, spread: Spread) -> None:
        """Remember which operators to watch for groups, and what sources may leave out."""
        for vertex, pattern in spread.watches:
            watches = self.watches.setdefault(vertex, [])
            if pattern not in watches:
                watches.append(pattern)
        for source, patterns in spread.of_sources(self._graph).items():
            for pattern in patterns:
                feedback = self.relayed.get(source, [])
                if not any(other.intent is Intent.ASSUMED and covers(other.pattern, pattern) for other in feedback):
                    others = [
                        other
                        for other in feedback
                        if other.intent is not Intent.ASSUMED or not covers(pattern, other.pattern)
                    ]
                    self.relayed[source] = [*others, Feedback(Intent.ASSUMED, pattern)]

    def _put(self, guard: Guard) -> None:
        """Add a guard in place of those that it covers."""
        before = self.by_arc.get(guard.arc, [])
        covered = [other for other in before if other.kind == guard.kind and covers(guard.pattern, other.pattern)]
        guard.saved += sum(other.saved for other in covered)
        guard.firm |= any(other.firm for other in covered)
        self.by_arc[guard.arc] = [*(other for other in before if other not in covered), guard]

    def _make_room(self, arc: Arc, kind: Literal["given", "group"]) -> bool:
        """Return whether an arc can have one more guard; a guard that is not firm gives way."""
        guards = self.by_arc.get(arc, [])
        groups = sum(guard.kind == "group" for guard in guards)
        if kind == "group":
            return groups < MAX_GROUPS
        if len(guards) - groups < MAX_GUARDS:
            return True
        loose = next((guard for guard in guards if not guard.firm), None)
        if loose is None:
            return False
        guards.remove(loose)
        return True

    def _raise_register(self, reader: VertexId, port: int, pattern: Pattern) -> None:
        """Raise the register of a merging vertex to t if it drops everything below t: it need not wait for that."""
        registers, stamps = self._network.registers.get(reader), pattern.get(TS)
        if registers is None or len(pattern.terms) > 1 or not isinstance(stamps, Between):
            return
        if stamps.low is None and not stamps.but and isinstance(stamps.high, int):
            registers.write(port, stamps.high + (not stamps.open_high))

    def _end(self, arc: Arc, pattern: Pattern) -> int | None:
        """Return the bound that ends a guard; a register must have passed it, as feedback may have raised it."""
        invariants, reader = self._known(self.origin(arc)), self._graph.by_id().get(arc[0])
        if reader is not None and isinstance(reader.spec, PaneAggregate):
            invariants = Invariants(
                invariants.holds, (*invariants.clocks, Clock(PANE, 0, pane_length(reader.spec.window) - 1))
            )
        end = until(pattern, invariants)
        return end if end is None or arc[0] not in self._network.registers else end + 1

    def _spread(
        self, arcs: Sequence[Arc], pattern: Pattern, known: Mapping[Arc, Sequence[Pattern]] | None = None
    ) -> Spread:
        if known is None:
            known = {arc: [guard.pattern for guard in guards] for arc, guards in self.by_arc.items()}
        return spread_from(
            self._graph, arcs, pattern, known=known, taps=self._taps, invariants=self.invariants(), answer=self.answer
        )

    def invariants(self) -> Mapping[VertexId, Invariants]:
        """Return the invariants of every vertex's output."""
        if not self._invariants:
            self._invariants = invariants_of(self._graph, given=self._given)
        return self._invariants

    def _known(self, vertex: VertexId) -> Invariants:
        return self.invariants().get(vertex, NO_INVARIANTS)

    def origin(self, arc: Arc) -> VertexId:
        """Return the vertex whose output is read on an arc."""
        vertex = self._graph.by_id().get(arc[0])
        return arc[0].removeprefix(tap_of("")) if vertex is None else vertex.inputs[arc[1]]

    def exists(self, arc: Arc) -> bool:
        """Return whether the graph has an arc, or taps the vertex that it names."""
        vertex = self._graph.by_id().get(arc[0])
        return arc[0].removeprefix(tap_of("")) in self._taps if vertex is None else arc[1] < len(vertex.inputs)

    def _clear(self) -> None:
        self.by_arc.clear()
        self.watches.clear()
        self.relayed.clear()

    def _forget_relayed(self) -> None:
        """Remove what is over from what is relayed to sources."""
        for source, feedback in list(self.relayed.items()):
            invariants = self._known(source)
            self.relayed[source] = [
                relayed
                for relayed in feedback
                if (end := until(relayed.pattern, invariants)) is None or end > self._bounds.get(source, end)
            ]


def guards_of(
    part: Graph, taps: Collection[VertexId], spread: Spread, invariants: Mapping[VertexId, Invariants]
) -> list[Guard]:
    """Return the guards of a part of a graph, such as its ingest, after feedback was spread over the whole graph."""
    vertices = part.by_id()
    inner = [(arc, pattern, vertices[arc[0]].inputs[arc[1]]) for arc, pattern in spread.guards if arc[0] in vertices]
    guards = [
        Guard(*arc, pattern, until(pattern, invariants[origin]), "derived", True) for arc, pattern, origin in inner
    ]
    tapped = [(name, pattern) for name, pattern in spread.unneeded if name in taps]
    return guards + [
        Guard(tap_of(name), 0, pattern, until(pattern, invariants[name]), "derived", True) for name, pattern in tapped
    ]
