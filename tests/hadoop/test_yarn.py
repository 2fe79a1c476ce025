"""`headrace run --master yarn`: a container and the driver are killed, and what is delivered is exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.hadoop.server import SPARK_JARS, Hadoop
from tests.hadoop.test_spark_on_hdfs import ROOT, environment, upload
from tests.spark import crash_case

from headrace.hosts.checkup import check_up

SETTINGS = (
    f"spark.yarn.jars=local:{SPARK_JARS}/*",
    f"spark.executorEnv.PYTHONPATH={ROOT / 'src'}",
    "spark.executor.memory=512m",
    "spark.yarn.am.memory=512m",
    "spark.ui.enabled=false",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
)


def until(condition: Callable[[], object], what: str, seconds: float = 100) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.05)


def containers(hadoop: Hadoop) -> Iterator[int]:
    """Yield the processes of executors in containers of this cluster."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            is_executor = any(word.endswith("YarnCoarseGrainedExecutorBackend") for word in words)
            if is_executor and words[0].endswith("java") and any(str(hadoop.folder) in word for word in words):
                yield int(process.name)


def test_killed_container_and_killed_driver_lose_and_repeat_nothing(
    hadoop: Hadoop, place: Path, tmp_path: Path
) -> None:
    hadoop.start_yarn()
    frames = crash_case.write_data(tmp_path / "data", 6, parts=8)
    text = crash_case.script_with(crash_case.FEW).format(data=place / "data", out=place / "out")
    answers = crash_case.expected(text, frames)
    script, state = tmp_path / "script.sql", place / "state"
    script.write_text(text)
    # what is read comes in several micro-batches
    upload(tmp_path / "data", place / "data", range(2))
    environ = environment(hadoop, tmp_path)
    java = f"-XX:TieredStopAtLevel=1 {hadoop.options}"
    settings = [*SETTINGS, *(f"spark.{of}.extraJavaOptions={java}" for of in ("executor", "yarn.am"))]
    command = [sys.executable, "-m", "headrace", "run", str(script), "--checkpoint", str(state)]
    command += ["--master", "yarn", "--executors", "2", *(word for one in settings for word in ("--conf", one))]

    def start(*more: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [*command, *more],
                env=environ,
                cwd=tmp_path / "cwd",
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def committed(more: int) -> Callable[[], bool]:
        before = crash_case.newest_batch(state)

        def is_done() -> bool:
            assert driver.poll() is None, (tmp_path / "output.txt").read_text()[-3000:]
            return crash_case.newest_batch(state) >= before + more

        return is_done

    driver = start()
    until(committed(1), "first micro-batch")
    first = sorted(containers(hadoop))
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    upload(tmp_path / "data", place / "data", range(2, 4))
    until(committed(1), "micro-batch after the loss of a container")
    until(lambda: {*containers(hadoop)} - {*first}, "container in place of the lost one")
    upload(tmp_path / "data", place / "data", range(4, 8))
    until(committed(1), "micro-batch before the driver is killed")
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    driver = start("--once")
    assert driver.wait(200) == 0, (tmp_path / "output.txt").read_text()[-3000:]
    assert crash_case.written(place / "out", answers) == answers
    assert check_up(state).problems == ()
