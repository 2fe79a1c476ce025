"""A deployment for hours, and samples of everything in it that could grow.

The process that is measured runs this file: a session with queries over the load, of which two are started and stopped
all the time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benches.parts import load, processes, sinks
from benches.parts.processes import PARTS, Part, Process

#: The queries that run all the time.
STEADY = ("dear", "counts", "hops", "pairs", "offers", "fresh", "both", "outages", "notify", "alarms")
#: Those that flap.
FLAPPING = ("visits", "named")
#: Seconds between two changes.
FLAP_SECONDS = 2.0
#: Seconds from one micro-batch to the next: what else runs on the machine does not change their number.
BATCH_SECONDS = 1.5
#: The heap of the JVM. It has its size from the start on, so that what grows is something else; what is in it is
#: measured after collections.
HEAP = "512m"
#: Each method is compiled once: a second, better compilation of what runs once in a micro-batch comes after 5,000 of
#: them, and would go on for hours.
JAVA_OPTIONS = f"-Xms{HEAP} -XX:+AlwaysPreTouch -XX:TieredStopAtLevel=1"
#: RocksDB keeps blocks of files that it has deleted until its cache is full, 8 MB for each state store. With so little
#: it is full after some hundred micro-batches, instead of in the middle of a run.
SETTINGS = {"spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": 1}
#: The C library keeps freed blocks for each thread, in an arena for most of them, and gives few back. All of that has a
#: bound, which a process reaches after thousands of micro-batches; without the one, and with two of the other, it does
#: so while the run warms up.
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MALLOC_ARENA_MAX": "2"}
#: A variable with megabytes an hour that driver and JVM shall lose, each: the bench must notice it.
LEAK = "HEADRACE_SOAK_LEAK"
#: Where the measured process writes the duration of each micro-batch, and what the JVM holds after a collection.
BATCHES, HELD = "batches.jsonl", "held.jsonl"
#: Seconds between two collections.
COLLECT_SECONDS = 20.0
STOP = "stop"


@dataclass(slots=True)
class Samples:
    """Values by quantity, each with the seconds since the start at which it was measured."""

    values: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    workers: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  # the memory of each, by its pid

    def add(self, quantity: str, seconds: float, value: float) -> None:
        """Keep a value."""
        self.values.setdefault(quantity, []).append((seconds, value))

    def add_workers(self) -> None:
        """Add the memory of each worker that was there all the time, since a step of one is no growth of all."""
        most = max(map(len, self.workers.values()), default=0)
        lasting = [points for _, points in sorted(self.workers.items()) if len(points) >= 0.9 * most]
        for number, points in enumerate(lasting, 1):
            self.values[f"memory of worker {number} without mapped files (MB)"] = points

    def after(self, seconds: float) -> dict[str, list[tuple[float, float]]]:
        """Return what was measured after the warm-up."""
        return {name: [point for point in points if point[0] >= seconds] for name, points in self.values.items()}


def start(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the deployment in a folder whose load is running."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, str(folder), *filter(None, [environment.get("PYTHONPATH")])]
    shutil.copy(Path(__file__).with_name("notes.py"), folder)
    (folder / "tmp").mkdir()
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "benches.parts.soaking", str(folder)],
            env={**environment, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder / "tmp")},
            stdout=output,
            stderr=output,
        )


def sample(folder: Path, pid: int, seconds: float, samples: Samples) -> None:
    """Measure everything once."""
    parts: dict[Part, list[Process]] = {part: [] for part in PARTS}
    for process in processes.tree(pid, processes.all_processes()):
        parts["driver" if process.pid == pid else "JVM" if process.name == "java" else "workers"].append(process)
    for part, members in parts.items():
        samples.add(f"memory of {part} (MB)", seconds, sum(_memory(process.pid) for process in members) / 1e6)
        private = sum(_memory(process.pid, "RssAnon") for process in members) / 1e6
        samples.add(f"memory of {part} without mapped files (MB)", seconds, private)
        samples.add(f"descriptors of {part}", seconds, sum(_count(process.pid, "fd") for process in members))
        samples.add(f"threads of {part}", seconds, sum(_count(process.pid, "task") for process in members))
    samples.add("worker processes", seconds, len(parts["workers"]))
    for process in parts["workers"]:
        samples.workers.setdefault(process.pid, []).append((seconds, _memory(process.pid, "RssAnon") / 1e6))
    checkpoint = folder / "checkpoint"
    kept = [(path, size) for path, size in _files(checkpoint) if path.name != "spark.log"]
    lists = [size for path, size in kept if path.name.startswith("files-")]
    samples.add("files in the checkpoint", seconds, len(kept))
    samples.add("checkpoint without lists of files (MB)", seconds, (sum(size for _, size in kept) - sum(lists)) / 1e6)
    samples.add("lists of files read (kB)", seconds, sum(lists) / 1e3)
    samples.add("files of the command log", seconds, len(list(_files(checkpoint / "commands"))))
    scratch = list(_files(folder / "tmp"))
    logs = [size for path, size in scratch if path.name.startswith("MANIFEST")]
    samples.add("temporary files", seconds, len(scratch))
    samples.add("temporary files without logs of stores (MB)", seconds, (sum(s for _, s in scratch) - sum(logs)) / 1e6)
    samples.add("log of a state store (kB)", seconds, max(logs, default=0) / 1e3)


def add_noted(folder: Path, began: float, samples: Samples) -> None:
    """Add what the measured process has written, and the memory of each worker."""
    samples.add_workers()
    for file in (BATCHES, HELD):
        for line in (folder / file).read_text().splitlines():
            at, values = json.loads(line)
            for quantity, value in values.items():
                samples.add(quantity, at - began, value)


def _files(directory: Path) -> Iterator[tuple[Path, int]]:
    """Return all files below a directory with their sizes; those that disappear meanwhile are omitted."""
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                yield Path(place, name), os.stat(os.path.join(place, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue


def _memory(pid: int, kind: str = "VmRSS") -> int:
    """Return the resident memory of a process, of this kind, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{kind}:")), 0)


