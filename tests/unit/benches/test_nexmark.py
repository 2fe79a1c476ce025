"""The benches of Nexmark and of Yahoo read what they have written, and notice a wrong answer."""

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
    importlib.import_module("benches.ysb")
    return importlib.import_module("benches.nexmark")


@pytest.mark.parametrize(("bench", "queries"), [("nexmark", ("q5", "q13")), ("ysb", ("views",))])
def test_files_give_the_answers_of_duckdb_and_a_lost_file_is_noticed(
    bench: str, queries: tuple[str, ...], nexmark: Any, tmp_path: Path
) -> None:
    import sys

    module, parts = sys.modules[f"benches.{bench}"], sys.modules["benches.parts.beside_spark"]
    chosen = nexmark._chosen(",".join(queries)) if bench == "nexmark" else {"views": module.VIEWS}
    with parts.written(module.events_of(1000), tmp_path, 2, "files") as given:
        streams = dict.fromkeys(text for query in chosen.values() for text in given.streams(query))
        texts = [
            f"CREATE QUERY {name} AS {query.ours} INTO FILES (path '{tmp_path / 'out' / name}')"
            for name, query in chosen.items()
        ]
        with Session(tmp_path / "checkpoint", host="local", limit=460) as session:
            session.execute(";\n".join([*streams, *texts]))
            session.drain()
        for name, query in chosen.items():
            parts.check(name, query, given, tmp_path / "out" / name)
        last = queries[-1]
        next((tmp_path / "out" / last).glob("*.parquet")).unlink()
        with pytest.raises(parts.Disagreement, match=last):
            parts.check(last, chosen[last], given, tmp_path / "out" / last)


def test_a_rate_leaves_out_the_first_micro_batch_and_those_that_end_the_run(nexmark: Any) -> None:
    import sys

    run = sys.modules["benches.parts.beside_spark"].Run
    assert run(9.0, (5000.0, 500.0, 400.0, 600.0, 900.0, 10.0, 10.0)).rate(1000, 5) == 2000.0


def test_an_unknown_query_or_input_is_named(nexmark: Any) -> None:
    with pytest.raises(HostFault, match="no query 'q23'"):
        nexmark._chosen("q1,q23")
    with pytest.raises(HostFault, match="no input 'pigeons'"):
        nexmark.main(quick=True, input="pigeons")
