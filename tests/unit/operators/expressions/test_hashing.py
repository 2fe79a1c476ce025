"""Hashes of texts: buckets and sorted state depend on them, so they never change."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.expressions import hashing
from headrace.operators.expressions.hashing import hash_columns

_KNOWN = {
    "": 13020603013274838756,
    "a": 3405396810240292928,
    "Zürich": 636548684707296368,
    None: 7640891576956012808,
}


@given(st.lists(st.none() | st.text(max_size=80), min_size=1))
def test_texts_have_the_same_hashes_however_many_there_are(texts: list[str | None]) -> None:
    column = pl.Series(texts, dtype=pl.String)
    few = hash_columns([column]).tolist()
    binary = hash_columns([column.cast(pl.Binary)]).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "_REMEMBERED", 0)
        assert hash_columns([column]).tolist() == few
        assert hash_columns([column.cast(pl.Binary)]).tolist() == few
    assert binary == few


def test_hashes_are_those_of_every_version() -> None:
    assert dict(zip(_KNOWN, hash_columns([pl.Series(list(_KNOWN))]).tolist(), strict=True)) == _KNOWN
