"""The processor time of this process and all its descendants, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["driver", "JVM", "workers"]
PARTS: tuple[Part, ...] = ("driver", "JVM", "workers")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its own ticks, and those of ended children that it has waited for."""

    pid: int
    name: str
    parent: int
    own: int
    ended: int


def parse(text: str) -> Process:
    """Read a line of /proc/<pid>/stat; the name is in brackets and may contain blanks and brackets."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    # after the name: state, parent, ...; fields 14 to 17 of proc(5) are times of the process and its ended children
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return Process(int(pid), name, int(fields[1]), user + system, ended_user + ended_system)


def tree(root: int, processes: Iterable[Process]) -> list[Process]:
    """Return a process and all its descendants."""
    children: dict[int, list[Process]] = {}
    members = []
    for process in processes:
        children.setdefault(process.parent, []).append(process)
        if process.pid == root:
            members.append(process)
    for process in members:  # grows while it is walked
        members += children.get(process.pid, [])
    return members


def spent(root: int, before: Iterable[Process], after: Iterable[Process]) -> dict[Part, int]:
    """Return the ticks of each part of a run between two samples: the root, Java, and Python workers.

    The time of a process that has ended since the first sample appears in its parent's `ended`, from which the time
    known before is subtracted.
    """
    known = {process.pid: process for process in tree(root, before)}
    present = {process.pid: process for process in tree(root, after)}
    settled: dict[int, int] = {}
    for process in known.values():
        if process.pid not in present:
            settled[process.parent] = settled.get(process.parent, 0) + process.own + process.ended
    taken: dict[Part, int] = dict.fromkeys(PARTS, 0)
    for process in present.values():
        old = known.get(process.pid, Process(process.pid, process.name, process.parent, 0, 0))
        # never negative: not every parent waits for its children
        inherited = max(0, process.ended - old.ended - settled.get(process.pid, 0))
        taken["driver" if process.pid == root else "JVM" if process.name == "java" else "workers"] += (
            process.own - old.own + inherited
        )
    return taken


def shares(ticks: Mapping[Part, int], seconds: float, per_second: int) -> dict[Part, float]:
    """Return processor seconds per second."""
    return {part: ticks[part] / per_second / seconds for part in PARTS}


def all_processes() -> list[Process]:
    """Return every process; one that ends meanwhile is omitted."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                processes.append(parse((entry / "stat").read_text()))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return processes


#: Ticks per second.
RATE = os.sysconf("SC_CLK_TCK")
