"""Programs: what a tuple of each port does on its way through a join tree, compiled from spec and tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import polars as pl

from headrace.model.expressions.expression import columns
from headrace.model.join_tree import Branch, Tree, branches, ports
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate
from headrace.operators.multijoin.arrangement import Place
from headrace.operators.multijoin.columns import SharedKeys
from headrace.operators.multijoin.spec import MultiJoin


@dataclass(frozen=True, slots=True)
class Step:
    """Search an arrangement; of what agrees in key and time keep what satisfies the condition."""

    place: Place
    columns: tuple[str, ...]  # what is taken over of the rows that are found
    keeps_key: bool  # whether the number of the key is worth while to take along
    condition: pl.Expr | None
    name: str  # in statistics, such as '0.1>2'


@dataclass(frozen=True, slots=True)
class Store:
    """Keep the rows so far in an arrangement."""

    place: Place


Way: TypeAlias = tuple[Step | Store, ...]


class Program:
    """The ways of all ports through a tree, and the arrangements that they search and fill.

    A state of a tree is sorted by the classes that all rows have which search it. Other classes are tested.
    """

    def __init__(self, spec: MultiJoin, tree: Tree) -> None:
        assert isinstance(tree, Branch)
        self.tree = tree
        self._spec = spec
        self._keys = SharedKeys(spec)
        self._places: dict[tuple[int, ...], Place] = {}  # by ports
        for branch in branches(tree):
            self._choose_keys(branch)
        self.ways = tuple(self._way(port) for port in range(len(spec.inputs)))

    @property
    def places(self) -> list[Place]:
        """Return all arrangements, those of fewer ports first."""
        return sorted(self._places.values(), key=lambda place: (len(place.ports), place))

    def base(self, port: int) -> Place:
        """Return the arrangement of an input."""
        return self._places[port,]

    def building(self, place: Place) -> tuple[Place, Way]:
        """Return the child of a branch that is to search the others, and its way, to build the branch's rows."""
        branch = next(branch for branch in branches(self.tree) if tuple(sorted(ports(branch))) == place.ports)
        children = [self._places[tuple(sorted(ports(child)))] for child in branch.children]
        first, others = children[0], [children[other] for other in branch.order(0)]
        return first, (*self._steps(first.ports, others), Store(place))

    def filling(self, place: Place, port: int) -> Way:
        """Return the way of a tuple of one input through the other inputs of an arrangement into it."""
        return (*self._steps((port,), self._searched(place, port)), Store(place))

    def filled_from(self, places: Iterable[Place]) -> list[Place]:
        """Return the arrangements that the ways of all tuples into these search."""
        found = {searched: None for place in places for port in place.ports for searched in self._searched(place, port)}
        return list(found)

    def _searched(self, place: Place, port: int) -> list[Place]:
        """Return the states of the other inputs; those first that have a key in common with the rows so far."""
        rest, searched = [other for other in place.ports if other != port], list[Place]()
        so_far: tuple[int, ...] = (port,)
        while rest:
            chosen = max(rest, key=lambda other: (len(self._shared(so_far, (other,))), -other))
            rest.remove(chosen)
            base = self.base(chosen)
            if not set(base.classes) <= set(self._classes(so_far)):  # sorted by a key that the rows lack
                alike = set(self._classes(place.ports[:1])).intersection(*(self._classes((p,)) for p in place.ports))
                base = Place((chosen,), tuple(sorted(alike)))
            searched.append(base)
            so_far = (*so_far, chosen)
        return searched

    def _choose_keys(self, branch: Branch) -> None:
        children = [tuple(sorted(ports(child))) for child in branch.children]
        keys = {child: set(self._classes(child)) for child in children}
        for number, child in enumerate(children):
            so_far = child
            for other in branch.order(number):
                keys[children[other]] &= set(self._classes(so_far))
                so_far += children[other]
        self._places |= {child: Place(child, tuple(sorted(key))) for child, key in keys.items()}

    def _way(self, port: int) -> Way:
        way: list[Step | Store] = []
        for branch in branches(self.tree):  # children before parents
            if port not in ports(branch):
                continue
            own = next(number for number, child in enumerate(branch.children) if port in ports(child))
            others = [self._places[tuple(sorted(ports(branch.children[other])))] for other in branch.order(own)]
            way += self._steps(tuple(sorted(ports(branch.children[own]))), others)
            if branch is not self.tree:
                way.append(Store(self._places[tuple(sorted(ports(branch)))]))
        return tuple(way)

    def _steps(self, start: tuple[int, ...], others: Iterable[Place]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for place in others:
            name = f"{_text(start)}>{_text(place.ports)}"
            is_exact = self._spec.is_exact(place.classes)
            steps.append(Step(place, self._taken(start, place), not is_exact, self._condition(start, place), name))
            start = tuple(sorted((*start, *place.ports)))
        return tuple(steps)

    def _taken(self, so_far: tuple[int, ...], place: Place) -> tuple[str, ...]:
        """Return the columns that are read of the rows of a place: not the key, if the search has compared it."""
        columns, decided = self._keys.carried(place.ports), self._keys.carried(so_far)
        if not self._spec.is_exact(place.classes):
            return columns
        known = {self._keys.classes[name] for name in decided if name in self._keys.classes} & set(place.classes)
        return tuple(name for name in columns if self._keys.classes.get(name) not in known)

    def _condition(self, so_far: tuple[int, ...], place: Place) -> pl.Expr | None:
        """Return what is to be tested once these rows are together: terms, and classes that the key does not decide."""
        spec = self._spec
        mine, theirs = names_of(spec, so_far), names_of(spec, place.ports)
        terms = [
            compile_predicate(term)
            for term in spec.terms
            if (read := columns(term)) <= mine | theirs and not read <= mine and not read <= theirs
        ]
        for number in self._shared(so_far, place.ports):
            if number not in place.classes or not spec.is_exact(place.classes):
                left, right = (key_columns(spec, side, (number,))[0] for side in (so_far, place.ports))
                terms.append((left == right).fill_null(False))
        return reduce(lambda one, other: one & other, terms) if terms else None

    def _classes(self, some: Iterable[int]) -> list[int]:
        return [n for n, members in enumerate(self._spec.classes) if any(members[port] is not None for port in some)]

    def _shared(self, one: Sequence[int], other: Sequence[int]) -> list[int]:
        return [number for number in self._classes(one) if number in self._classes(other)]


def names_of(spec: MultiJoin, some: Iterable[int]) -> frozenset[str]:
    """Return the columns of some inputs in the output."""
    return frozenset(name for port in some for name in spec.names[port])


def key_columns(spec: MultiJoin, some: Sequence[int], classes: Iterable[int]) -> list[pl.Expr]:
    """Return the values of classes in joined rows of some ports."""
    found = []
    for number in classes:
        port = next(port for port in some if spec.classes[number][port] is not None)
        expr = spec.classes[number][port]
        assert expr is not None
        found.append(compile_expr(spec.output(port, expr)))
    return found


def _text(some: Iterable[int]) -> str:
    return ".".join(map(str, some))