def _count(pid: int, folder: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/{folder}"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _run(folder: Path) -> None:
    """Run the deployment until the file `stop` appears."""
    from headrace.session import Session

    chosen = [case for case in sinks.CASES if case.name in (*STEADY, *FLAPPING)]
    with (
        Session(folder / "checkpoint", python_modules=["notes"], interval=BATCH_SECONDS, conf=SETTINGS) as session,
        (folder / BATCHES).open("w") as batches,
        (folder / HELD).open("w") as held,
    ):
        session.execute(load.declarations(folder / "data") + sinks.EVENTS)
        session.execute(";\n".join(case.statement(folder / "out") for case in chosen))
        newest, is_on, changed, collected = -1, True, time.monotonic(), 0.0
        leak = _Leak(float(os.environ.get(LEAK, 0)))
        while not (folder / STOP).exists():
            session.wait(0.5)
            progress = session.deployment.query.lastProgress  # type: ignore[attr-defined]
            if progress is not None and progress.batchId > newest:
                newest = progress.batchId
                stores = sum(operator.memoryUsedBytes for operator in progress.stateOperators) / 1e6
                taken = progress.durationMs["triggerExecution"]
                noted = {"duration of a micro-batch (ms)": taken, "memory of state stores (MB)": stores}
                batches.write(json.dumps([time.time(), noted]) + "\n")
            batches.flush()
            leak.go_on()
            if time.monotonic() - collected >= COLLECT_SECONDS:
                collected = time.monotonic()
                held.write(json.dumps([time.time(), _held_by_jvm()]) + "\n")
                held.flush()
            if time.monotonic() - changed >= FLAP_SECONDS:
                is_on, changed = not is_on, time.monotonic()
                for name in FLAPPING:
                    (session.start_query if is_on else session.stop_query)(name)


def _held_by_jvm() -> dict[str, float]:
    """Return what the JVM holds after a collection, in megabytes: in its heap, as code and classes, and beside them."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    java = session._jvm.java.lang
    java.System.gc()
    runtime, held = java.Runtime.getRuntime(), {"code": 0, "classes": 0}
    for pool in java.management.ManagementFactory.getMemoryPoolMXBeans():
        if str(pool.getType().name()) == "NON_HEAP":
            held["code" if "Code" in pool.getName() else "classes"] += int(pool.getUsage().getCommitted())
    pid = int(java.ProcessHandle.current().pid())
    beside = _memory(pid, "RssAnon") - runtime.totalMemory() - sum(held.values())
    parts = native_parts(Path(f"/proc/{pid}/smaps").read_text())
    return {
        "heap of JVM after a collection (MB)": (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
        "compiled code of JVM (MB)": held["code"] / 1e6,
        "classes of JVM (MB)": held["classes"] / 1e6,
        "memory of JVM beside heap, code and classes (MB)": beside / 1e6,
        **{f"{part} of JVM (MB)": size / 1e6 for part, size in parts.items()},
    }


def native_parts(smaps: str) -> dict[str, int]:
    """Return the private bytes of the C heap and of the stacks of threads, from /proc/<pid>/smaps of a JVM.

    The C heap has one part named so, and others that begin at multiples of 64 MB. The stack of a Java thread has almost
    a megabyte, and lies behind a guard that nobody may touch.
    """
    parts, part, guarded = {"C heap": 0, "stacks": 0}, None, 0
    for line in smaps.splitlines():
        if mapping := _MAPPING.fullmatch(line):
            begin, end = int(mapping[1], 16), int(mapping[2], 16)
            is_plain = mapping[3] == "rw-p" and not mapping[4]
            is_arena = is_plain and begin % _ARENA == 0 and end - begin <= _ARENA
            is_stack = is_plain and begin == guarded and 900 << 10 <= end - begin <= 1 << 20
            part = "C heap" if is_arena or mapping[4] == "[heap]" else "stacks" if is_stack else None
            guarded = end if mapping[3] == "---p" else 0
        elif part is not None and line.startswith("Anonymous:"):
            parts[part] += int(line.split()[1]) << 10
    return parts


#: A line of smaps that begins a mapping: from, to, permissions, name.
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+\s*(.*)")
#: The size of an arena of glibc.
_ARENA = 64 << 20


class _Leak:
    """Memory that driver and JVM take and never give back, at a rate in megabytes an hour."""

    def __init__(self, rate: float) -> None:
        self.rate, self.began = rate, time.monotonic()
        self.lost: list[tuple[bytes, object]] = []

    def go_on(self) -> None:
        """Lose what is due, in pieces of 10 kB."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        while session is not None and len(self.lost) < (time.monotonic() - self.began) / 3600 * self.rate * 100:
            self.lost.append((os.urandom(10_000), session._jvm.java.nio.ByteBuffer.allocateDirect(10_000)))


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
