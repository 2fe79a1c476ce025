"""Cuts paths into segments, the runs of operators that are scheduled as one.

Three ways: greedy, memory-optimal, and simplified (at most two segments a path). A path is a tree where queries share
its first operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.analysis.capacity.capacity import Path, PathOperator, operator_release

Segment: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """An operator with what one source tuple costs and frees there."""

    operator: PathOperator
    children: tuple[_Node, ...]
    time: float
    gain: float


@dataclass(frozen=True, slots=True)
class _Block:
    """Operators that run as one, and the blocks that remain behind them."""

    names: Segment
    time: float
    gain: float
    rest: tuple[_Block, ...]

    @property
    def ratio(self) -> float:
        return self.gain / self.time


def greedy_segments(path: Path) -> list[Segment]:
    """Append operators while they free memory at least as fast as the one before (algorithm 1, E-16)."""
    segments: list[list[str]] = []
    before = 0.0
    for node in _layers(_tree(path)):
        release = operator_release(node.operator, consumers=len(node.children))
        if segments and release >= before:
            segments[-1].append(node.operator.name)
        else:
            segments.append([node.operator.name])
        before = release
    return [tuple(segment) for segment in segments]


def memory_optimal_segments(path: Path) -> list[Segment]:
    """Cut off the segment that frees memory fastest from the leaf on, then do so with the rest (algorithms 2 and 3)."""
    pending, segments = [_block(_tree(path))], []
    while pending:
        best = max(pending, key=lambda block: block.ratio)
        pending.remove(best)
        pending.extend(best.rest)
        segments.append(best.names)
    return segments


def simplified_segments(path: Path) -> list[Segment]:
    """Return the first memory-optimal segment, and the rest as a second one."""
    tree = _tree(path)
    first = _block(tree).names
    rest = tuple(node.operator.name for node in _layers(tree) if node.operator.name not in first)
    return [first, rest] if rest else [first]


def bottom_up(path: Path) -> list[PathOperator]:
    """Return the order of execution: layer by layer from the leaf, in a layer the fastest operator first."""
    return [node.operator for node in _layers(_tree(path))]


def segment_rate(path: Path, segment: Segment) -> float:
    """Return the bytes per second that a segment frees: what its operators free together, over the time they take."""
    nodes = [node for node in _layers(_tree(path)) if node.operator.name in segment]
    return sum(node.gain for node in nodes) / sum(node.time for node in nodes)


def prune(segments: Iterable[Segment]) -> list[Segment]:
    """Drop what lies within another segment, as shared operators bring it about."""
    kept: list[Segment] = []
    for new in segments:
        if any(set(new) <= set(old) for old in kept):
            continue
        kept = [old for old in kept if not set(old) < set(new)] + [new]
    return kept


def _tree(path: Path, reach: float = 1.0) -> _Node:
    operator, rest = path.operators[0], path.operators[1:]
    after = reach * operator.selectivity
    followers = (Path(rest, path.branches),) if rest else path.branches
    children = tuple(_tree(follower, after) for follower in followers)
    gain = reach * (operator.size_in - len(children) * operator.selectivity * operator.size_out)
    return _Node(operator, children, reach / operator.capacity, gain)


def _block(node: _Node) -> _Block:
    """Absorb the best child block while that does not slow the release down.

    Equal to trying all orders, and cheaper.
    """
    names: Segment = (node.operator.name,)
    time, gain = node.time, node.gain
    rest = [_block(child) for child in node.children]
    while rest:
        best = max(rest, key=lambda block: block.ratio)
        if best.ratio < gain / time:
            break
        rest.remove(best)
        rest.extend(best.rest)
        names, time, gain = names + best.names, time + best.time, gain + best.gain
    return _Block(names, time, gain, tuple(rest))


def _layers(tree: _Node) -> list[_Node]:
    order, layer = [], [tree]
    while layer:
        order += sorted(layer, key=lambda node: -node.operator.capacity)
        layer = [child for node in order[-len(layer) :] for child in node.children]
    return order
