"""`headrace submit` and `headrace pack`, up to the call of Spark."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import run, submit
from headrace.cli.main import app
from headrace.cli.submit import submit_command, with_archive
from headrace.hosts.spark.starting import packing
from headrace.hosts.spark.starting.launch import Launch

SCRIPT = "CREATE STREAM s (x INT) FROM MEMORY; CREATE QUERY q AS SELECT x FROM s INTO MEMORY;"
ARCHIVE = Path("/cache/environment-1.tar.gz")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "queries.sql"
    file.write_text(SCRIPT)
    return file


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"}).invoke(app, list(arguments))
    return result.exit_code, result.output


def test_archives_of_the_user_are_kept():
    assert with_archive(Launch(), ARCHIVE) == {"spark.archives": f"{ARCHIVE}#environment"}
    launch = Launch(conf={"spark.archives": "mine.zip", "spark.a": "1"})
    assert with_archive(launch, ARCHIVE) == {"spark.archives": f"mine.zip,{ARCHIVE}#environment", "spark.a": "1"}


def test_the_cluster_gets_the_driver_the_file_and_the_archive():
    launch = Launch(master="yarn", conf={"spark.a": "1"})
    command = submit_command(Path("/spark/bin/spark-submit"), launch, ARCHIVE, Path("/home/q.sql"), ["--once"])
    assert command[:5] == ["/spark/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster"]
    assert "spark.pyspark.python=./environment/bin/python" in command
    assert command[-4].endswith("headrace/__main__.py")
    assert command[-3:] == ["run", "q.sql", "--once"]
    assert command[command.index("--files") + 1] == "/home/q.sql"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--master", "local[2]"), 1, "this machine, to which nothing is submitted"),
        (("--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster"), 1, "does not run drivers in Python"),
        (("--master", "nowhere"), 2, "is not a master of Spark"),
        (("--master", "yarn", "--checkpoint", "viewfs://nn/state"), 2, "'viewfs://nn/state' begins with viewfs:"),
    ],
)
def test_what_cannot_be_submitted_is_said_before_anything_is_packed(options, code, message, script, monkeypatch):
    monkeypatch.setattr(submit, "_archive", lambda: pytest.fail("packs"))
    status, output = invoke("submit", str(script), "--checkpoint", str(script.parent / "state"), *options)
    assert (status, message in output) == (code, True), output


def test_a_driver_here_runs_with_the_archive_and_the_python_in_it(script, monkeypatch):
    calls = []
    monkeypatch.setattr(submit, "_archive", lambda: ARCHIVE)
    monkeypatch.setattr(run, "run", lambda file, **options: calls.append((file, options)))
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    master = "spark://10.0.0.5:7077"
    status, output = invoke("submit", str(script), "--checkpoint", "/shared/state", "--master", master, "--once")
    assert status == 0, output
    ((file, options),) = calls
    assert (file, options["once"], options["master"]) == (script, True, master)
    assert options["conf"] == [f"spark.archives={ARCHIVE}#environment"]
    assert os.environ["PYSPARK_PYTHON"] == packing.PYTHON


def test_packing_says_how_to_use_the_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "contents", lambda: iter(()))
    status, output = invoke("pack", "--to", str(tmp_path / "new" / "packed.tar.gz"))
    assert status == 0
    assert (tmp_path / "new" / "packed.tar.gz").is_file()
    assert f"--conf spark.archives={tmp_path}/new/packed.tar.gz#environment" in output
