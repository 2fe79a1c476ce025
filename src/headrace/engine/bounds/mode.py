"""How bounds travel through an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BoundsMode:
    """The way of bounds from sources to the operators that wait for them.

    Deployments use PUNCTUATION in the ingest and MICRO_BATCHES in buckets; the other choices exist to compare them.
    """

    registers: bool = False  # bounds go from register to register, past stateless operators, not as punctuation
    absorb: bool = True  # punctuation at the head of a merging operator's input is read at once, not in turn
    folds: bool = False  # of several unread bounds in a row, a buffer keeps only the last
    relaxed: bool = True  # a merging operator goes on with a head at the least register; else every input needs a head
    keep_late: bool = False  # tuples below the register of their input are kept, for `Engine.take_late`


PUNCTUATION: Final = BoundsMode()
MICRO_BATCHES: Final = BoundsMode(registers=True, folds=True)
