"""Gather the inner joins of one FROM clause into one node, so that the order in which they are made can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from msgspec import structs

from headrace.model.expressions.expression import Call, Column, Expr, columns, conjunction, conjuncts, substitute, walk
from headrace.model.python_function import calls_python
from headrace.model.schema import HIDDEN
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.plan.traversal import replace_inputs

#: Types of which equal values have equal numbers or hashes, so that equality is transitive.
KEYS = (
    Type.BOOLEAN,
    Type.INT,
    Type.BIGINT,
    Type.DATE,
    Type.TIMESTAMP,
    Type.INTERVAL,
    Type.STRING,
    Type.BINARY,
)


#: Says of a join whose inputs have no key in common whether it runs in a grid: the weights of its inputs, or none. The
#: second argument are the joins as they are written.
ChooseGrid: TypeAlias = Callable[[nodes.MultiJoin, nodes.Join], tuple[int, ...]]


def no_grid(box: nodes.MultiJoin, written: nodes.Join) -> tuple[int, ...]:
    """Let no join run in a grid."""
    return ()


def gather_joins(plan: Node, choose_grid: ChooseGrid = no_grid) -> Node:
    """Put one MultiJoin for each tree of inner joins over time windows with three inputs or more.

    Before: Join INNER ... ON a.k = c.k           After: Join a with b with c ON a.k = b.k = c.k
              Join INNER ... ON a.k = b.k                  Scan a
                Scan a                                     Scan b
                Scan b                                     Scan c
              Scan c

    A condition on one input that calls a user's function becomes part of the join, which then tests it on tuples or on
    results; so joins of two inputs have two plans as well.

    Left as they are: other joins of two inputs, which have one plan only; outer joins, windows of rows and joins with a
    manner; joins whose conditions read the timestamp; joins without a key that all inputs have, which need an exchange
    in between unless they run in a grid; and all before a union with a pace, where the order of arrival decides.
    """
    return _Gathering(choose_grid).gather(plan)


class _Gathering:
    def __init__(self, choose_grid: ChooseGrid) -> None:
        self._choose_grid = choose_grid
        self._done: dict[int, tuple[Node, Node]] = {}  # by identity: a plan may have a node in several places

    def gather(self, node: Node) -> Node:
        if id(node) not in self._done:
            self._done[id(node)] = node, self._gather(node)
        return self._done[id(node)][1]

    def _gather(self, node: Node) -> Node:
        if isinstance(node, nodes.Pace):
            return node
        if isinstance(node, nodes.Join):
            flat = _flat_join(node)
            box = None if flat is None else self._box(flat, node)
            if flat is not None and box is not None:
                return _shown(replace_inputs(box, tuple(map(self.gather, box.inputs))), flat, node)
        return replace_inputs(node, tuple(map(self.gather, nodes.inputs(node))))

    def _box(self, flat: _Flat, written: nodes.Join) -> nodes.MultiJoin | None:
        """Return the node for joins, if there is more than one plan for them and their inputs can meet."""
        box = _box(flat)
        if box is None or not box.classes or any(None not in members for members in box.classes):
            return box
        connected = _box(replace(flat, leaves=tuple(flat.leaves[port] for port in _connected(box))))
        assert connected is not None
        weights = self._choose_grid(connected, written)
        return structs.replace(connected, grid=weights) if weights else None


def _connected(box: nodes.MultiJoin) -> list[int]:
    """Return the inputs in an order in which each has a key in common with one before it, if there is such an order.

    A join begins with the tree of its inputs in their order. Without a common key it would make a cross product.
    """
    having = [{port for port, expr in enumerate(members) if expr is not None} for members in box.classes]
    order, rest = [0], list(range(1, len(box.inputs)))
    while rest:
        joined = (port for port in rest if any(port in ports and ports & set(order) for ports in having))
        order.append(next(joined, rest[0]))
        rest.remove(order[-1])
    return order


@dataclass(frozen=True, slots=True)
class Ungathered:
    """Joins of three inputs or more that stay in the order of FROM: their inputs, and why."""

    labels: tuple[str, ...]
    why: str


def ungathered(plan: Node, choose_grid: ChooseGrid = no_grid) -> tuple[Ungathered, ...]:
    """Return the joins of several inputs that are left as they are in a plan, each once."""
    found: dict[int, Ungathered] = {}
    _find_ungathered(gather_joins(plan, choose_grid), found)
    return tuple(found.values())


def _find_ungathered(node: Node, found: dict[int, Ungathered]) -> None:
    below: Sequence[Node] = nodes.inputs(node)
    if isinstance(node, nodes.Join) and id(node) not in found:
        joins, leaves = _tree_of(node)
        if len(leaves) > 2 or any(label.startswith("(") for label, _ in leaves):  # one of them may be a box
            found[id(node)] = Ungathered(tuple(label for label, _ in leaves), _hindrance(node, joins))
            below = [leaf for _, leaf in leaves]
    for each in below:
        _find_ungathered(each, found)


def _tree_of(node: nodes.Join) -> tuple[list[nodes.Join], list[tuple[str, Node]]]:
    """Return the joins of one FROM clause, and its inputs with their aliases."""
    joins, leaves = [node], list[tuple[str, Node]]()
    for side, alias in ((node.left, node.left_alias), (node.right, node.right_alias)):
        below = side
        while isinstance(below, nodes.Filter | nodes.Project) and not alias:
            below = below.input
        if isinstance(below, nodes.Join) and not alias:
            inner = _tree_of(below)
            joins += inner[0]
            leaves += inner[1]
        elif isinstance(below, nodes.MultiJoin) and not alias:
            leaves.append((f"({' '.join(below.labels)})", side))
        else:
            leaves.append((alias or "input", side))
    return joins, leaves


def _hindrance(node: nodes.Join, joins: Sequence[nodes.Join]) -> str:
    """Return why joins stay as they are."""
    for join in joins:
        if join.kind != "inner":
            return "a row that came out of an outer join without a partner cannot be taken back under another order"
        if join.manner != "plain":
            return f"the order in which tuples arrive decides in a join that is {join.manner}"
        if any(extent is not None and extent.rows is not None for extent in (join.left_extent, join.right_extent)):
            return "what a window of rows holds depends on the order of the joins"
        read = [*(expr for pair in join.keys for expr in pair), *(() if join.residual is None else (join.residual,))]
        if any(not columns(expr).isdisjoint(HIDDEN) for expr in read):
            return "a condition reads the timestamp of joined tuples, which depends on the order of the joins"
    keys = [key for join in joins for pair in join.keys for key in pair]
    for key in keys:
        if key.type not in KEYS:
            return f"keys of type {key.type.value} can be equal without being the same"
    flat = _flat_join(node)
    if flat is not None and len(flat.leaves) < len(_tree_of(node)[1]):
        return "an input is computed from joined columns before it is joined further"
    return "no key is in all inputs, so joined rows are exchanged between buckets (ALTER SYSTEM SET grid avoids that)"


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An input, its window, its alias, and its columns as the joined rows call them."""

    node: Node
    extent: Extent | None
    label: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Flat:
    """Joins as one: the inputs, all conditions over the names of joined rows, and the columns that come out.

    `is_movable` if some condition can be tested on tuples or on results.
    """

    leaves: tuple[_Leaf, ...]
    keys: tuple[tuple[Expr, Expr], ...]
    terms: tuple[Expr, ...]
    visible: Mapping[str, Expr]
    is_movable: bool = False


