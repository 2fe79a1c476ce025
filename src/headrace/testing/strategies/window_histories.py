"""Hypothesis strategy for what windows see: pages, bounds and restarts."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.model.time import END
from headrace.testing.windows import History


@st.composite
def histories(draw: st.DrawFn, *, most: int = 5) -> History:
    """Draw pages, bounds that hold, and restarts, up to `most` bounds."""
    bound, seq = draw(st.integers(-20, 5)), 0
    items: History = []
    for _ in range(draw(st.integers(1, most))):
        for _ in range(draw(st.integers(0, 3))):
            values = st.tuples(
                st.integers(0, 25), st.sampled_from([None, 0, 1]), st.sampled_from([None, -2.0, 0.0, 1.0, 3.0])
            )
            rows = [
                {"ts": bound + dt, "seq": seq + i, "k": k, "v": v}
                for i, (dt, k, v) in enumerate(draw(st.lists(values, max_size=5)))
            ]
            seq += len(rows)
            items.append(rows)
            if draw(st.integers(0, 3)) == 0:
                items.append(None)
        bound += draw(st.integers(0, 15))
        items.append(bound)
    return [*items, END]
