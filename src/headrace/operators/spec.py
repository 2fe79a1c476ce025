"""What a vertex does: a frozen spec, from which the running operator is built."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from headrace.operators.operator import Operator
from headrace.operators.partitioning import KeyClass, Keys, single_classes


class Order(Enum):
    """How the tuples that an operator emits are ordered."""

    KEPT = "kept"  # as those of its input
    OWN = "own"  # in an order that the operator makes
    NONE = "none"  # in no order that means anything


class Spec(Struct, frozen=True):
    """What a vertex does, as a frozen, hashable value that can be written as JSON; a subclass adds fields and a tag.

    The defaults are safe for every operator: it keeps state, must see all tuples in one bucket, and nothing is known of
    how its output lies. An operator overrides a default where it can do better.
    """

    @abstractmethod
    def build(self) -> Operator:
        """Make a new operator with empty state."""

    @abstractmethod
    def describe(self, inputs: Sequence[str] = ()) -> str:
        """Say in a phrase what the operator does, such as 'join bids x asks on item'.

        `inputs` says port by port where the tuples come from; without it the phrase does not name them.
        """

    def meaning(self) -> Spec:
        """Return what names the vertex: the spec without what only people read."""
        return self

    @property
    def is_stateless(self) -> bool:
        """Return whether pages may be processed anywhere, in any order, with nothing kept."""
        return False

    def partition_by(self, port: int) -> Keys:
        """Return expressions over the port's input such that tuples which differ in them never meet.

        The n-th key of one port corresponds to the n-th key of every other port. Empty: all tuples must meet in one
        bucket. A stateless spec is not asked.
        """
        return ()

    @property
    def merges_inputs(self) -> bool:
        """Return whether the engine merges the inputs by timestamp.

        It holds tuples back until no input can have earlier ones.
        """
        return False

    @property
    def hindrance(self) -> str | None:
        """Return why the state of some keys cannot go to another bucket; None if it can, and for a stateless spec."""
        return None if self.is_stateless else "its state cannot be divided by key"

    @property
    def has_own_time(self) -> bool:
        """Return whether tuples that wait hold back the bound of its output, in each bucket by a time of its own."""
        return False

    @property
    def whole_hindrance(self) -> str | None:
        """Return why not even all of its state can go to another bucket, of a vertex that lies in one; None if it can.

        All that it keeps goes then, with its unread input and the bounds that it has reached.
        """
        return None

    @property
    def can_be_split(self) -> bool:
        """Return whether a key may be in several buckets.

        Tuples of any one port are dealt to them then, and those of all others are in each.
        """
        return False

    @property
    def portion(self) -> int | None:
        """The most tuples of a page to be given to the operator at once; feedback may spare it the rest. None: all."""
        return None

    def output_keys(self, positions: tuple[int, ...]) -> Keys | None:
        """Return the keys by which the output lies if the input is partitioned by the keys at these positions.

        None if the output does not show them. Only a spec with state is asked, with at least one position.
        """
        return None

    def output_classes(
        self, positions: tuple[int, ...], classes: tuple[tuple[KeyClass, ...], ...]
    ) -> tuple[KeyClass, ...] | None:
        """Return the same with all expressions that are known to have the same hash in each tuple.

        `classes` holds, port by port, the class of each of these keys over the port's input.
        """
        keys = self.output_keys(positions)
        return None if keys is None else single_classes(keys)

    def keys_after(self, keys: Keys) -> Keys | None:
        """Return the same keys in terms of the output, given keys of the input; None if the output does not show them.

        Only a stateless spec is asked.
        """
        return None

    def keys_before(self, keys: Keys) -> Keys | None:
        """Return the same keys in terms of the input, given keys of the output; None if the input does not show them.

        Only a stateless spec with one input is asked.
        """
        return None

    @property
    def output_order(self) -> Order:
        """Return how the output is ordered; readers may rely on it."""
        return Order.OWN

    @property
    def order_matters(self) -> bool:
        """Return whether results depend on the order of tuples; if so, no tuple overtakes another on the way."""
        return not self.is_stateless
