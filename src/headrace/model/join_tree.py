"""Join trees: how a join of several inputs combines them, such as `((a b) c)`.

A leaf is an input, by its port. A branch joins what its children give, two or more. A tree of two levels, `(a b c)`, is
an MJoin: each tuple searches the states of all other inputs, and nothing in between is stored. A tree whose branches
have two children is a tree of binary joins.

A condition on one input that takes long is tested on its tuples, or late, on results: `((a b) c) late a`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import NameFault, QueryError, SyntaxFault


class Branch(Struct, frozen=True, omit_defaults=True):
    """A join of its children; port sets of different children are disjoint.

    `orders` says, child by child, in which order its tuples search the other children, which are given by their places.
    Without it each child searches the others as they are listed. `late` are the ports whose own conditions are tested
    on results, in ascending order; the root of a tree has them.
    """

    children: tuple[Tree, ...]
    orders: tuple[tuple[int, ...], ...] = ()
    late: tuple[int, ...] = ()

    def order(self, place: int) -> tuple[int, ...]:
        """Return the places of the other children in the order in which the child at this place searches them."""
        if self.orders:
            return self.orders[place]
        return tuple(other for other in range(len(self.children)) if other != place)


#: A port, or a join of smaller trees.
Tree: TypeAlias = int | Branch


def ports(tree: Tree) -> tuple[int, ...]:
    """Return the ports of a tree, from left to right."""
    return (tree,) if isinstance(tree, int) else tuple(port for child in tree.children for port in ports(child))


def branches(tree: Tree) -> tuple[Branch, ...]:
    """Return all branches of a tree, children before parents."""
    if isinstance(tree, int):
        return ()
    return (*(branch for child in tree.children for branch in branches(child)), tree)


def late_ports(tree: Tree) -> tuple[int, ...]:
    """Return the ports whose own conditions are tested on results."""
    return () if isinstance(tree, int) else tree.late


def with_late(tree: Tree, late: Iterable[int]) -> Tree:
    """Return the tree with the own conditions of these ports tested on results."""
    return tree if isinstance(tree, int) else replace(tree, late=tuple(sorted(late)))


def flat(count: int) -> Branch:
    """Return the MJoin of so many inputs: `(a b c d)`."""
    return Branch(tuple(range(count)))


def left_deep(order: Iterable[int]) -> Tree:
    """Return the binary tree that takes one more port at each level: `(((a b) c) d)`."""
    first, *others = order
    tree: Tree = first
    for port in others:
        tree = Branch((tree, port))
    return tree


def canonical(tree: Tree) -> Tree:
    """Return the tree with children in the order of their least ports and without search orders.

    Trees that store the same combinations are equal in this form.
    """
    if isinstance(tree, int):
        return tree
    children = tuple(sorted(map(canonical, tree.children), key=lambda child: min(ports(child))))
    return Branch(children, late=tree.late)


def all_trees(inputs: Sequence[int]) -> Iterator[Tree]:
    """Yield every tree over these ports once, in canonical form: 1, 1, 4, 26, 236, 2752 for one to six ports."""
    if len(inputs) == 1:
        yield inputs[0]
        return
    for blocks in _partitions(sorted(inputs)):
        if len(blocks) > 1:
            for children in _choices(blocks):
                yield Branch(children)


def check(tree: Tree, count: int) -> None:
    """Refuse a tree that is not a tree over ports 0 to `count` - 1 with whole search orders."""
    if sorted(ports(tree)) != list(range(count)):
        raise QueryError(f"a join of {count} inputs needs each of them once")
    for branch in branches(tree):
        size = len(branch.children)
        if size < 2:
            raise QueryError("a branch of a join tree needs two inputs or more")
        places = [[place for place in range(size) if place != child] for child in range(size)]
        if branch.orders and [sorted(order) for order in branch.orders] != places:
            raise QueryError("a search order of a join tree names each of the other inputs once")
        if branch.late and (branch is not tree or not set(branch.late) <= set(range(count))):
            raise QueryError("conditions on inputs of a join are tested late by the whole join")


def format_tree(tree: Tree, names: Sequence[str]) -> str:
    """Write a tree with the names of its ports: `((a b) c)`. Search orders are not written."""
    if isinstance(tree, int):
        name = names[tree]
        return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
    shown = f"({' '.join(format_tree(child, names) for child in tree.children)})"
    return " ".join([shown, *((_LATE, *(format_tree(port, names) for port in tree.late)) if tree.late else ())])


def parse_tree(text: str, names: Sequence[str]) -> Tree:
    """Read a tree that is written with the names of its ports, in any case; each must stand in it once."""
    shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
    known = {name.lower(): port for port, name in enumerate(names)}
    open_branches: list[list[Tree]] = [[]]
    used: set[int] = set()
    late: set[int] | None = None
    for word in _words(text):
        if late is not None:
            late.add(_port(word, known, names))
        elif word.lower() == _LATE and len(open_branches) == 1 and open_branches[0]:
            late = set()
        elif word == "(":
            open_branches.append([])
        elif word == ")":
            children = open_branches.pop()
            if not open_branches:
                raise SyntaxFault(f"the plan {shown} has a closing parenthesis too many", hint=_example(names))
            if len(children) < 2:
                raise SyntaxFault(f"in the plan {shown} parentheses hold fewer than two inputs", hint=_example(names))
            open_branches[-1].append(Branch(tuple(children)))
        else:
            port = _port(word, known, names)
            if port in used:
                raise NameFault(f"{names[port]} stands twice in the plan {shown}", hint=_example(names))
            used.add(port)
            open_branches[-1].append(port)
    if len(open_branches) > 1:
        raise SyntaxFault(f"the plan {shown} lacks a closing parenthesis", hint=_example(names))
    missing = [name for port, name in enumerate(names) if port not in used]
    if missing:
        raise NameFault(f"the plan {shown} lacks {', '.join(missing)}", hint=_example(names))
    if len(open_branches[0]) != 1:
        raise SyntaxFault(f"the plan {shown} is not one join", hint=_example(names))
    if late is not None and not late:
        raise SyntaxFault(f"the plan {shown} does not say whose conditions are tested late", hint=_example(names))
    return with_late(open_branches[0][0], late or ())


#: Between a tree and the inputs whose conditions are tested on results.
_LATE = "late"
_SHOWN = 80  # characters of a wrong text that a message repeats
_PLAIN = re.compile(r"[^\W\d]\w*")
_WORD = re.compile(r'\s+|(?P<word>[()]|[^\W\d]\w*|"(?:[^"]|"")+")')


def _words(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        match = _WORD.match(text, place)
        if match is None:
            raise SyntaxFault(f"unexpected {text[place]!r} in the plan")
        place = match.end()
        if match["word"] is not None:
            yield match["word"]


def _port(word: str, known: dict[str, int], names: Sequence[str]) -> int:
    name = word[1:-1].replace('""', '"') if word.startswith('"') else word
    if name.lower() not in known:
        raise NameFault(f"there is no input {name!r} in the join", hint=f"there are: {', '.join(names)}")
    return known[name.lower()]


def _example(names: Sequence[str]) -> str:
    return f"for example {format_tree(left_deep(range(len(names))), names)!r}"


def _partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Yield all ways to divide items into blocks, each block in order and the blocks by their first items."""
    if not items:
        yield []
        return
    *others, last = items
    for blocks in _partitions(others):
        for place in range(len(blocks)):
            yield [*blocks[:place], [*blocks[place], last], *blocks[place + 1 :]]
        yield [*blocks, [last]]


def _choices(blocks: list[list[int]]) -> Iterator[tuple[Tree, ...]]:
    """Yield one tree of each block, in all combinations."""
    if not blocks:
        yield ()
        return
    first, *others = blocks
    for tree in all_trees(first):
        for trees in _choices(others):
            yield (tree, *trees)
