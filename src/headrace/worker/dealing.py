"""Tuples of parcels that a join has in several buckets: dealt to them in turn, or sent to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headrace.commands.allotments import Allotment
from headrace.operators.arrays import Ints


class Dealer:
    """Says where the tuples of one port go.

    Parcels that are not split go by a table. The first tuple to be dealt goes to the bucket of number `turn`.
    """

    def __init__(self, allotment: Allotment, port: int, buckets: Sequence[int], turn: int) -> None:
        places = {bucket: place for place, bucket in enumerate(buckets)}
        self._table = allotment.table(buckets)
        self._is_split = np.zeros(allotment.parcels, np.bool_)
        self._is_split[list(allotment.splits)] = True
        self._splits: Mapping[int, tuple[Ints, bool]] = {
            parcel: (np.array([places[bucket] for bucket in split.buckets], np.int64), split.port == port)
            for parcel, split in allotment.splits.items()
        }
        self._turn = turn

    def send(self, parcels: Ints) -> tuple[Ints | None, Ints]:
        """Return which tuples go where, given their parcels: their numbers (None: all, once), and their places."""
        is_split = self._is_split[parcels]
        if not is_split.any():
            return None, self._table[parcels]
        whole = np.flatnonzero(~is_split)
        rows, places = [whole], [self._table[parcels[whole]]]
        split = np.flatnonzero(is_split)
        for parcel in np.unique(parcels[split]).tolist():
            own, (into, is_dealt) = split[parcels[split] == parcel], self._splits[parcel]
            if is_dealt:
                turns = self._turn + np.arange(len(own))
                rows.append(own)
                places.append(into[turns % len(into)])
                self._turn += len(own)
            else:
                rows.append(np.repeat(own, len(into)))
                places.append(np.tile(into, len(own)))
        order = np.argsort(np.concatenate(rows), kind="stable")  # tuples stay in their order in each bucket
        return np.concatenate(rows)[order], np.concatenate(places)[order]
