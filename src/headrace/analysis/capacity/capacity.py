"""Capacities of operators, paths and segments: source tuples they can take, and bytes they free, per second."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PathOperator:
    """An operator of a path: tuples a second it can serve, outputs per tuple, and the sizes of both (any unit)."""

    name: str
    capacity: float
    selectivity: float = 1.0
    size_in: float = 1.0
    size_out: float = 1.0


@dataclass(frozen=True, slots=True)
class Path:
    """Stages from the leaf to the root, or to where several paths go on with the same tuples."""

    operators: tuple[PathOperator, ...]
    branches: tuple[Path, ...] = ()

    def run(self) -> tuple[PathOperator, ...]:
        """Return all operators once, depth first."""
        return self.operators + tuple(operator for branch in self.branches for operator in branch.run())


def path_cost(path: Path) -> float:
    """Return the processor seconds for one tuple that enters, including everything derived from it: 1 / C^P."""
    reach, cost = 1.0, 0.0
    for operator in path.operators:
        cost += reach / operator.capacity  # (6.2)
        reach *= operator.selectivity
    return cost + reach * sum(path_cost(branch) for branch in path.branches)  # (6.4, E-14)


def path_capacity(path: Path) -> float:
    """Return the tuples per second that a path can take if it has the processor to itself."""
    cost = path_cost(path)
    return 1 / cost if cost else math.inf


def path_selectivity(path: Path) -> float:
    """Return the results of a path for each tuple that enters."""
    share = math.prod(operator.selectivity for operator in path.operators)
    return share * sum(map(path_selectivity, path.branches)) if path.branches else share


def operator_release(operator: PathOperator, *, consumers: int = 1) -> float:
    """Return the bytes per second that an operator frees while it runs; each consumer stores a result once."""
    return operator.capacity * (operator.size_in - consumers * operator.size_out * operator.selectivity)  # (6.1)


def path_release(path: Path) -> float:
    """Return the bytes per second that a whole path frees; its results leave the system."""
    return path_capacity(path) * path.operators[0].size_in  # (6.5)


def segment_release(segment: Path, *, last: bool = False) -> float:
    """Return the bytes per second that a segment frees; what leaves the `last` one of a path occupies nothing.

    Schedulers cut paths into segments without it. It is here because the published segments are stated in these values.
    """
    size_out = 0.0 if last else _output_size(segment)
    return path_capacity(segment) * (segment.operators[0].size_in - size_out)  # (6.6), (6.7)


def _output_size(segment: Path) -> float:
    """Return the bytes that leave a segment for each tuple that enters it."""
    share = 1.0
    for operator in segment.operators:
        share *= operator.selectivity
    if segment.branches:
        return share * sum(_output_size(branch) for branch in segment.branches)
    return share * segment.operators[-1].size_out
