"""`run --once`, and looking at a checkpoint: what is said at the end, exit codes, and doing it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.session import Session

SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at SKEW 1 SECOND FROM FILES (path '{folder}/*.csv');
CREATE QUERY items AS SELECT item FROM bids INTO FILES (path '{folder}/results');
"""
GOOD = "at,item\n2026-01-01 00:00:00,1\n2026-01-01 00:00:09,2\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "queries.sql"
    file.write_text(SCRIPT.format(folder=tmp_path))
    return file


def run(script: Path, *options: str) -> tuple[int, str]:
    return invoke(
        "run", str(script), "--once", "--host", "local", "--checkpoint", str(script.parent / "state"), *options
    )


def invoke(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, list(arguments), input=stdin)
    return result.exit_code, result.output


def test_a_run_says_what_became_of_the_records(script: Path) -> None:
    (script.parent / "bids.csv").write_text(GOOD + "2026-01-01 00:00:01,3\nyesterday,4\n")
    code, output = run(script)
    assert code == 0
    assert "stream bids: 2 tuples read, 1 late (in bids.late), 1 bad (in bids.bad)" in output
    assert "query items: 2 results" in output


def test_a_stream_of_which_no_record_can_be_read_fails_the_run(script: Path) -> None:
    (script.parent / "bids.csv").write_text("at,item\nyesterday,1\ntoday,2\n")
    code, output = run(script)
    assert code == 5
    assert "all 2 records of stream bids are bad" in output


@pytest.mark.parametrize(
    ("limit", "code"),
    [("bad=0", 5), ("bad=1", 0), ("bad=10%", 5), ("bad=50%", 0), ("late=0", 5), ("late=25%", 0), ("shed=0", 0)],
)
def test_a_run_fails_if_more_is_lost_than_allowed(script: Path, limit: str, code: int) -> None:
    (script.parent / "bids.csv").write_text(GOOD + "2026-01-01 00:00:01,3\nyesterday,4\n")
    assert run(script, "--fail-on", limit)[0] == code


@pytest.mark.parametrize("limit", ["bad", "bad=", "good=1", "bad=-1", "bad=x%"])
def test_a_limit_that_cannot_be_read_is_refused_before_anything_runs(script: Path, limit: str) -> None:
    code, output = run(script, "--fail-on", limit)
    assert code == 2
    assert "bad=0 or late=1%" in output
    assert not (script.parent / "state").exists()


def test_a_finished_run_can_be_repeated_and_does_nothing(script: Path) -> None:
    (script.parent / "bids.csv").write_text(GOOD)
    assert run(script)[0] == 0
    results = sorted((script.parent / "results").iterdir())
    code, output = run(script)
    assert code == 0
    assert "have ended before" in output
    assert sorted((script.parent / "results").iterdir()) == results


def test_piped_statements_that_only_read_leave_a_checkpoint_as_it_was(script: Path) -> None:
    state = script.parent / "state"
    command = ("sql", "--host", "local", "--checkpoint", str(state))
    script.write_text(SCRIPT.format(folder=script.parent).replace("CREATE QUERY", "CREATE VIEW").split("INTO")[0] + ";")
    assert invoke(*command, stdin=script.read_text())[0] == 0
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    code, output = invoke(*command, stdin="SHOW QUERIES; SHOW STREAMS; DESCRIBE items;")
    assert code == 0
    assert "bids" in output
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before


def test_piped_statements_do_not_drain_the_queries_that_a_checkpoint_has(script: Path) -> None:
    (script.parent / "bids.csv").write_text(GOOD)
    state = script.parent / "state"
    with Session(state, host="local") as session:
        session.execute(script.read_text(), start=False)
    command = ("sql", "--host", "local", "--checkpoint", str(state))
    for piped in ("SHOW QUERIES;", "ALTER SYSTEM SET scheduler = 'chain';", "CREATE QUERY q AS SELECT at FROM bids;"):
        assert invoke(*command, stdin=piped)[0] == 0
    code, output = run(script)
    assert code == 0
    assert "query items: 2 results" in output
