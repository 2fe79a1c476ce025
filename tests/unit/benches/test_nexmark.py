"""The bench of Nexmark reads what it has written, and notices a wrong answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HostFault
from headrace.session import Session


@pytest.fixture
def nexmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    import importlib
    import sys

    monkeypatch.setattr(sys, "path", [str(Path(__file__).resolve().parents[3]), *sys.path])
    return importlib.import_module("benches.nexmark")


def test_files_give_the_answers_of_duckdb_and_a_lost_file_is_noticed(nexmark: Any, tmp_path: Path) -> None:
    chosen = nexmark._chosen("q5, q13")
    with nexmark._input(tmp_path, 2, 500, "files") as given:
        streams = dict.fromkeys(text for query in chosen.values() for text in given.streams(query))
        queries = [
            f"CREATE QUERY {name} AS {query.ours} INTO FILES (path '{tmp_path / 'out' / name}')"
            for name, query in chosen.items()
        ]
        with Session(tmp_path / "checkpoint", host="local", limit=460) as session:
            session.execute(";\n".join([*streams, *queries]))
            session.drain()
        for name, query in chosen.items():
            nexmark._check(name, query, given, tmp_path / "out" / name)
        next((tmp_path / "out" / "q13").glob("*.parquet")).unlink()
        with pytest.raises(nexmark.Disagreement, match="q13"):
            nexmark._check("q13", chosen["q13"], given, tmp_path / "out" / "q13")


def test_a_rate_leaves_out_the_first_micro_batch_and_those_that_end_the_run(nexmark: Any) -> None:
    assert nexmark.Run(9.0, (5000.0, 500.0, 400.0, 600.0, 900.0, 10.0, 10.0)).rate(1000, 5) == 2000.0


def test_an_unknown_query_or_input_is_named(nexmark: Any) -> None:
    with pytest.raises(HostFault, match="no query 'q23'"):
        nexmark._chosen("q1,q23")
    with pytest.raises(HostFault, match="no input 'pigeons'"):
        nexmark.main(quick=True, input="pigeons")