def _flat(node: Node, extent: Extent | None, label: str, taken: set[str], wanted: Sequence[str]) -> _Flat:
    """Return an input as joins, or as a leaf whose columns have the wanted names, if no others have them."""
    inner = _looked_through(node) if extent is None else None
    if inner is not None:
        taken.update(name for leaf in inner.leaves for name in leaf.names)
        return inner
    visible = node.schema.names
    node, conditions = _lifted(node)
    names = [_unique(name, taken) for name in (*wanted, *node.schema.names[len(visible) :])]
    columns_ = {f.name: Column(new, f.type) for f, new in zip(node.schema, names, strict=True)}
    terms = tuple(substitute(term, columns_) for term in conditions)
    shown = {name: columns_[name] for name in visible}
    return _Flat((_Leaf(node, extent, label, tuple(names)),), (), terms, shown, is_movable=bool(terms))


def _unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _lifted(node: Node) -> tuple[Node, tuple[Expr, ...]]:
    """Return an input without conditions that may take long, and these; columns that only they read come last."""
    match node:
        case nodes.Filter(input=below, predicate=predicate):
            found = [term for term in conjuncts(predicate) if calls_python(term) and columns(term).isdisjoint(HIDDEN)]
            cheap = conjunction(tuple(term for term in conjuncts(predicate) if term not in found))
            return (below if cheap is None else nodes.Filter(below, cheap)) if found else node, tuple(found)
        case nodes.Project(input=below, columns=picked) if all(isinstance(expr, Column) for _, expr in picked):
            inner, terms = _lifted(below)
            if not terms:
                return node, ()
            known = {expr.name: Column(name, expr.type) for name, expr in picked if isinstance(expr, Column)}
            taken, more = {name for name, _ in picked}, list[tuple[str, Expr]]()
            for column in dict.fromkeys(part for term in terms for part in walk(term) if isinstance(part, Column)):
                if column.name not in known:
                    unique = _unique(column.name, taken)
                    more.append((unique, column))
                    known[column.name] = Column(unique, column.type)
            return nodes.Project(inner, (*picked, *more)), tuple(substitute(term, known) for term in terms)
        case _:
            return node, ()


