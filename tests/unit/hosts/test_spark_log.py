"""Where Spark's log goes, on a Java that only complains."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from headrace import Session
from headrace.errors import HostFault
try:
    with Session(sys.argv[1] or None) as session:
        session.execute("CREATE STREAM s (x INT) FROM MEMORY (); CREATE QUERY q AS SELECT x FROM s INTO MEMORY")
except HostFault as error:
    print(error.hint)
"""


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'this Java is too old' >&2\nexit 1\n")
    java.chmod(0o755)
    return java.parent.parent


def run(java_home: Path, checkpoint: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAVA_HOME": str(java_home), **variables}
    for name in ("HEADRACE_DEBUG", "PYSPARK_GATEWAY_PORT"):
        if name not in variables:
            environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, checkpoint], env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_the_log_is_in_the_checkpoint_and_an_error_names_it(java_home: Path, tmp_path: Path) -> None:
    done = run(java_home, str(tmp_path / "state"))
    log = tmp_path / "state" / "spark.log"
    assert done.stderr == ""
    assert done.stdout.endswith(f"Spark's log is {log}\n")
    assert "this Java is too old" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.slow
def test_without_a_checkpoint_the_log_is_a_temporary_file_that_outlives_an_error(
    java_home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    done = run(java_home, "", TMPDIR=str(folder))
    (log,) = folder.glob("headrace-spark-*.log")
    assert done.stdout.endswith(f"Spark's log is {log}\n")
    assert "this Java is too old" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.slow
def test_debugging_shows_the_log(java_home: Path, tmp_path: Path) -> None:
    done = run(java_home, str(tmp_path / "state"), HEADRACE_DEBUG="1")
    assert "this Java is too old" in done.stderr
    assert "Spark's log" not in done.stdout
    assert not (tmp_path / "state" / "spark.log").exists()
