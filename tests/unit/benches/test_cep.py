"""The rates of the bench of patterns."""

import importlib
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest


@pytest.fixture
def cep(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).resolve().parents[3]), *sys.path])
    return importlib.import_module("benches.cep")


def test_a_rate_is_that_of_the_second_half_without_the_end_of_the_input(cep):
    assert cep.steady_rate(390, 100, [9000, 500, 50, 45, 7000]) == 190 / 0.095
    assert cep.steady_rate(50, 100, [250, 1]) == 200


def test_both_systems_have_rates_and_whole_times_by_the_same_rule(cep):
    pattern, matching = cep.PATTERNS[4], cep.matching
    bids = cep.Bids(Path("files"), Path("halves"), 1000)
    found = pl.DataFrame({name: [1] for name in pattern.names})
    took = sys.modules["benches.parts.beside_flink"].FlinkRun(8.0, ((3.0, 400), (4.0, 600), (5.5, 1000)))
    figures: dict[str, Any] = {"cases": {}, "rows": [], "notes": []}
    mine = cep.Run(found, 4.0, 800.0, 2.0, 8)
    cep._add(pattern, bids, mine, cep._flinks(matching.Detected(found, took, 5.0), bids), figures)
    (case,) = figures["cases"].values()
    assert case["peers"] == {"flink": 250.0}, "500 bids in the 2 s since half of them had been read"
    assert case["ratio"] == 3.2
    assert case["seconds"] == {"ours": 4.0, "flink": 8.0}
    assert case["cpu"] == {"ours": 2.0, "flink": 5.0}
    assert figures["rows"][0]["verdict"] == "met"
    assert "Flink 8.0 s, 2.00 times ours, 5.0 s of processor time, 2.50 times ours" in figures["notes"][0]


def test_without_counts_of_its_sources_flink_has_the_rate_of_the_whole_time(cep):
    bids = cep.Bids(Path("files"), Path("halves"), 1000)
    took = sys.modules["benches.parts.beside_flink"].FlinkRun(8.0, ())
    assert cep._flinks(cep.matching.Detected(pl.DataFrame(), took, 5.0), bids).rate == 125.0
