"""Tracks: which epochs of the states a way searches while the plan changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

#: From which epoch and before which one to search, and whether all parts of what is found are new.
Range: TypeAlias = tuple[int | None, int | None, bool]


class Track:
    """A way through all rows."""

    #: Whether the way fills all its states; else only those that the old tree does not fill.
    fills_all = True

    def ranges(self, is_new: bool, *, is_last: bool) -> Sequence[Range]:
        """Return what rows search, given whether all their parts are new, and whether this is the last step."""
        return ((None, None, True),)


class OldTrack(Track):
    """The old tree while both run: it gives all combinations with an old part.

    At the root, rows that are all new meet only old ones. Below it they are kept apart from the others.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def ranges(self, is_new: bool, *, is_last: bool) -> Sequence[Range]:
        if not is_new:
            return ((None, None, False),)
        old = (None, self._epoch, False)
        return (old,) if is_last else (old, (self._epoch, None, True))


class NewTrack(Track):
    """The new tree while both run: it sees new rows only."""

    fills_all = False

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def ranges(self, is_new: bool, *, is_last: bool) -> Sequence[Range]:
        return ((self._epoch, None, True),)


class OldRows(Track):
    """A way through old rows only, to fill the states of a new tree."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def ranges(self, is_new: bool, *, is_last: bool) -> Sequence[Range]:
        return ((None, self._epoch, True),)


ALL = Track()
