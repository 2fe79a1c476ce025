"""Trees with the search orders that suit them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.join_tree import Branch, Tree, ports
from headrace.optimizer.joins.cost import Blocks, Model, Orders, Plan, blocks_of, branch_of
from headrace.optimizer.joins.orders import best_orders


class Fitter:
    """Gives trees search orders; branches that several trees have in common are looked at once."""

    def __init__(self, model: Model, orders: Callable[[Model, Blocks], Orders] = best_orders) -> None:
        self.model = model
        self._orders = orders
        self._branches: dict[Blocks, tuple[Orders, float, float]] = {}

    def plan(self, tree: Tree) -> Plan:
        """Return the tree with search orders and its cost."""
        if isinstance(tree, int):
            return Plan(tree, 0.0, 0.0)
        blocks = blocks_of(tree)
        orders, cpu, memory = self.branch(blocks)
        children = [self.plan(child) for child in tree.children]
        fitted = branch_of(tuple(child.tree for child in children), blocks, orders)
        cpu += sum(child.cpu for child in children)
        return Plan(fitted, cpu, memory + sum(child.memory for child in children))

    def branch(self, blocks: Blocks) -> tuple[Orders, float, float]:
        """Return the orders of one branch, and its own cost."""
        if (value := self._branches.get(blocks)) is None:
            orders = self._orders(self.model, blocks)
            value = self._branches[blocks] = orders, *self.model.branch(blocks, orders)
        return value


def fuse(tree: Branch, child: Branch) -> Branch:
    """Return the tree in which a branch below the root is a part of its parent: its state is no longer kept."""
    children: list[Tree] = []
    for part in tree.children:
        if isinstance(part, int):
            children.append(part)
        elif ports(part) == ports(child):
            children += child.children
        else:
            children.append(fuse(part, child))
    return Branch(tuple(children))
