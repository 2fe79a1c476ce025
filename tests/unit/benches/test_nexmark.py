"""The benches of Nexmark and of Yahoo read what they have written, and notice a wrong answer."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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

    module, parts = sys.modules[f"benches.{bench}"], sys.modules["benches.parts.beside_peers"]
    chosen = nexmark._chosen(",".join(queries)) if bench == "nexmark" else {"views": module.VIEWS}
    parts.write(module.events_of(1000), tmp_path, 2)
    with parts.opened(tmp_path, "files") as given:
        streams = dict.fromkeys(text for query in chosen.values() for text in given.streams(query))
        texts = [
            f"CREATE QUERY {name} AS {query.ours} INTO FILES (path '{tmp_path / 'out' / name}')"
            for name, query in chosen.items()
        ]
        with Session(tmp_path / "checkpoint", host="local", limit=460) as session:
            session.execute(";\n".join([*streams, *texts]))
            session.drain()
        with parts.answers(given) as known:
            for name, query in chosen.items():
                parts.check(name, query.reference, known, list((tmp_path / "out" / name).glob("*.parquet")))
            last = queries[-1]
            next((tmp_path / "out" / last).glob("*.parquet")).unlink()
            with pytest.raises(parts.Disagreement, match=last):
                parts.check(last, chosen[last].reference, known, list((tmp_path / "out" / last).glob("*.parquet")))
            for name, query in chosen.items():  # Flink's job has the columns of DuckDB's answer, and a time to go by
                job = parts.flink_job(query, given, known, tmp_path)
                assert job["statement"].startswith("INSERT INTO results SELECT")
                assert "`n` BIGINT" in job["tables"][-1] or name == "q13"
                assert "WATERMARK FOR ms" in job["tables"][0]
        for name in module.SCHEMAS if bench == "nexmark" else ("ads",):
            halves = [pq.read_table(file) for file in sorted((tmp_path / "halves" / name).glob("*.parquet"))]
            assert len(halves) == 2
            assert (
                pa.concat_tables(halves)
                .sort_by("at")
                .equals(
                    pa.concat_tables(pq.read_table(tmp_path / name / f"0000{number}.parquet") for number in range(2))
                )
            )
            assert all(half["at"].to_pylist() == sorted(half["at"].to_pylist()) for half in halves)


def test_a_rate_is_that_of_the_second_half_of_the_input(nexmark: Any) -> None:
    import sys

    run = sys.modules["benches.parts.beside_peers"].Run
    batches = (5000.0, 900.0, 400.0, 600.0, 10.0, 10.0)  # the last two close windows
    assert run(9.0, batches, (1000, 2000, 3000, 4000, 4000, 4000)).rate() == 2000.0
    assert run(9.0, batches, (0, 1000, 1500, 2500, 4000, 4000)).rate() == 1500 / 0.01, "a topic gives parts of any size"
    assert run(9.0, batches, (0, 4000, 4000, 4000, 4000, 4000)).rate() is None
    theirs = sys.modules["benches.parts.beside_flink"].FlinkRun
    # half of the tuples, 50, had been read between the second sample and the third, and all at the fourth
    assert theirs(9.0, ((1.0, 0), (2.0, 40), (4.0, 60), (8.0, 100), (8.5, 100))).rate(100) == 10.0
    assert theirs(13.0, ((1.0, 0), (3.0, 50), (8.0, 90))).rate(100) == 5.0  # it ended before the last count
    assert theirs(9.0, ((1.0, 0), (2.0, 40))).rate(100) is None


def test_rows_that_are_not_defined_may_differ_but_none_may_be_missing(nexmark: Any, tmp_path: Path) -> None:
    import sys

    import duckdb

    check, disagreement = (getattr(sys.modules["benches.parts.beside_peers"], n) for n in ("check", "Disagreement"))
    with duckdb.connect() as db:
        for name, written in {"other": "FROM range(1, 11)", "fewer": "FROM range(9)"}.items():
            db.execute(f"COPY ({written}) TO '{tmp_path / name}' (FORMAT parquet)")
        check("q", "FROM range(10)", db, [tmp_path / "other"], 0.1)
        for name, share in (("other", 0.0), ("other", 0.09), ("fewer", 0.5)):
            with pytest.raises(disagreement):
                check("q", "FROM range(10)", db, [tmp_path / name], share)


def test_what_flink_refuses_is_told_with_its_reason(nexmark: Any) -> None:
    import sys

    told = sys.modules["benches.parts.beside_flink"].told
    assert told({"seconds": 2.0, "read": [[1.0, 5]]}).read == ((1.0, 5),)
    trace = "An error\n\tat some.Place\nCaused by: too wide\n\tat other.Place\nCaused by: no key\n"
    with pytest.raises(HostFault, match="no key"):
        told({"error": trace})
    with pytest.raises(HostFault, match="An error"):
        told({"error": "An error\n\tat some.Place"})


def test_the_tuples_of_files_and_topics_are_counted_at_the_sources_of_a_job(nexmark: Any) -> None:
    import importlib

    reads = importlib.import_module("benches.flink.counting").reads
    files = "Source: bid[1] -> Calc[2] -> Sink: Writer"
    topic = "Source: KafkaSource-default_catalog.default_database.bid -> Calc[2]"
    assert reads(files, "bid")
    assert reads(topic, "bid")
    assert reads("Source: KafkaSource-default_catalog.default_database.bid", "bid")
    assert not reads("Source: KafkaSource-default_catalog.default_database.bidder -> Calc[2]", "bid")
    assert not reads("Source: bidder[1]", "bid")
    assert not reads("Join[5] -> Calc[6]", "bid")


def test_all_systems_read_the_same_times_from_topics(nexmark: Any) -> None:
    import sys

    at = dt.datetime(2026, 1, 1, 0, 0, 0, 1001, dt.UTC)
    rows = pa.table({"n": [7], "at": pa.array([at], pa.timestamp("us", "UTC"))})
    lines = sys.modules["benches.parts.topics"].lines_of(rows)
    assert [json.loads(line) for line in lines] == [{"n": 7, "at": "2026-01-01 00:00:00.001001"}]
    source = sys.modules["benches.parts.beside_flink"].topic_source("bid", "n BIGINT, at TIMESTAMP", "localhost:9")
    assert "'json.timestamp-format.standard' = 'SQL'" in source  # a blank between day and time; ISO-8601 has a T
    assert "'scan.bounded.mode' = 'latest-offset'" in source  # without an end, the job would never end


def test_every_query_has_a_text_for_flink_and_most_for_spark(nexmark: Any) -> None:
    queries = nexmark.QUERIES
    assert list(queries) == [f"q{number}" for number in range(23)]
    assert all(query.flink is not None for query in queries.values())
    assert [name for name, query in queries.items() if query.spark is None] == ["q4", "q6", "q9"]
    assert all(query.refusal for query in queries.values() if query.spark is None)


def test_a_cut_run_is_continued_and_summed_up(nexmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import contextlib
    import sys

    measured = sys.modules["benches.parts.beside_peers"].Measured
    asked: list[str] = []

    def measure(name: str, query: Any, place: Any) -> Any:
        asked.append(name)
        if name == "q2":
            raise KeyboardInterrupt
        rates = {"ours": 300.0, "spark": 100.0, "flink": 200.0 if name == "q0" else 400.0}
        return measured(rates, {"ours": 1.0}, {}, {})

    monkeypatch.setattr(nexmark, "measure", measure)
    monkeypatch.setattr(nexmark, "start_once", lambda: None)
    monkeypatch.setattr(nexmark, "whole_times", lambda *_: {"ours": 2.0, "spark": 8.0, "flink": 4.0})
    monkeypatch.setattr(nexmark, "prepared", lambda *_, **__: contextlib.nullcontext(_Place))
    kept: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        nexmark.main(quick=True, queries="q0,q1,q2", keep=lambda figures: kept.append(dict(figures)))
    assert list(kept[-1]["cases"]) == ["q0", "q1"]
    assert kept[-1]["newest"].startswith("q1: Headrace 300, Spark 100, Flink 400 tuples/s")
    monkeypatch.setattr(nexmark, "QUERIES", {name: nexmark.QUERIES[name] for name in ("q0", "q1", "q12")})
    monkeypatch.setattr(nexmark, "WARM_UP", ("q12",))
    asked.clear()
    figures = nexmark.main(quick=True, earlier=kept[-1])
    assert asked == ["q12"]
    rows = {row["case"]: row for row in figures["rows"]}
    assert rows["q0, stateless"]["ratio"] == 1.5  # to the better peer
    assert rows["ahead of Flink, queries of 3"] == {
        "case": "ahead of Flink, queries of 3", "ours": 1, "target": 3, "verdict": "missed"
    }  # fmt: skip
    assert rows["geometric mean to Spark, 3 queries"]["ours"] == pytest.approx(3.0)
    assert rows["q0, a command"]["ratio"] == 2.0
    assert [panel.title for panel in figures["panels"]] == [
        "queries without state", "queries with state", "as a command, with start-up"
    ]  # fmt: skip
    asked.clear()
    assert nexmark.main(quick=True, earlier=figures)["rows"] == figures["rows"]  # nothing is left to do
    nexmark.main(quick=False, earlier=figures)  # of another size
    assert asked == ["q0", "q1", "q12"]


class _Place:
    given = None


def test_an_input_is_made_once_and_anew_if_the_program_changes(
    nexmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    parts = sys.modules["benches.parts.beside_peers"]
    monkeypatch.setattr(parts, "KEPT", tmp_path / "kept")
    made: list[int] = []

    def events_of(count: int) -> Any:
        made.append(count)
        return nexmark.events_of(count)

    program = tmp_path / "program.py"
    for text, times in (("first", 1), ("first", 1), ("second", 2)):
        program.write_text(text)
        folder = parts.kept("nexmark", events_of, parts.Size(2, 50), [str(program)])
        assert made == [100] * times
        assert list((tmp_path / "kept").iterdir()) == [folder]
        with parts.opened(folder, "files") as given:
            assert (given.batches, given.parts) == (2, {"person": 1, "auction": 3, "bid": 46})


def test_the_notes_say_when_results_are_published(nexmark: Any) -> None:
    import sys

    case = {
        "rates": {"ours": 1.0, "flink": 1.0}, "seconds": {"ours": 9.0, "flink": 8.0}, "refusals": {}, "differs": [],
        "batch_ms": {"ours": [9000.0, 8000.0, 300.0, 500.0]},
    }  # fmt: skip
    note = sys.modules["benches.parts.peer_figures"].note_of("q0", case)
    assert note == "q0: Headrace 9.0 s, Flink 8.0 s; results come every 0.40 s (Headrace), 10 s (Flink)"


def test_an_unknown_query_peer_or_input_is_named(nexmark: Any) -> None:
    with pytest.raises(HostFault, match="no query 'q23'"):
        nexmark._chosen("q1,q23")
    with pytest.raises(HostFault, match="no peer 'storm'"):
        nexmark.main(quick=True, peers="flink,storm")
    with pytest.raises(HostFault, match="no input 'pigeons'"):
        nexmark.main(quick=True, input="pigeons")
