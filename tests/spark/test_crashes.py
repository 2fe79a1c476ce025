"""Killed at any moment, driver or worker, and started again: the files hold exactly what the oracle says."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.spark.crash_case import SCRIPT, expected, newest_batch, wait_for_batches, write_data, written


def start(
    checkpoint: Path, script: Path, *options: str, limit: int = 100, path: Path | None = None
) -> subprocess.Popen:
    """Start a session in a process of its own, on the URL of its checkpoint.

    Its Python processes look for modules in `path` first.
    """
    child = Path(__file__).with_name("crash_child.py")
    command = [sys.executable, str(child), checkpoint.as_uri(), str(script), str(limit), *options]
    paths = [*([] if path is None else [str(path)]), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with open(checkpoint.parent / "child.log", "ab") as log:
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, env=environ)


def ended(process: subprocess.Popen):
    return lambda: process.poll() is not None


def finish(process: subprocess.Popen, directory: Path) -> None:
    assert process.wait(400) == 0, "".join(
        log.read_text()[-3000:] for log in (directory / "child.log", directory / "checkpoint" / "spark.log")
    )


@pytest.fixture
def case(tmp_path):
    frames = write_data(tmp_path / "data", 5)
    text = SCRIPT.format(data=(tmp_path / "data").as_uri(), out=(tmp_path / "out").as_uri())
    script = tmp_path / "script.sql"
    script.write_text(text)
    return tmp_path, script, expected(text, frames)


def test_killing_the_driver_at_random_moments_loses_and_repeats_nothing(case):
    directory, script, answers = case
    chance = random.Random(23)
    checkpoint = directory / "checkpoint"
    folding = Path(__file__).with_name("folding")
    for _ in range(3):
        process = start(checkpoint, script, path=folding)
        wait_for_batches(checkpoint, chance.randint(1, 6), is_over=ended(process))
        for file in (directory / "data" / "bids").iterdir():
            if int(file.stem) < newest_batch(checkpoint) - 2:  # a micro-batch reads one
                file.unlink()
        time.sleep(chance.random() * 0.3)  # somewhere within a micro-batch
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    hidden = ".9.2f1b8a52-3f58-4a9e-8a4c-0d3a5f0f6c11.tmp"  # as Spark names what it writes
    for folder in ("offsets", "state/0/0"):
        for name in (hidden, f".{hidden}.crc"):
            (checkpoint / "spark" / folder / name).write_text("half")
    finish(start(checkpoint, script, path=folding), directory)
    assert written(directory / "out", answers) == answers
    assert [path for path in (checkpoint / "spark").rglob("*") if ".tmp" in path.name] == []
    files = sorted(checkpoint.glob("sources/*/files*.jsonl"))
    assert len(files) == 2
    assert all(b'"entries":' in file.read_bytes() for file in files), "the files that were read are forgotten"


def test_killing_python_workers_loses_and_repeats_nothing(case):
    directory, script, answers = case
    checkpoint = directory / "checkpoint"
    chance = random.Random(29)
    process = start(checkpoint, script)
    killed = 0
    for _ in range(4):
        wait_for_batches(checkpoint, 2, is_over=ended(process))
        workers = workers_of(process.pid)
        if workers:
            pid = workers[0]
            while pid != process.pid:  # from the worker to the JVM
                assert b"MALLOC_ARENA_MAX=2" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                java, pid = pid, parent_of(pid)
            given = Path(f"/proc/{java}/cmdline").read_text().split("\0")
            assert {"-XX:TrimNativeHeapInterval=60000", "-XX:+IgnoreUnrecognizedVMOptions"} <= set(given)
            os.kill(chance.choice(workers), signal.SIGKILL)
            killed += 1
    finish(process, directory)
    assert killed
    assert (directory / "child.log").read_text() == "", "what Spark and its workers say is in spark.log"
    assert written(directory / "out", answers) == answers


def test_a_driver_that_was_stopped_and_replaced_cannot_deliver_when_it_goes_on(case):
    directory, script, answers = case
    checkpoint = directory / "checkpoint"
    stopped = start(checkpoint, script, "unlocked")
    wait_for_batches(checkpoint, 2, is_over=ended(stopped))
    os.killpg(stopped.pid, signal.SIGSTOP)
    try:
        finish(start(checkpoint, script, "unlocked"), directory)
        assert written(directory / "out", answers) == answers
    finally:
        os.killpg(stopped.pid, signal.SIGCONT)
    assert stopped.wait(200) != 0
    assert "OwnerFault: another process has taken over the checkpoint" in (directory / "child.log").read_text()
    assert written(directory / "out", answers) == answers


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def workers_of(leader: int) -> list[int]:
    """Forked workers (their parent is a worker daemon) below a process."""
    parents = {}
    commands = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
            except (OSError, IndexError):
                continue
            parents[int(entry.name)] = int(stat[1])
    daemon = "headrace.hosts.spark.daemon"

    def below(pid: int) -> bool:
        while pid in parents and pid > 1:
            pid = parents[pid]
            if pid == leader:
                return True
        return False

    return [
        pid
        for pid, command in commands.items()
        if daemon in command and daemon in commands.get(parents[pid], "") and below(pid) and "java" not in command
    ]