def _looked_through(node: Node) -> _Flat | None:
    """Return the joins under filters and under projections that leave columns out or rename them."""
    match node:
        case nodes.Join():
            return _flat_join(node)
        case nodes.Filter(input=below, predicate=predicate) if columns(predicate).isdisjoint(HIDDEN):
            inner = _looked_through(below)
            if inner is None:
                return None
            terms = tuple(substitute(term, inner.visible) for term in conjuncts(predicate))
            return replace(inner, terms=(*inner.terms, *terms))
        case nodes.Project(input=below, columns=computed) if all(isinstance(expr, Column) for _, expr in computed):
            inner = _looked_through(below)
            if inner is None or any(columns(expr) - inner.visible.keys() for _, expr in computed):
                return None
            visible = {name: substitute(expr, inner.visible) for name, expr in computed}
            return replace(inner, visible=visible)
        case _:
            return None


def _flat_join(node: nodes.Join) -> _Flat | None:
    extents = (node.left_extent, node.right_extent)
    if node.kind != "inner" or node.manner != "plain" or any(e is not None and e.rows is not None for e in extents):
        return None
    read = [*(expr for pair in node.keys for expr in pair), *(() if node.residual is None else (node.residual,))]
    if any(not columns(expr).isdisjoint(HIDDEN) for expr in read):
        return None
    taken = set[str]()
    left = _flat(node.left, node.left_extent, node.left_alias, taken, node.left.schema.names)
    right = _flat(node.right, node.right_extent, node.right_alias, taken, node.right_names)
    if set(_names(left)) & set(_names(right)):
        return None
    shown = zip(node.right.schema.names, node.right_names, strict=True)
    visible = {**left.visible, **{new: right.visible[old] for old, new in shown}}
    keys = tuple((substitute(a, left.visible), substitute(b, right.visible)) for a, b in node.keys)
    terms = () if node.residual is None else tuple(substitute(term, visible) for term in conjuncts(node.residual))
    return _Flat(
        (*left.leaves, *right.leaves),
        (*left.keys, *right.keys, *keys),
        (*left.terms, *right.terms, *terms),
        visible,
        left.is_movable or right.is_movable,
    )


def _names(flat: _Flat) -> list[str]:
    return [name for leaf in flat.leaves for name in leaf.names]


def _box(flat: _Flat) -> nodes.MultiJoin | None:
    """Return the node for joins, if there is more than one plan for them."""
    if len(flat.leaves) < (2 if flat.is_movable else 3) or any(
        key.type not in KEYS for pair in flat.keys for key in pair
    ):
        return None
    port_of = {name: port for port, leaf in enumerate(flat.leaves) for name in leaf.names}
    groups: list[dict[Expr, int]] = []  # members of a class, with their ports
    for pair in flat.keys:
        members: dict[Expr, int] = {}
        for key in pair:
            ports = {port_of[name] for name in columns(key)}
            if len(ports) != 1:
                return None
            members[key] = ports.pop()
        joined = [group for group in groups if not group.keys().isdisjoint(members)]
        groups = [group for group in groups if group not in joined]
        groups.append({key: port for group in (*joined, members) for key, port in group.items()})
    classes, terms = [], list(flat.terms)
    for group in groups:
        firsts: dict[int, Expr] = {}
        for key, port in group.items():
            if port in firsts:
                terms.append(Call("=", (firsts[port], key), Type.BOOLEAN))
            firsts.setdefault(port, key)
        own = [_own(firsts[port], leaf) if port in firsts else None for port, leaf in enumerate(flat.leaves)]
        classes.append(tuple(own))
    inputs, names = tuple(leaf.node for leaf in flat.leaves), tuple(leaf.names for leaf in flat.leaves)
    extents = tuple(leaf.extent for leaf in flat.leaves)
    return nodes.MultiJoin(inputs, names, extents, tuple(classes), tuple(dict.fromkeys(terms)), _labels(flat))


def _own(key: Expr, leaf: _Leaf) -> Expr:
    """Return a key over the columns of its input."""
    return substitute(
        key, {new: Column(field.name, field.type) for field, new in zip(leaf.node.schema, leaf.names, strict=True)}
    )


def _labels(flat: _Flat) -> tuple[str, ...]:
    labels: list[str] = []
    for leaf in flat.leaves:
        label, number = leaf.label or "input", 1
        while label.lower() in {other.lower() for other in labels}:
            number += 1
            label = f"{leaf.label or 'input'}_{number}"
        labels.append(label)
    return tuple(labels)


def _shown(box: Node, flat: _Flat, node: nodes.Join) -> Node:
    """Return the columns of the join in its order."""
    columns_ = tuple((field.name, flat.visible[field.name]) for field in node.schema)
    plain = tuple((field.name, Column(field.name, field.type)) for field in box.schema)
    return box if columns_ == plain else nodes.Project(box, columns_)
