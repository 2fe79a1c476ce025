"""Join graphs: the numbers from which the cost of a join of several streams follows.

A set of streams is an int whose bits are ports. For a set X, `held` is the number of combinations that are in their
windows together, and `rate` the number of new ones per second. Both depend on X alone, never on the tree by which the
streams are joined; so costs are sums over the branches of a tree.

Rates and rows that are held are given per stream, because windows may differ and may have no end. Selectivities are
shares of the cross product. Within a key class nothing is assumed to be independent: if three streams share a skewed
key, the product of the selectivities of pairs is wrong by the skew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

#: Stands for 0, so that ratios exist also where nothing is held and nothing matches.
TINY = 1e-12


class Stream(Struct, frozen=True):
    """An input of a join: rows per second, rows that are held, bytes of a row, pages per second."""

    rate: float
    held: float
    width: float = 0.0
    pages: float = 0.0


class Keys(Struct, frozen=True):
    """Some keys of a class that are alike: how many, and the share of each port's rows that one of them has."""

    count: float
    shares: tuple[float, ...]


class KeyClass(Struct, frozen=True):
    """Columns of several ports that must be equal, and the keys that occur in them."""

    ports: tuple[int, ...]
    keys: tuple[Keys, ...]

    def selectivity(self, ports: int) -> float:
        """Return the share of combinations of rows of these ports that have the same key."""
        places = [place for place, port in enumerate(self.ports) if ports >> port & 1]
        if len(places) < 2:
            return 1.0
        return sum(keys.count * math.prod(keys.shares[place] for place in places) for keys in self.keys)


class Term(Struct, frozen=True):
    """A condition over some ports that is no key: it is tested on combinations that were found."""

    ports: int
    selectivity: float


class Condition(Struct, frozen=True):
    """Conditions on one port that take long: the share of rows that passes, and the seconds that a row takes."""

    port: int
    selectivity: float
    price: float


class JoinGraph(Struct, frozen=True):
    """Streams, by port, and what relates them; of streams with conditions the tuples that pass.

    In a grid, `grid` has the number of cells along each class. Rates and rows count a tuple once, with all its copies.
    """

    streams: tuple[Stream, ...]
    classes: tuple[KeyClass, ...] = ()
    terms: tuple[Term, ...] = ()
    conditions: tuple[Condition, ...] = ()
    grid: tuple[int, ...] = ()

    def testing_late(self, late: Collection[int]) -> JoinGraph:
        """Return the graph of a join that tests the conditions of these ports on results: it holds all tuples."""
        passing = {each.port: max(each.selectivity, TINY) for each in self.conditions if each.port in late}
        streams = tuple(
            replace(stream, rate=stream.rate / passing[port], held=stream.held / passing[port])
            if port in passing
            else stream
            for port, stream in enumerate(self.streams)
        )
        return replace(self, streams=streams, conditions=())

    @property
    def everything(self) -> int:
        """Return the set of all ports."""
        return (1 << len(self.streams)) - 1


def uniform(ports: Iterable[int], distinct: float) -> KeyClass:
    """Return a class of so many keys that are equally frequent in all ports."""
    places = tuple(ports)
    return KeyClass(places, (Keys(distinct, (1.0 / distinct,) * len(places)),))


def port_set(ports: Iterable[int]) -> int:
    """Return the set of these ports."""
    return sum(1 << port for port in ports)


def members(ports: int) -> Iterator[int]:
    """Yield the ports of a set, the least first."""
    while ports:
        least = ports & -ports
        yield least.bit_length() - 1
        ports ^= least


