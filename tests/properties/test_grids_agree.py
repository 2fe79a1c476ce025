"""Joins of streams with different keys, in a grid and with exchanges: both give what the oracle says."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.live import check_agreement, examples, expected_of, live, until

from headrace.errors import NotSupported
from headrace.operators.specs import MultiJoin
from headrace.testing.oracle.oracle import Row
from headrace.testing.strategies.grid_queries import dense_histories, joins_by_different_keys

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER SYSTEM SET ets = 'periodic 3 s'",
    "ALTER QUERY live SET scheduler = 'chain'",
)


def plans(labels: Sequence[str]) -> tuple[str, ...]:
    (first, *rest), (*others, last) = labels, labels
    return "mjoin", "left-deep", f"({first} ({' '.join(rest)}))", f"(({' '.join(others)}) {last})"


def run_live(
    text: str, histories: Mapping[str, Sequence[Row]], mode: str, buckets: int, size: int, seed: int
) -> tuple[list[Row], bool]:
    """Push every tuple at its time; change the plan and the number of buckets meanwhile. Also say if it is a grid."""
    chance = random.Random(seed)
    setup = f"ALTER SYSTEM SET grid = '{mode}'"
    with live(text, histories, buckets, setup=setup, size=size, forgetful=bool(seed % 2)) as run:
        session = run.session
        running = run.deployment.intake.deployments.newest()
        boxes = [vertex.spec for vertex in running.queries[0].graph if isinstance(vertex.spec, MultiJoin)]
        for arrival in run.arrivals:
            run.push(arrival)
            if chance.random() < 0.4:
                continue
            for box in boxes:
                if chance.random() < 0.3:
                    session.execute(f"ALTER QUERY live SET plan = '{chance.choice(plans(box.labels))}'")
            if chance.random() < 0.1:
                session.execute(chance.choice(MORE))
            if chance.random() < 0.1:
                session.execute(f"ALTER SYSTEM SET buckets = {chance.choice((1, 2, 3, 4, 6))}")
            if chance.random() < 0.1:
                with suppress(NotSupported):
                    session.execute(f"MOVE PARCELS 0 OF live TO BUCKET {running.in_use(range(buckets))[0]}")
            run.deployment.step()
        session.drain(timeout=30)
    return run.results, any(box.grid for box in boxes)


@pytest.mark.slow
def test_a_grid_and_exchanges_agree_with_the_oracle() -> None:
    in_grids = 0  # results of grids with several cells

    @examples(EXAMPLES)
    @given(
        joins_by_different_keys(),
        dense_histories(),
        st.sampled_from([1, 2, 3, 4, 6]),
        st.sampled_from([1, 3, 10_000]),
        st.integers(0, 10**6),
    )
    def run(text: str, histories: dict[str, list[Row]], buckets: int, size: int, seed: int) -> None:
        nonlocal in_grids
        expected = expected_of(text, histories)
        for mode in ("on", "off"):
            results, is_grid = run_live(text, histories, mode, buckets, size, seed)
            assert not is_grid or mode == "on"
            in_grids += len(results) if is_grid and buckets > 1 else 0
            check_agreement(results, expected, f"{mode}: ")

    until(run, lambda: in_grids > 0)
