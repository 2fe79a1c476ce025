"""How long a tuple of a join can wait for a partner, as far as the plan says."""

from __future__ import annotations

from headrace.model.window import Extent
from headrace.plan import nodes


def longest_wait(join: nodes.Join) -> int | None:
    """Return the longest time that a tuple of a preserved side waits; None if there is no limit, or no such side."""
    left, right = _life(join.left, join.left_extent), _life(join.right, join.right_extent)
    match join.kind:
        case "inner":
            return None
        case "left":
            return left
        case "right":
            return right
        case "full":
            return None if left is None or right is None else max(left, right)


def _life(node: nodes.Node, extent: Extent | None) -> int | None:
    """Return the longest time from the timestamp of a tuple to its expiry; None if there is no limit."""
    if extent is not None:
        return extent.span
    match node:
        case nodes.Join(kind="inner"):
            return _least(_life(node.left, node.left_extent), _life(node.right, node.right_extent))
        case nodes.Join(kind="left"):
            return _life(node.left, node.left_extent)
        case nodes.Join(kind="right"):
            return _life(node.right, node.right_extent)
        case nodes.Join():
            return longest_wait(node)
        case nodes.MultiJoin():
            return _least(*map(_life, node.inputs, node.extents))
        case nodes.Filter() | nodes.Project() | nodes.Unnest() | nodes.TableJoin() | nodes.Membership():
            return _life(node.input, None)  # they hand the expiry on
        case _:
            return None


def _least(*lives: int | None) -> int | None:
    """Return the least: a combination expires with the first of its parts."""
    return min((life for life in lives if life is not None), default=None)
