from __future__ import annotations

import polars as pl
import pytest

from headrace.operators.state import run_tree
from headrace.operators.state.run_tree import RunTree
from headrace.operators.state.runs import Runs


def merge(rows: pl.DataFrame) -> pl.DataFrame:
    gathered = pl.col("values").explode(empty_as_null=False, keep_nulls=False)
    return rows.group_by("at", "key", maintain_order=True).agg(gathered)


def part(number: int, keys: int = 4) -> pl.DataFrame:
    """Return ten new values of each key."""
    values = [list(range(number * 10, number * 10 + 10))] * keys
    return pl.DataFrame({"at": [0] * keys, "key": list(range(keys)), "values": values})


def test_groups_that_gather_values_are_not_rewritten_with_each_of_them() -> None:
    runs, seen, written = Runs("run", "at", merge), set[int](), 0
    kept: list[pl.DataFrame] = []  # so that no id comes again
    for number in range(64):
        runs.append(part(number))
        for chunk in runs.state().values():
            if id(chunk) not in seen:
                seen.add(id(chunk))
                kept.append(chunk)
                written += int(chunk["values"].list.len().sum())
    gathered = merge(pl.concat(runs.between(-1, 1)))
    assert gathered["values"].list.sort().to_list() == [list(range(640))] * 4
    whole = 64 * 40
    assert written <= 8 * whole, "a logarithmic number of times; with every part it would be 32 times"


def test_a_node_hands_down_groups_with_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tree, "LARGEST_BYTES", 8 * 1000)
    tree = RunTree("run", "at", merge, ["key"])
    for number in range(30):
        tree.append(part(number))
        tree.state()
    assert len({name.split(".")[0] for name in tree.state()}) > 1
    restored = RunTree("run", "at", merge, ["key"])
    restored.restore(tree.state())
    for one in (tree, restored):
        gathered = merge(pl.concat(one.between(-1, 1))).sort("key")
        assert gathered["values"].list.sort().to_list() == [list(range(300))] * 4
