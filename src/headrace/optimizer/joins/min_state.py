"""Min-State: a tree of binary joins with small intermediate states (the first half of the published BJTree-Init).

The pair with the smallest state is joined first, and its result takes part in further pairs. That gives the smallest
states of all trees if one stream is joined with all others (a star); otherwise a better tree may exist. Sizes are rows
in windows, not rates: the printed algorithm leaves out the window and then compares states of different units.
"""

from __future__ import annotations

from itertools import combinations

from headrace.model.join_tree import Branch, Tree
from headrace.optimizer.joins.join_graph import Estimates


def min_state(estimates: Estimates, *, cross: bool = False) -> Tree:
    """Return the tree; pairs without a condition are joined only if asked for, or if no other pair is there."""
    trees: dict[int, Tree] = {1 << port: port for port in range(len(estimates.graph.streams))}

    def size(pair: tuple[int, int]) -> tuple[bool, float]:
        linked = cross or estimates.related(*pair)
        return not linked, estimates.held(sum(pair))

    while len(trees) > 1:
        one, other = min(combinations(trees, 2), key=size)
        trees[one | other] = Branch((trees.pop(one), trees.pop(other)))
    (tree,) = trees.values()
    return tree
