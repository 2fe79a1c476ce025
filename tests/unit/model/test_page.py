"""Pages as bytes."""

import gc
import itertools
import sys

import polars as pl
import pytest

from headrace.model.page import Page
from headrace.model.schema import TS

PAGE = Page(pl.DataFrame({TS: [1, 2], "n": [3, None], "name": ["a", "b"]}))


def test_a_page_survives_its_bytes() -> None:
    assert Page.decode(PAGE.encode()).rows.equals(PAGE.rows)


@pytest.mark.parametrize("data", [b"", b"no page", PAGE.encode()[:50]])
def test_other_bytes_are_no_page(data: bytes) -> None:
    with pytest.raises(ValueError, match="this is no page"):
        Page.decode(data)


def test_reading_and_writing_pages_keeps_no_memory() -> None:
    """A worker reads thousands of pages a minute, for months."""
    data = PAGE.encode()
    counts = []
    for _ in range(3):
        for _ in range(500):
            Page.decode(data).encode()
        gc.collect()
        counts.append(sys.getallocatedblocks())
    # what other threads of this process hold may grow meanwhile, but not each time
    assert min(after - before for before, after in itertools.pairwise(counts)) < 100
