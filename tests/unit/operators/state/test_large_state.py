"""Trees of chunks: the same rows as a plain list, few chunks in the way of a search, and little moved at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, Flags, matches
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
        for every, places in matches(sorted_needles[start:stop], chunk.keys):
            meet = chunk.exp[places] >= chunk.ts[places]  # those that have left expired before all time
            mine, theirs = every[meet], places[meet]
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


#: What happens to a side: rows come, or those of some keys leave, or the last that left come back.
STEPS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 40), min_size=1, max_size=30),
        st.sets(st.integers(0, 6), min_size=1, max_size=6),
        st.none(),
    ),
    max_size=25,
)


def of_classes(classes: set[int], column: str = KEY) -> Callable[[pl.DataFrame], Flags]:
    return lambda frame: np.isin(frame[column].to_numpy() % 7, list(classes))


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, preserved=st.booleans(), restarts=st.booleans())
def test_rows_that_leave_are_not_met_and_those_that_come_back_are_met_once(
    steps: list[list[int] | set[int] | None], *, preserved: bool, restarts: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_side, "LARGEST", 8)
        side, stored, away = SortedSide("L", ("v",), preserved=preserved), list[tuple[int, int]](), list[pl.DataFrame]()
        count = 0
        for step in steps:
            before = side.state()
            match step:
                case list():
                    frame = side_rows(step, count)
                    count += len(step)
                    side.insert(frame, frame["v"].to_numpy() % 2 == 0 if preserved else None, BEGIN)
                    stored += list(zip(frame[KEY].to_list(), frame["v"].to_list(), strict=True))
                case set():
                    given_up = side.give(of_classes(step))
                    left = [(key, value) for key, value in stored if key % 7 in step]
                    stored = [pair for pair in stored if pair not in left]
                    assert sorted(v for rows in given_up for v in rows["v"]) == sorted(v for _, v in left)
                    kept = {name: chunk for name, chunk in side.state().items() if KEY in chunk.columns}
                    assert all(chunk is before[name] for name, chunk in kept.items()), "no row is written again"
                    away += given_up
                case None:
                    for rows in away:
                        side.take_in(rows, BEGIN)
                        stored += list(zip(rows[KEY].to_list(), rows["v"].to_list(), strict=True))
                    away = []
            if restarts:
                state, side = side.state(), SortedSide("L", ("v",), preserved=preserved)
                side.restore(state)
                assert all(side.state()[name] is chunk for name, chunk in state.items())
            assert len(side) == len(stored)
            assert found(side, list(range(41))) == sorted(stored)
        assert sorted(v for rows in side.copy(of_classes(set(range(7)))) for v in rows["v"]) == sorted(
            value for _, value in stored
        )
        if preserved:
            waiting = sorted(value for _, value in stored if value % 2)
            assert sorted(value for rows in side.expire(END) for value in rows["v"]) == waiting


def test_chunks_that_lost_most_rows_are_written_anew_as_rows_are_added() -> None:
    side = SortedSide("L", ("v",), preserved=False)
    for number in range(4):
        side.insert(side_rows(list(range(1000 * 2**number)), 0), None, BEGIN)
    side.give(lambda frame: frame[KEY].to_numpy() % 5 > 0)
    assert held_and_stored(side) == (3000, 15000)
    for _ in range(30):
        side.insert(side_rows([7] * 100, 0), None, BEGIN)
    held, stored = held_and_stored(side)
    assert held == 6000
    assert stored < 2 * held


def held_and_stored(side: SortedSide) -> tuple[int, int]:
    """Return how many rows a side has, and how many are stored of it."""
    return len(side), sum(chunk.height for chunk in side.state().values() if KEY in chunk.columns)


def test_rows_that_come_from_elsewhere_leave_chunks_alone_until_there_are_many() -> None:
    side = SortedSide("L", ("v",), preserved=False)
    side.insert(side_rows(list(range(100)), 0), None, BEGIN)
    before = side.state()
    for number in range(50):
        side.take_in(side_rows(list(range(100)), number).reverse(), BEGIN)
        assert number >= FAN - 1 or all(side.state()[name] is chunk for name, chunk in before.items())
        assert len(list(side.chunks())) <= FAN
    assert len(side) == 5100
    assert all((np.diff(chunk.keys) >= 0).all() for chunk in side.chunks())


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


@pytest.mark.slow
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


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, restarts=st.booleans())
def test_groups_that_leave_spread_runs_and_come_back_count_once(
    steps: list[list[int] | set[int] | None], *, restarts: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_tree, "LARGEST", 8)
        spread, counts, away = RunTree("r", "at", sums, ["group"]), Counter[tuple[int, int]](), list[pl.DataFrame]()
        for number, step in enumerate(steps):
            before = spread.state()
            match step:
                case list():
                    frame = pl.DataFrame({"at": [number // 3] * len(step), "group": step, "n": [1] * len(step)})
                    spread.append(frame.cast(dict.fromkeys(frame.columns, pl.Int64)))
                    counts.update((number // 3, group) for group in step)
                case set():
                    away += spread.give(of_classes(step, "group"))
                    counts = Counter({key: n for key, n in counts.items() if key[1] % 7 not in step})
                    kept = {name: chunk for name, chunk in spread.state().items() if "n" in chunk.columns}
                    assert all(chunk is before[name] for name, chunk in kept.items()), "no row is written again"
                case None:
                    horizon = number // 6
                    spread.expire(horizon)
                    counts = Counter({key: n for key, n in counts.items() if key[0] >= horizon})
                    for rows in away:
                        back = rows.filter(pl.col("at") >= horizon)
                        spread.append(back)
                        counts.update({(at, group): n for at, group, n in sums(back).iter_rows()})
                    away = []
            if restarts:
                state, spread = spread.state(), RunTree("r", "at", sums, ["group"])
                spread.restore(state)
                assert all(spread.state()[name] is chunk for name, chunk in state.items())
            parts = spread.between(BEGIN, END)
            found_counts = sums(pl.concat(parts)).iter_rows() if parts else ()
            assert {(at, group): n for at, group, n in found_counts} == dict(counts)
            assert spread.least() == min((at for at, _ in counts), default=END)


@pytest.mark.usefixtures("small_chunks")
def test_rows_that_expire_in_the_micro_batch_in_which_they_came_are_not_handed_down() -> None:
    spread = RunTree("r", "at", sums, ["group"])
    for at in range(5):
        spread.append(pl.DataFrame({"at": [at] * 50, "group": range(50), "n": [1] * 50}))
    spread.expire(5)
    assert not spread.state()
    spread.append(pl.DataFrame({"at": [5] * 50, "group": range(50), "n": [1] * 50}))
    assert {name.partition(".")[0] for name in spread.state()} > {"r~0", "r~7"}, "all others are"


def test_runs_that_lost_most_rows_are_written_anew_as_rows_are_added() -> None:
    frame = pl.DataFrame({"at": [1] * 7000, "group": range(7000), "n": [1] * 7000})
    spread = RunTree("r", "at", sums, ["group"])
    spread.append(frame)
    spread.state()
    spread.give(lambda rows: rows["group"].to_numpy() % 7 > 0)
    assert stored_rows(spread) == 7000
    spread.append(frame[:1])
    assert stored_rows(spread) <= 1001


def stored_rows(tree: RunTree) -> int:
    return sum(chunk.height for chunk in tree.state().values() if "n" in chunk.columns)


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
