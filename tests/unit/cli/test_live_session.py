"""What the command line shows while Spark starts, and what Ctrl-C does meanwhile."""

import os
import signal
import subprocess
import sys

import pytest

from headrace.cli.live_session import FORCED, AnnouncingSession, ended_by_interrupt

STREAM = "CREATE STREAM bids (item INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY"
QUERY = "CREATE QUERY all_bids AS SELECT item FROM bids INTO MEMORY"
INTERRUPTED = """
import os, signal
from headrace.cli.live_session import ended_by_interrupt

with ended_by_interrupt("stopped while Spark was starting"):
    os.kill(os.getpid(), signal.{name})
    print("went on")
"""

LAST = """
import os, signal
from headrace.cli.live_session import interruptible

class Late:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, signal.SIG{name})

late = Late()
late.itself = late  # goes when the interpreter does
with interruptible(lambda: None) as stop:
    os.kill(os.getpid(), signal.SIG{name})
    stop.wait(10)
"""
IMPATIENT = """
import os, signal, time
from headrace.cli.live_session import interruptible

with interruptible(lambda: None):
    os.kill(os.getpid(), signal.SIGINT)
print("stopped", flush=True)
os.kill(os.getpid(), signal.SIG{name})
time.sleep(60)
"""


def test_the_first_query_says_that_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with AnnouncingSession(host="local") as session:
        session.execute(STREAM)
        assert capsys.readouterr().err == ""
        session.execute(QUERY)
        session.start()
        first = capsys.readouterr().err
        session.start()
    assert first.startswith("starting Spark ...\nSpark started in ")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_spark_starts_ends_the_process_with_a_message(name: str) -> None:
    script = INTERRUPTED.format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (FORCED, "")
    assert done.stderr == "\nstopped while Spark was starting\n"


def test_an_interrupt_after_the_start_is_handled_as_before() -> None:
    with ended_by_interrupt("stopped"):
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_after_the_end_of_an_interrupted_command_gives_its_code(name: str) -> None:
    command = [sys.executable, "-c", IMPATIENT.format(name=name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (FORCED, "stopped\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_while_the_interpreter_ends_does_not_kill_an_interrupted_command(name: str) -> None:
    result = subprocess.run([sys.executable, "-c", LAST.format(name=name)], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
