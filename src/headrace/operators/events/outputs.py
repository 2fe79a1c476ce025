"""What a detection tells: the columns of its rows."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Pick(Struct, frozen=True, tag="pick"):
    """A column of a part; of several tuples the newest's, NULL if there is none."""

    name: str
    part: str
    column: str


class Count(Struct, frozen=True, tag="count"):
    """How many tuples of a part there are."""

    name: str
    part: str


class Started(Struct, frozen=True, tag="started"):
    """The time of the first constituent."""

    name: str


class Ended(Struct, frozen=True, tag="ended"):
    """The time of detection, which is also the timestamp."""

    name: str


Output: TypeAlias = Pick | Count | Started | Ended
