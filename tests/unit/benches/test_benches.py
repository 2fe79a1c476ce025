"""The benchmarks' own parts: data that repeats, queries that bind, and a check that can fail."""

import importlib
import json
import sys
from pathlib import Path

import polars as pl
import pytest

from headrace.session import Session

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def benches(monkeypatch):
    """Import a module of benches/ as `headrace bench` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name: importlib.import_module(f"benches.{name}")


def test_the_same_seed_gives_the_same_bids_in_order_of_time(benches, tmp_path):
    first, second = (
        benches("parts.bids").write_bids(tmp_path / name, 5000, per_file=2000, seed=7) for name in ("a", "b")
    )
    rows = pl.concat([pl.read_parquet(path) for path in sorted(first.folder.iterdir())])
    assert rows.equals(pl.concat([pl.read_parquet(path) for path in sorted(second.folder.iterdir())]))
    assert rows["at"].is_sorted()
    assert rows.height == 5000 + first.tail
    assert 0.1 < rows.filter(pl.col("price") > benches("parts.bids").DEAR).height / 5000 < 0.2


def test_queries_of_the_bench_give_what_polars_counts(benches, tmp_path):
    bids = benches("parts.bids").write_bids(tmp_path / "bids", 3000, per_file=1000, seed=7, per_second=100)
    queries = benches("parts.query")
    chosen = {"dear": queries.dear(190.0), "counts": queries.tumbling(10), "hops": queries.hopping(10, 2)}
    with Session(tmp_path / "checkpoint", host="local", limit=1000) as session:
        session.execute(bids.stream("bids"))
        session.execute(
            ";\n".join(
                f"CREATE QUERY {name} AS {query.text} INTO FILES (path '{tmp_path / name}')"
                for name, query in chosen.items()
            )
        )
        session.drain()
    sums = {name: benches("parts.ours").sums_of(tmp_path / name, query) for name, query in chosen.items()}
    assert sums["counts"]["n"] == 3000
    assert sums["hops"]["n"] == 15000
    price = pl.read_parquet(tmp_path / "bids" / "*.parquet")["price"]
    assert sums["dear"]["price"] == pytest.approx(price.filter(price > 190.0).sum() * 0.908)


def test_different_results_are_told_loudly(benches):
    outcome = benches("parts.outcome")
    mine, other = (outcome.Outcome(1.0, ((1.0,),), {"q": {"rows": 3.0, "n": n}}) for n in (7.0, 8.0))
    outcome.check_equal("case", mine, mine)
    with pytest.raises(outcome.Disagreement, match="query q"):
        outcome.check_equal("case", mine, other)


def test_the_lines_of_json_that_are_measured_are_good_ones(benches, tmp_path):
    bench = benches("json_lines")
    for name, (columns, _) in bench.FILES.items():
        bench.write(tmp_path / name, name, 100)
        _, rows, total = bench.ours(tmp_path / name, columns)
        prices = [json.loads(line)["price"] for line in (tmp_path / name).read_text().splitlines()]
        assert (rows, total) == (100, pytest.approx(sum(prices)))
