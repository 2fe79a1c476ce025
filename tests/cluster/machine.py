"""Machines for tests: processes that share nothing but a folder, and that can be switched off together.

Where this user may make namespaces, a machine has its own network, processes, host name, file system for temporary
files and shared memory; only the common folder can be written by several. Switched off, all of it is gone. Elsewhere a
machine is a group of processes with an address on the loopback interface and a folder as its disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.cluster.first_process import HOSTS, VARIABLE, processes_of

ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which what is waited for will not come about; much, because other programs may use the processors.
PATIENCE = 180.0


class Machine(ABC):
    """A machine that is on, until it is switched off."""

    def __init__(self, name: str, address: str, disk: Path, first_process: subprocess.Popen[str]) -> None:
        self.name, self.address, self.disk = name, address, disk
        self.first_process = first_process
        self.identity = f"{os.getpid()}:{name}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], log: Path, *, talks: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a program on this machine; its output goes to a log, but for standard output if it `talks` to us."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self._entrance(), *command],
                env={**environ, VARIABLE: self.identity},
                cwd=ROOT,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else output,
                stderr=output,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def switch_off(self) -> None:
        """End every process of the machine at once; its disk goes too."""
        self._end()
        self.first_process.wait(PATIENCE)
        for pipe in (self.first_process.stdin, self.first_process.stdout):
            _close(pipe)
        for process in self.processes:
            process.wait(PATIENCE)
            _close(process.stdin)
            _close(process.stdout)
        until(lambda: not processes_of(self.identity))

    @abstractmethod
    def _entrance(self) -> list[str]:
        """Return what stands before a command so that it runs on this machine."""

    @abstractmethod
    def _end(self) -> None: ...


class Rack(ABC):
    """A place for machines, and the network between them."""

    kind: str
    network: str

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}

    def machine(self, name: str, number: int) -> Machine:
        """Switch on a machine; its number, from 1 to 254, is the last part of its address."""
        self.machines[name] = self._machine(name, f"{self.network}.{number}")
        return self.machines[name]

    def close(self) -> None:
        for machine in self.machines.values():
            machine.switch_off()

    @abstractmethod
    def _machine(self, name: str, address: str) -> Machine: ...


class NamespaceRack(Rack):
    """Machines of namespaces on a bridge of their own."""

    kind, network = "namespaces", "10.77.0"

    def __init__(self, common: Path) -> None:
        super().__init__()
        self._common = common
        (common / HOSTS).write_text("127.0.0.1 localhost\n")
        self._network = _talk(["unshare", "--net", "--", *_module("tests.cluster.network")])
        self._cables: dict[Machine, str] = {}

    def cut(self, machine: Machine) -> None:
        """Take a machine off the network; the others are not told."""
        _ask(self._network, f"cut {self._cables[machine]}", "done")

    def mend(self, machine: Machine) -> None:
        _ask(self._network, f"mend {self._cables[machine]}", "done")

    def close(self) -> None:
        super().close()
        _close(self._network.stdin)
        self._network.wait(PATIENCE)
        _close(self._network.stdout)

    def _machine(self, name: str, address: str) -> Machine:
        disk, cable = Path("/tmp"), f"cable{len(self._cables)}"
        with (self._common / HOSTS).open("a") as hosts:
            hosts.write(f"{address} {name}\n")
        options = ["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        arguments = [self.kind, f"{os.getpid()}:{name}", address, str(disk), str(self._common), f"={ROOT}"]
        first = _talk(["unshare", *options, "--", *_module("tests.cluster.first_process"), *arguments])
        _expect(first, "made")
        _ask(self._network, f"connect {cable} {first.pid} {address}", "done")
        _ask(first, "connected", "ready")
        machine = _Namespaces(name, address, disk, first)
        self._cables[machine] = cable
        return machine


class _Namespaces(Machine):
    def _entrance(self) -> list[str]:
        process = self.first_process.pid
        inside = f"--pid=/proc/{process}/ns/pid_for_children"
        return ["nsenter", "--target", str(process), "--mount", "--net", "--uts", "--ipc", inside, "--"]

    def _end(self) -> None:
        self.first_process.kill()  # `unshare --kill-child`: the first process inside ends with it, and takes the rest


class ProcessRack(Rack):
    """Machines that are groups of processes on the loopback interface."""

    kind, network = "processes", "127.77.0"

    def __init__(self, common: Path) -> None:
        super().__init__()
        self._disks = common.parent / "disks"

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._disks, ignore_errors=True)

    def _machine(self, name: str, address: str) -> Machine:
        disk = self._disks / name
        disk.mkdir(parents=True)
        arguments = [self.kind, f"{os.getpid()}:{name}", address, str(disk)]
        first = _talk([*_module("tests.cluster.first_process"), *arguments])
        _expect(first, "ready")
        return _Processes(name, address, disk, first)


class _Processes(Machine):
    def _entrance(self) -> list[str]:
        return []

    def _end(self) -> None:
        _close(self.first_process.stdin)  # it ends the others


def best_rack(common: Path) -> Rack:
    """Return the best rack that this user may have."""
    return NamespaceRack(common) if can_make_namespaces() else ProcessRack(common)


@functools.cache
def can_make_namespaces() -> bool:
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        return False
    return subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False).returncode == 0


def until(
    holds: Callable[[], object], seconds: float = PATIENCE, what: str | Callable[[], str] = "what was waited for"
) -> None:
    """Wait until something holds, or fail and say `what` did not come about."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"{told} did not come about within {seconds:.0f} s")
        time.sleep(0.01)


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def _talk(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def _ask(process: subprocess.Popen[str], request: str, answer: str) -> None:
    process.stdin.write(f"{request}\n")
    process.stdin.flush()
    _expect(process, answer)


def _expect(process: subprocess.Popen[str], answer: str) -> None:
    line = process.stdout.readline().strip()
    assert line == answer, f"{process.args!r} answered {line!r} instead of {answer!r}"


def _close(pipe: IO | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()
