"""The options of `run` and `sql` that say which Spark to use: mistakes are told before anything is written."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app

SCRIPT = "CREATE STREAM s (x INT) FROM MEMORY; CREATE QUERY q AS SELECT x FROM s INTO MEMORY;"


@pytest.mark.parametrize("command", ["run", "sql"])
@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["--conf", "spark.executor.memory"], ["--conf", "is not a setting", "write name=value"]),
        (["--conf", "memory=1g"], ["--conf", "is not a setting of Spark"]),
        (["--conf", "spark.master=yarn"], ["use --master yarn"]),
        (["--master", "nowhere"], ["--master", "'nowhere' is not a master of Spark", "spark://host:7077"]),
        (["--master", "yarn", "--host", "local"], ["--master", "the local host has no Spark"]),
        (["--conf", "spark.a=1", "--host", "local"], ["--conf", "the local host has no Spark"]),
        (["--executors", "2", "--host", "local"], ["--executors", "the local host has no Spark"]),
        (["--executors", "0"], ["--executors"]),
    ],
)
def test_wrong_options_end_with_code_2_and_write_nothing(command, options, messages, tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(SCRIPT)
    file = [str(tmp_path / "queries.sql")] if command == "run" else []
    arguments = [command, *file, "--checkpoint", str(tmp_path / "state"), *options]
    result = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"}).invoke(app, arguments, input=SCRIPT)
    assert result.exit_code == 2, result.output
    assert [message for message in messages if message not in result.output] == []
    assert not (tmp_path / "state").exists()
