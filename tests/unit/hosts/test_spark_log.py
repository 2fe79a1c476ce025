"""Where Spark's log goes, on a Java that only complains."""

import os
import socket
import socketserver
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.hosts.spark.starting import jvm

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


@pytest.mark.parametrize(
    ("error", "is_told"), [(ConnectionResetError(), False), (EOFError(), False), (ValueError("wrong"), True)]
)
def test_a_connection_that_a_dead_jvm_leaves_is_not_shown_as_a_traceback(
    error: Exception, is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            raise error

    monkeypatch.setattr(socketserver.TCPServer, "handle_error", jvm._on_error)
    with (
        socketserver.TCPServer(("127.0.0.1", 0), Handler) as server,
        socket.create_connection(("127.0.0.1", server.server_address[1])),
    ):
        server.handle_request()
    assert ("Traceback" in capsys.readouterr().err) == is_told


LOST_JVM = """
import socket, threading
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from headrace.hosts.spark.starting import jvm

def die():
    connection, _ = server.accept()
    connection.recv(10)
    connection.close()

jvm._be_silent()
with socket.create_server(("127.0.0.1", 0)) as server:
    threading.Thread(target=die, daemon=True).start()
    client = ClientServer(JavaParameters(port=server.getsockname()[1]), PythonParameters(port=0, eager_load=False))
    print(client._gateway_client.send_command("c\\no0\\nmethod\\ne\\n"))
"""


@pytest.mark.slow
def test_a_lost_jvm_leaves_no_traceback_of_its_client() -> None:
    done = subprocess.run([sys.executable, "-c", LOST_JVM], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("x\n", ""), "an error, and no word of it"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('Exception in thread "main" org.apache.spark.SparkException: When running with master \'yarn\' ...',
         "When running with master 'yarn' ..."),
        ("Error: Unrecognized option: --wrong", "Unrecognized option: --wrong"),
        ("26/01/01 ERROR SchedulerBackend: Application has been killed. Reason: All masters are unresponsive!",
         "All masters are unresponsive!"),
        ("26/01/01 WARN Utils: Your hostname resolves to a loopback address", None),
    ],
)  # fmt: skip
def test_the_reason_why_a_jvm_ended_is_read_from_its_log(
    line: str, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = "Error: of an earlier run\n"
    (tmp_path / "spark.log").write_text(f"{earlier}something\n{line}\n\tat a.Class\n")
    monkeypatch.setattr(jvm, "_log", tmp_path / "spark.log")
    monkeypatch.setattr(jvm, "_begin", len(earlier))
    assert jvm.error_in_log() == reason
