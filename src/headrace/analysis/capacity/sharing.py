"""Which segments several paths have in common: a trie of paths, each a sequence of labels from the leaf upward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Shared:
    """Operators that `paths` paths run through together, up to and with the one behind which they part."""

    labels: tuple[str, ...]
    paths: int
    prefix: tuple[str, ...] = ()  # what comes before them


@dataclass(slots=True)
class _Node:
    label: str
    paths: int = 0  # how many go through it
    ends: int = 0  # how many end here
    children: dict[str, _Node] = field(default_factory=dict)


class PathTrie:
    """Paths that come and go; sharing always begins at a leaf."""

    def __init__(self) -> None:
        self._root = _Node("")

    def insert(self, path: Sequence[str]) -> None:
        """Add a path once more."""
        node = self._root
        for label in path:
            node = node.children.setdefault(label, _Node(label))
            node.paths += 1
        node.ends += 1

    def delete(self, path: Sequence[str]) -> None:
        """Take a path away once; KeyError if it is not there.

        The load is computed from a new trie each time; the published algorithm keeps one up to date.
        """
        walk = [self._root]
        for label in path:
            walk.append(walk[-1].children[label])
        if not walk[-1].ends:
            raise KeyError(tuple(path))
        walk[-1].ends -= 1
        for above, node in pairwise(walk):
            node.paths -= 1
            if not node.paths:
                del above.children[node.label]
                break

    def shared(self) -> list[Shared]:
        """Return disjoint shared segments, by leaf in the order of labels (algorithms 4 and 5, corrected)."""
        segments: list[Shared] = []
        for label in sorted(self._root.children):
            self._search(self._root.children[label], (), segments)
        return segments

    def _search(self, node: _Node, prefix: tuple[str, ...], segments: list[Shared]) -> None:
        if node.paths < 2:
            return
        labels, shared = [node.label], node.paths
        while len(node.children) == 1 and not node.ends:
            (node,) = node.children.values()
            labels.append(node.label)
        segments.append(Shared(tuple(labels), shared, prefix))
        for label in sorted(node.children):
            self._search(node.children[label], (*prefix, *labels), segments)