class Estimates:
    """Sizes and rates of sets of streams; each is computed once."""

    def __init__(self, graph: JoinGraph) -> None:
        self.graph = graph
        self._classes = [(port_set(key_class.ports), key_class) for key_class in graph.classes]
        self._classes_of: dict[int, int] = {}
        self._keyed: dict[tuple[int, int], float] = {}
        self._selectivity: dict[int, float] = {}
        self._product: dict[int, float] = {}
        self._held: dict[int, float] = {}
        self._rate: dict[int, float] = {}
        self._width: dict[int, float] = {}
        self._pages: dict[int, float] = {}

    def keyed(self, ports: int, key: int) -> float:
        """Return the share of the cross product that agrees in these key classes, given as bits."""
        if (value := self._keyed.get((ports, key))) is None:
            classes = (self._classes[place] for place in members(key))
            shares = (max(key_class.selectivity(ports & whole), TINY) for whole, key_class in classes)
            value = self._keyed[ports, key] = math.prod(shares)
        return value

    def selectivity(self, ports: int) -> float:
        """Return the share of the cross product that meets all conditions within the set."""
        if (value := self._selectivity.get(ports)) is None:
            terms = (max(term.selectivity, TINY) for term in self.graph.terms if not term.ports & ~ports)
            value = self._selectivity[ports] = self.keyed(ports, self.classes_of(ports)) * math.prod(terms)
        return value

    def product(self, ports: int) -> float:
        """Return the number of combinations of rows that are held, whether they meet conditions or not."""
        if (value := self._product.get(ports)) is None:
            value = math.prod(max(self.graph.streams[port].held, TINY) for port in members(ports))
            self._product[ports] = value
        return value

    def held(self, ports: int) -> float:
        """Return the number of combinations in the windows: N(X)."""
        if (value := self._held.get(ports)) is None:
            value = self._held[ports] = self.selectivity(ports) * self.product(ports)
        return value

    def rate(self, ports: int) -> float:
        """Return the number of new combinations per second: R(X)."""
        if (value := self._rate.get(ports)) is None:
            pairs = (self.graph.streams[port].rate * self.product(ports & ~(1 << port)) for port in members(ports))
            value = self._rate[ports] = self.selectivity(ports) * sum(pairs)
        return value

    def width(self, ports: int) -> float:
        """Return the bytes of the columns of a combination."""
        if (value := self._width.get(ports)) is None:
            value = self._width[ports] = sum(self.graph.streams[port].width for port in members(ports))
        return value

    def pages(self, ports: int) -> float:
        """Return the number of pages per second that bring new combinations."""
        if (value := self._pages.get(ports)) is None:
            value = self._pages[ports] = sum(self.graph.streams[port].pages for port in members(ports))
        return value

    def candidates(self, rows: int, other: int, key: int) -> float:
        """Return how many combinations of `other` agree in a key with one combination of `rows`, on average."""
        before = self.keyed(rows, key) * self.keyed(other, key)
        return self.keyed(rows | other, key) / before * self.held(other)

    def matches(self, rows: int, other: int) -> float:
        """Return how many combinations of `other` meet all conditions with one combination of `rows`, on average."""
        return self.held(rows | other) / self.held(rows)

    def shared(self, rows: int, other: int) -> int:
        """Return the key classes, as bits, by which combinations of `rows` can search those of `other`."""
        return self.classes_of(rows) & self.classes_of(other)

    def classes_of(self, ports: int) -> int:
        """Return the key classes, as bits, of which a set of streams has a column."""
        if (value := self._classes_of.get(ports)) is None:
            having = (1 << place for place, (whole, _) in enumerate(self._classes) if ports & whole)
            value = self._classes_of[ports] = sum(having)
        return value

    def copies(self, ports: int) -> int:
        """Return in how many cells of a grid a combination is; 1 if there is no grid."""
        own = self.classes_of(ports) if self.graph.grid else 0
        return math.prod(size for place, size in enumerate(self.graph.grid) if not own >> place & 1)

    def related(self, one: int, other: int) -> bool:
        """Return whether a condition links two sets that have no port in common."""
        if self.shared(one, other):
            return True
        both = one | other
        return any(not term.ports & ~both and term.ports & one and term.ports & other for term in self.graph.terms)
