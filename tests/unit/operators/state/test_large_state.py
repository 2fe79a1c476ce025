"""Trees of chunks: the same rows as a plain list, few chunks in the way of a search, and little moved at once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, matches
from headrace.operators.state import run_tree, sorted_side
from headrace.operators.state.key_tree import FAN
from headrace.operators.state.run_tree import RunTree
from headrace.operators.state.runs import Runs
from headrace.operators.state.sorted_side import SortedSide


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_side, "LARGEST", 8)
    monkeypatch.setattr(run_tree, "LARGEST", 8)


def side_rows(keys: list[int], first: int) -> pl.DataFrame:
    frame = pl.DataFrame(
        {"v": range(first, first + len(keys)), TS: [5] * len(keys), EXPIRY: [END] * len(keys), KEY: keys}
    )
    return frame.cast(dict.fromkeys(frame.columns, pl.Int64)).sort(KEY, maintain_order=True)


def found(side: SortedSide, needles: list[int]) -> list[tuple[int, int]]:
    """(needle, value) of all rows that a probe finds."""
    sorted_needles, pairs = np.sort(np.array(needles, np.int64)), []
    for chunk, start, stop in side.meeting(sorted_needles):
        for mine, theirs in matches(sorted_needles[start:stop], chunk.keys):
            pairs += list(
                zip(sorted_needles[mine + start].tolist(), chunk.rows["v"].to_numpy()[theirs].tolist(), strict=True)
            )
    return sorted(pairs)


@pytest.mark.usefixtures("small_chunks")
@settings(deadline=None, max_examples=40)
@given(
    pages=st.lists(
        st.lists(st.one_of(st.integers(0, 40), st.integers(-(2**62), 2**62), st.just(7)), min_size=1, max_size=30),
        max_size=25,
    ),
    preserved=st.booleans(),
    restarts=st.booleans(),
)
def test_a_probe_finds_what_a_plain_list_holds(pages: list[list[int]], *, preserved: bool, restarts: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_side, "LARGEST", 8)
        side, stored = SortedSide("L", ("v",), preserved=preserved), list[tuple[int, int]]()
        for page in pages:
            frame = side_rows(page, len(stored))
            marked = frame["v"].to_numpy() % 2 == 0
            side.insert(frame, marked if preserved else None, BEGIN)
            stored += list(zip(frame[KEY].to_list(), frame["v"].to_list(), strict=True))
            if restarts:
                before, side = side.state(), SortedSide("L", ("v",), preserved=preserved)
                side.restore(before)
                assert all(side.state()[name] is chunk for name, chunk in before.items())
        needles = sorted({key for key, _ in stored} | {7, 1000})
        assert found(side, needles) == sorted(stored)
        assert len(side) == len(stored)
        for chunk in side.chunks():
            assert (np.diff(chunk.keys) >= 0).all()
            assert len(chunk) <= 8
            assert chunk.done is None or (chunk.done == (chunk.rows["v"].to_numpy() % 2 == 0)).all(), (
                "marks move with their rows"
            )


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_a_key_is_looked_for_in_few_chunks_and_a_page_moves_few_rows() -> None:
    side, chance, known = SortedSide("L", ("v",), preserved=False), np.random.default_rng(3), set[str]()
    most = 0
    for i in range(1500):
        side.insert(side_rows(chance.integers(0, 10**6, 2).tolist(), 0), None, BEGIN)
        fresh = {chunk.name: len(chunk) for chunk in side.chunks() if chunk.name not in known}
        known |= fresh.keys()
        most = max(most, sum(fresh.values()) if i else 0)
    assert len(side) == 3000
    assert len(list(side.chunks())) > 300
    assert len(list(side.meeting(np.array([500_000])))) < 8 * FAN
    # those of two children, and the chunks that they were merged with; not those of a node, which are FAN chunks
    assert most <= (FAN - 2) * 8


@pytest.mark.usefixtures("small_chunks")
def test_trees_that_grow_alike_and_are_restored_after_each_page_hand_rows_down_one_after_the_other() -> None:
    chance, trees = np.random.default_rng(3), 3
    sides = [SortedSide(f"{port}:0@0", ("v",), preserved=False) for port in range(trees)]
    known, moves = set[str](), list[int]()  # how many trees hand rows down, by page
    for _ in range(300):
        moved = 0
        for place, side in enumerate(sides):
            side.insert(side_rows(chance.integers(0, 10**6, 1).tolist(), 0), None, BEGIN)
            before = side.state()
            handed = {name for name in before if "~" in name} - known
            known |= handed
            moved += bool(handed)
            sides[place] = SortedSide(side.name, ("v",), preserved=False)
            sides[place].restore(before)
        moves.append(moved)
    assert sum(moves) > trees * 20
    assert max(moves) < trees
    # one child of each tree for eight rows that come, and a few more where its rounds meet; not all eight
    assert max(sum(moves[page : page + 8]) for page in range(len(moves))) <= 2 * trees + 2


@pytest.mark.usefixtures("small_chunks")
def test_rows_of_one_key_stay_where_they_are() -> None:
    side = SortedSide("L", ("v",), preserved=False)
    for _ in range(200):
        side.insert(side_rows([7] * 8, 0), None, BEGIN)
    names = [chunk.name for chunk in side.chunks()]
    assert len(names) == 200
    assert {name.split("/")[1] for name in names} == {"never"}


def sums(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("at", "group").agg(pl.col("n").sum())


@settings(deadline=None, max_examples=40)
@given(
    pages=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.one_of(st.integers(0, 300), st.none())), min_size=1, max_size=30),
        max_size=25,
    ),
    horizon=st.integers(0, 9),
    restarts=st.booleans(),
)
def test_spread_runs_hold_what_plain_runs_hold(
    pages: list[list[tuple[int, int | None]]], horizon: int, *, restarts: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_tree, "LARGEST", 8)
        plain, spread = Runs("r", "at", sums), RunTree("r", "at", sums, ["group"])
        for i, page in enumerate(pages):
            frame = pl.DataFrame(
                [(at, group, 1) for at, group in page],
                schema={"at": pl.Int64, "group": pl.Int64, "n": pl.Int64},
                orient="row",
            )
            if i > len(pages) // 2:
                for runs in (plain, spread):
                    runs.expire(horizon)
                frame = frame.filter(pl.col("at") >= horizon)
            for runs in (plain, spread):
                runs.append(frame)
            if restarts:
                before, spread = spread.state(), RunTree("r", "at", sums, ["group"])
                spread.restore(before)
                assert all(spread.state()[name] is chunk for name, chunk in before.items())
        assert spread.least() == plain.least()
        for low, high in ((BEGIN, END), (3, 6)):
            one, two = ([*runs.between(low, high)] for runs in (plain, spread))
            assert bool(one) == bool(two)
            if one:
                assert sums(pl.concat(one)).sort("at", "group").equals(sums(pl.concat(two)).sort("at", "group"))


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_groups_that_come_again_do_not_make_spread_runs_grow() -> None:
    spread = RunTree("r", "at", sums, ["group"])
    for _ in range(60):
        spread.append(
            pl.DataFrame(
                {"at": [0] * 200, "group": range(200), "n": [1] * 200},
                schema_overrides={"at": pl.Int64, "group": pl.Int64},
            )
        )
        spread.state()
    assert len(spread) <= 5 * 200
    assert max(frame.height for frame in spread.state().values()) <= 200 + 8
