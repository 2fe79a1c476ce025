"""The load estimate: which share of the processor the paths need, operators that they share counted once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headrace.analysis.capacity.capacity import Path, PathOperator, path_cost
from headrace.analysis.capacity.sharing import PathTrie


def load(paths: Sequence[tuple[Sequence[str], float]], operators: Mapping[str, PathOperator]) -> float:
    """Return Phi of paths (labels from the leaf upward) with the mean rates of their streams.

    More than 1 means congestion under any scheduler.
    """
    naive = sum(rate * _cost(labels, operators) for labels, rate in paths)  # (7.5)
    return naive - _counted_twice(paths, operators)  # (7.8)


def excess(phi: float) -> float:
    """Return the share of the processor that is missing."""
    return max(0.0, phi - 1.0)  # (7.6)


def _counted_twice(paths: Sequence[tuple[Sequence[str], float]], operators: Mapping[str, PathOperator]) -> float:
    trie = PathTrie()
    rates: dict[str, float] = {}
    for labels, rate in paths:
        trie.insert(labels)
        rates[labels[0]] = rate
    total = 0.0
    for shared in trie.shared():
        reach = math.prod(operators[label].selectivity for label in shared.prefix)
        into = rates[(*shared.prefix, *shared.labels)[0]] * reach
        total += (shared.paths - 1) * into * _cost(shared.labels, operators)  # (7.7)
    return total


def _cost(labels: Sequence[str], operators: Mapping[str, PathOperator]) -> float:
    return path_cost(Path(tuple(operators[label] for label in labels)))
