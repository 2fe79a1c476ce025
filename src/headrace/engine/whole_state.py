"""Vertices that go to another bucket as a whole, and bounds that go along.

Most vertices that divide their state by key have the same bounds in every bucket. What lies in one bucket need not: it
may be ahead of the others, like a union that goes by the timestamps of its tuples, or behind them, like an outer join
with tuples that wait. So the whole vertex goes there, with its unread input and its bounds. In any case, the bounds of
what its results pass in the bucket, without state, up to the ends, must not be later than in the bucket before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from headrace.engine.engine import Engine
from headrace.graph.graph import VertexId
from headrace.operators.operator import State
from headrace.operators.tuples.union import UnionOperator


class Whole(Struct, frozen=True):
    """All that some vertices keep, and the bounds that they and those behind them have reached."""

    state: Mapping[VertexId, State]
    reached: dict[VertexId, int]
    owed: dict[VertexId, int]


NOTHING: Final = Whole({}, {}, {})


def give_whole(engine: Engine, vertices: Collection[VertexId]) -> Whole:
    """Give up all that is kept of some vertices; they begin again, with nothing."""
    kept = engine.state()
    whole = Whole(
        {**times_of(engine, vertices).state, **{name: kept[name] for name in vertices if kept[name]}},
        times_of(engine, vertices).reached,
        {name: engine.bounds.owed.pop(name) for name in vertices if name in engine.bounds.owed},
    )
    for name in vertices:
        engine.begin_again(name)
    return whole


def times_of(engine: Engine, vertices: Collection[VertexId]) -> Whole:
    """Return the bounds that some vertices have reached, and those that their results pass, without their state."""
    behind = _passed(engine, vertices)
    states = {name: engine.operators[name].state() for name in behind}
    reached = {name: engine.bounds.reached[name] for name in (*vertices, *behind)}
    return Whole({name: state for name, state in states.items() if state}, reached, {})


def take_whole(engine: Engine, given: Whole) -> None:
    """Go on with what another engine of the same graph gave up; nothing of it is known here."""
    lasting: dict[VertexId, State] = {}
    for name, state in given.state.items():
        operator = engine.operators.get(name)
        if isinstance(operator, UnionOperator) and engine.network.vertices[name].spec.is_stateless:
            operator.lower(state)
        elif operator is not None:
            lasting[name] = state
    for name in given.reached:
        if name in engine.operators:
            engine.bounds.reached[name] = min(engine.bounds.reached[name], given.reached[name])
    for name in lasting:
        engine.begin_again(name)
    engine.restore(lasting)
    engine.bounds.owed.update({name: bound for name, bound in given.owed.items() if name in engine.operators})


def _passed(engine: Engine, vertices: Collection[VertexId]) -> list[VertexId]:
    """Return the vertices without state and the ends to which results come from some vertices."""
    readers, found, waiting = engine.graph.readers(), dict[VertexId, None](), list(vertices)
    while waiting:
        for reader, _ in readers[waiting.pop()]:
            if reader not in found and engine.network.vertices[reader].spec.is_stateless:
                found[reader] = None
                waiting.append(reader)
    return list(found)
