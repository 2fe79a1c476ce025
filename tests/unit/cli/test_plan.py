"""`headrace plan`: forecasts without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.cli.test import checkout

STREAMS = """CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM ticks (n INT, at TIMESTAMP) TIMESTAMP BY at FROM GENERATOR (rate 300, speed 2);
"""
QUERY = "CREATE QUERY dear WITH (latency '200 ms' MUST) AS SELECT item FROM bids WHERE price > 10 INTO MEMORY;\n"
TICKS = "CREATE QUERY some WITH (throughput '1000/s' BEST EFFORT) AS SELECT n FROM ticks INTO MEMORY;\n"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.setenv("PYTHONPATH", "")

    def run(text: str, *options: str) -> tuple[int, str]:
        file = tmp_path / "queries.sql"
        file.write_text(text)
        result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(
            app, ["plan", str(file), *options]
        )
        return result.exit_code, result.output

    return run


def test_promises_that_hold_end_with_code_0(plan) -> None:
    code, output = plan(STREAMS + QUERY, "--rate", "bids=2000/s")
    assert code == 0, output
    assert "dear: latency at most 200 ms MUST: holds" in output
    assert "bids 2,000/s" in output


def test_a_broken_promise_that_must_hold_ends_with_code_3_and_what_to_do(plan) -> None:
    code, output = plan(STREAMS + QUERY, "--rate", "bids=2000/s", "--service", "filter=1ms")
    assert code == 4, output
    assert "BROKEN" in output
    assert "times as fast or shedding" in output
    assert "most by filter price > 10.0" in output
    code, output = plan(STREAMS + QUERY, "--rate", "bids=2000/s", "--service", "filter=1ms", "--speedup", "4")
    assert code == 0, output


def test_a_broken_wish_is_told_but_ends_with_code_0(plan) -> None:
    code, output = plan(STREAMS + TICKS)
    assert code == 0, output
    assert "some: throughput at least 1,000/s BEST EFFORT: BROKEN, 600/s is predicted" in output


def test_the_overhead_of_a_micro_batch_counts(plan) -> None:
    code, output = plan(STREAMS + QUERY, "--rate", "bids=2000/s", "--overhead", "2s")
    assert code == 4
    assert "neither a faster processor nor shedding would help" in output


def test_selectivities_and_groups_can_be_stated(plan, tmp_path: Path) -> None:
    query = (
        "CREATE QUERY n AS SELECT item, count(*) AS n FROM bids [RANGE 1 SECOND] WHERE price > 10 GROUP BY item "
        "INTO MEMORY;"
    )
    out = tmp_path / "plan.json"
    code, output = plan(
        STREAMS + query, "--rate", "bids=2000/s", "--selectivity", "filter=0.3", "--groups", "7", "--json", str(out)
    )
    assert code == 0, output
    operators = {line["vertex"].split("-")[0]: line for line in json.loads(out.read_text())["operators"]}
    assert operators["partialaggregate"]["rate"] == 600
    assert "selectivity" not in operators["filter"]["assumed"]
    assert operators["paneaggregate"]["rate"] == pytest.approx(7)


def test_a_forecast_is_written_as_json(plan, tmp_path: Path) -> None:
    code, _ = plan(STREAMS + QUERY + TICKS, "--rate", "bids=2000/s", "--json", str(tmp_path / "plan.json"))
    assert code == 0
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["streams"] == {"bids": 2000.0, "ticks": 600.0}
    assert [(line["query"], line["measure"], line["holds"]) for line in found["promises"]] == [
        ("dear", "latency", True),
        ("some", "throughput", False),
    ]
    assert {line["query"] for line in found["queries"]} == {"dear", "some"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--rate bids=1000/s"),
        (("--rate", "bidz=5/s"), "bids"),
        (("--rate", "bids=fast"), "not a rate"),
        (("--rate", "bids"), "bids=2000/s"),
        (("--rate", "bids=5/s", "--service", "joint=5us"), "join"),
        (("--rate", "bids=5/s", "--service", "join=5"), "not a time"),
        (("--rate", "bids=5/s", "--overhead", "some"), "not a time"),
        (("--rate", "bids=5/s", "--selectivity", "filter=some"), "--selectivity"),
        (("--rate", "bids=5/s", "--selectivity", "filter=-1"), "must not be negative"),
    ],
)
def test_what_is_missing_or_misspelt_is_told(plan, options: tuple[str, ...], said: str) -> None:
    code, output = plan(STREAMS + QUERY, *options)
    assert code == 2
    assert said in output


def test_bad_sql_has_a_caret(plan) -> None:
    code, output = plan(STREAMS + "CREATE QUERY q WITH (latency '5 apples') AS SELECT item FROM bids;")
    assert code == 2
    assert "^^^" in output


def test_the_example_keeps_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout())
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.setenv("PYTHONPATH", "")
    result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"}).invoke(app, ["plan", "examples/promises.sql"])
    assert result.exit_code == 0, result.output
    assert "slow_roads: latency at most 500 ms MUST: holds" in result.output


def test_a_script_that_would_be_refused_is_forecast(plan) -> None:
    code, output = plan(
        "CREATE STREAM t (n INT) FROM GENERATOR (rate 900000000); CREATE QUERY q WITH (latency '1 s' MUST) AS "
        "SELECT n, count(*) AS c FROM t [RANGE 1 SECOND] GROUP BY n INTO MEMORY"
    )
    assert code == 4, output
    assert "latency at most 1 s MUST" in output


def test_the_rate_of_a_stream_of_the_system_need_not_be_stated(plan) -> None:
    code, output = plan("CREATE QUERY q AS SELECT query, dropped FROM headrace.shed INTO MEMORY")
    assert code == 0, output
