from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SourceFault
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.testing.oracle.oracle import Row, split_late
from headrace.testing.sources import ScriptedSource
from headrace.testing.troublemaker import TroubledSource, Troublemaker

X = Schema.of(x=Type.BIGINT)
ROWS = [Row(ts * 3, {"x": ts}) for ts in range(40)]


def read_all(source) -> list[int]:
    """As a host does: a split that fails is read again, and what it gave before does not count."""
    found: list[int] = []
    offset = None
    while not source.finished(offset):
        end = source.latest(offset, now=0, limit=100)
        for split in source.splits(offset, end, parallel=3) if end != offset else ():
            for _ in range(10):
                try:
                    got = [x for piece in source.read(split) for x in piece.rows["x"]]
                except SourceFault:
                    continue
                found += got
                break
        offset = end
    return found


@given(st.integers(0, 2**32))
def test_trouble_loses_and_repeats_nothing(seed):
    source = ScriptedSource(X, Troublemaker(seed).steps(ROWS))
    assert read_all(TroubledSource(source, seed)) == list(range(40))


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_disorder_stays_within_the_skew(seed, skew):
    disordered = Troublemaker(seed).reorder(ROWS, skew)
    kept, late = split_late(disordered, skew)
    assert (len(kept), late) == (len(ROWS), [])
    assert sorted(row.ts for row in disordered) == [row.ts for row in ROWS]


def test_the_same_seed_makes_the_same_trouble():
    assert Troublemaker(7).cut(ROWS) == Troublemaker(7).cut(ROWS)
    assert Troublemaker(7).reorder(ROWS, 30) != Troublemaker(8).reorder(ROWS, 30)
