"""Runs a deployment as an operator does: starts the command, watches it, and starts it again when it has ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from benches.parts import load, sinks
from benches.parts.broker import Broker
from benches.parts.disk import SmallDisk
from benches.parts.processes import Process, parse, tree

#: A deployment that commits nothing for so many seconds, though there is input, is stuck.
PATIENCE = 90.0
#: The environment variable by which all processes of a run are known, also those that have lost their parent.
_MARK = "HEADRACE_CHAOS"
#: Arguments of the processes that Spark starts; workers have those of the daemon that they were forked from.
_DAEMON, _PLANNER = "headrace.hosts.spark.daemon", "python_streaming_source_runner"
#: Output that users should never see.
_RAW = ("Traceback (most recent call last)", "Exception in thread", "\tat org.", "\tat java.", "unexpected ")

Role: TypeAlias = Literal["driver", "JVM", "daemon", "worker", "planner"]


class Stuck(Exception):
    """Nothing was committed for too long, or a process that should end did not."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, and what it wrote."""

    code: int
    output: str

    @property
    def is_clean(self) -> bool:
        """Return whether the code is a documented one or a kill, and the output is for people."""
        return self.code in (0, 1, 130, -signal.SIGKILL) and not any(raw in self.output for raw in _RAW)


class Command:
    """A command that runs; what it writes goes through a pipe, so that a full disk does not swallow it."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, seconds: float) -> Ended:
        """Wait until the command ends."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Stuck(f"the process has not ended within {seconds:.0f} s") from None
        self._reader.join(5)
        return Ended(code, self.output)

    @property
    def output(self) -> str:
        return b"".join(self._parts).decode(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            while part := os.read(pipe.fileno(), 65536):
                self._parts.append(part)


class Supervisor:
    """A folder with input, script, checkpoint and sinks, and the process that runs there, if any."""

    def __init__(self, folder: Path, broker: Broker | None = None, patience: float = PATIENCE) -> None:
        self.folder, self.broker, self.patience = folder, broker, patience
        self.disk = SmallDisk(folder / "disk")
        self.data, self.out, self.checkpoint = folder / "data", folder / "out", self.disk.folder / "checkpoint"
        self.script = folder / "script.sql"
        load.prepare(self.data)
        self.script.write_text(sinks.script(self.data, self.out, broker))
        shutil.copy(Path(__file__).with_name("notes.py"), folder)
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.command: Command | None = None
        self.began = 0.0
        self.committed = -1  # the last micro-batch when the process started

    @property
    def running(self) -> Command:
        assert self.command is not None
        return self.command

    def start(self, *, once: bool = False) -> None:
        """Start the deployment; it continues from its checkpoint."""
        self.began, self.committed = time.monotonic(), self.newest()
        self.command = self.run(*(["--once"] if once else []))

    def run(self, *options: str) -> Command:
        """Run the script on the checkpoint, beside the process that may have it already."""
        environment = {**os.environ, _MARK: self.mark}
        environment.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")  # lives are short
        # what ends is started again here, so that it is seen to end
        command = ["run", str(self.script), "--checkpoint", str(self.checkpoint), "--no-restart", *options]
        return Command(command, environment)

    def newest(self) -> int:
        """Return the last micro-batch that is committed, or -1."""
        commits = self.checkpoint / "spark" / "commits"
        try:
            return max((int(name) for name in os.listdir(commits) if name.isdigit()), default=-1)
        except FileNotFoundError:
            return -1

    def wait_for_commit(self, after: int) -> bool:
        """Wait for a micro-batch after this one; return False if the process ends first."""
        self._until(lambda: self.newest() > after or not self.running.is_running, "nothing is committed")
        return self.newest() > after

    def wait_for_role(self, role: Role) -> int | None:
        """Return a process of this kind, once there is one; None if the deployment ends first."""
        self._until(lambda: bool(self.members(role)) or not self.running.is_running, f"there is no {role}")
        return min(self.members(role), default=None)

    def end(self, seconds: float | None = None) -> Ended:
        """Wait until the process has ended."""
        ended = self.running.wait(self.patience if seconds is None else seconds)
        self.command = None
        return ended

    def members(self, role: Role | None = None) -> list[int]:
        """Return the processes of this run, or those of one kind that belong to the present driver."""
        members = self._marked()
        if role is None or self.command is None:
            return list(members)
        driver = self.command.process.pid
        own = {process.pid: process for process in tree(driver, members.values())}
        return [pid for pid, process in own.items() if _role(process, own, driver) == role]

    def signal(self, number: int, pids: Sequence[int]) -> int:
        """Send a signal to processes; return how many were there."""
        reached = 0
        for pid in pids:
            try:
                os.kill(pid, number)
                reached += 1
            except ProcessLookupError:
                continue
        return reached

    def kill_all(self) -> None:
        """End every process of this run, also those that have lost their parent."""
        self.signal(signal.SIGKILL, self.members())

    def close(self) -> None:
        """End everything, and give the disk back."""
        self.signal(signal.SIGCONT, self.members())
        self.kill_all()
        self.orphans()
        self.disk.remove()

    def orphans(self, seconds: float = 30.0) -> list[int]:
        """Return processes of this run that are there though none should be, after some time to end by themselves."""
        deadline = time.monotonic() + seconds
        while (members := self.members()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return members

    def _until(self, is_so: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + self.patience
        while not is_so():
            if time.monotonic() > deadline:
                raise Stuck(f"{problem} for {self.patience:.0f} s")
            time.sleep(0.02)

    def _marked(self) -> dict[int, Process]:
        mark = f"{_MARK}={self.mark}".encode()
        members = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    process = parse((entry / "stat").read_text())
                    members[process.pid] = process
            except OSError:
                continue
        return members


def _role(process: Process, members: dict[int, Process], driver: int) -> Role | None:
    if process.pid == driver:
        return "driver"
    if process.name == "java":
        return "JVM"
    arguments, parent = _arguments(process.pid), members.get(process.parent)
    if _PLANNER in arguments:
        return "planner"
    if _DAEMON in arguments and parent is not None:
        return "daemon" if parent.name == "java" else "worker"
    return None


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
