"""Random joins of three and four streams that have no key in common, and tuples that often meet."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from headrace.catalog.definitions import Stream
from headrace.model.time import SECOND
from headrace.testing.oracle.oracle import Row
from headrace.testing.strategies.queries import STREAMS

#: The aliases of the inputs.
ALIASES = "wxyz"
#: Which input is joined with which, by number; no key is in all of these inputs if neighbors alternate.
_SHAPES = (
    ((0, 1), (1, 2)),  # a chain
    ((0, 1), (1, 2), (0, 2)),  # a triangle
    ((0, 1), (1, 2), (2, 3)),
    ((0, 1), (1, 2), (1, 3)),  # a star
    ((0, 1), (2, 3)),  # two pairs that meet by chance
    ((0, 1), (1, 2), (2, 3), (0, 3)),
)
#: Inputs that need keys of their own before they are joined.
_COMPUTED = (
    "(SELECT item, count(*) AS n FROM bids [RANGE 2 SECONDS] GROUP BY item)",
    "(SELECT item, n FROM asks UNION ALL SELECT item, n FROM moves)",
)
_KEYS = ("{}.item = {}.item", "{}.n = {}.n", "{}.n = {}.n + 1", "{}.n % 2 = {}.n % 2")


@st.composite
def dense_histories(draw: DrawFn, *, most: int = 9) -> dict[str, list[Row]]:
    """Draw tuples of few keys and near each other in time for each of STREAMS, in arrival order, none of them late.

    A stream may be silent. Most tuples are drawn by a seed: draws one by one would mostly give tuples that never meet.
    """
    chance, drawn = random.Random(draw(st.integers(0, 10**6))), dict[str, list[Row]]()
    silent = draw(st.sampled_from([None, None, None, *(stream.name for stream in STREAMS)]))
    for stream in STREAMS:
        count = 0 if stream.name == silent else chance.randint(most // 2, most)
        arrivals = sorted((chance.randint(0, 12), chance.randint(0, stream.skew // SECOND)) for _ in range(count))
        drawn[stream.name] = [
            Row(ts, _tuple(stream, ts, chance), seq)
            for seq, ts in enumerate(max(0, tick - delay) * SECOND // 2 for tick, delay in arrivals)
        ]
    return drawn


def _tuple(stream: Stream, ts: int, chance: random.Random) -> dict[str, Any]:
    choices = {"item": "aabbc", "n": (0, 1, 1, 2), "price": (1.5,), "up": (True,)}
    drawn = {name: chance.choice(some) if chance.random() < 0.9 else None for name, some in choices.items()}
    return {name: {"at": ts, **drawn}[name] for name in stream.schema.names}


@st.composite
def joins_by_different_keys(draw: DrawFn) -> str:
    """Draw a join whose inputs have different keys, with all kinds of time windows, perhaps with an aggregate."""
    edges = draw(st.sampled_from(_SHAPES))
    aliases = ALIASES[: max(max(edge) for edge in edges) + 1]
    window = st.sampled_from([*(f"RANGE {span} SECONDS" for span in (2, 3, 4, 5, 6)), "NOW", "UNBOUNDED"])
    origin = st.sampled_from([*(stream.name for stream in STREAMS), *(stream.name for stream in STREAMS), *_COMPUTED])
    items = [f"{draw(origin)} [{draw(window)}] AS {alias}" for alias in aliases]
    keys = draw(st.permutations(_KEYS))
    terms = [keys[place % len(keys)].format(aliases[one], aliases[other]) for place, (one, other) in enumerate(edges)]
    terms += draw(st.sampled_from([[], [], ["w.n < y.n"], ["w.n > 0"], ["w.item = w.item AND x.n + y.n > 1"]]))
    order = draw(st.permutations(range(len(items))))
    text = f"{', '.join(items[place] for place in order)} WHERE {' AND '.join(terms)}"
    columns = "w.n AS a, x.item AS b, y.n AS c" + (", z.n AS d" if len(aliases) > 3 else "")
    if draw(st.integers(0, 2)):
        return f"SELECT {columns} FROM {text}"
    inner = f"(SELECT w.item, x.n FROM {text})"
    return f"SELECT v.item AS i, count(*) AS m FROM {inner} [RANGE 4 SECONDS] AS v GROUP BY v.item"
