"""Flink as a peer: a separate process that counts the same files and reports on its output."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from headrace.errors import HostFault
from headrace.experiments.timestamps.silent_stream import Case, Seen

ROOT = Path(__file__).resolve().parents[2]
#: The variants with their `table.exec.source.idle-timeout`: none by default, and a second, as usually recommended.
VARIANTS = {"flink": "", "flink, idle-timeout 1 s": "1 s"}
HINT = (
    "Flink is not installed: run benches/flink/setup, which installs it into .flink, "
    "or set HEADRACE_FLINK_PYTHON to the Python of an environment that has it"
)
#: How long a process may take to end.
_END_SECONDS = 15.0


def find_python() -> Path | None:
    """Return the Python that has Flink, or None."""
    named = os.environ.get("HEADRACE_FLINK_PYTHON")
    python = Path(named) if named else ROOT / ".flink" / "bin" / "python"
    if not python.exists():
        if named:
            raise HostFault(
                f"HEADRACE_FLINK_PYTHON names {named}, which does not exist",
                hint="correct it, or run benches/flink/setup without it",
            )
        return None
    return python


def start(case: Case, folder: Path) -> Flink:
    """Start both variants on the directories of a case."""
    python = find_python()
    if python is None:
        raise HostFault(HINT)
    variants = [f"{name}={timeout}" for name, timeout in VARIANTS.items()]
    behind = [str(case.behind(stream)) for stream in ("fast", "slow")]
    return Flink([str(python), str(ROOT / "benches" / "flink" / "job.py"), str(folder), *behind, *variants])


class Flink:
    """A running process, and the reports of its jobs so far."""

    def __init__(self, command: Sequence[str]) -> None:
        self.seen = {name: Seen() for name in VARIANTS}
        self.running: set[str] = set()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=environment(),
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def is_ready(self) -> bool:
        """Return whether all jobs run."""
        if self._process.poll() is not None:
            raise HostFault(
                f"Flink ended: {self._last_words()}", hint="benches/flink/job.py can be run alone; Flink needs Java 17"
            )
        return self.running == self.seen.keys()

    def end(self) -> None:
        """End the process by closing its input; kill it if it does not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_SECONDS)
        self._process.stdout.close()
        self._complaints.close()

    def _read(self, lines: IO[str]) -> None:
        take(lines, self.seen, self.running)

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {self._process.returncode}"


def take(lines: Iterable[str], seen: dict[str, Seen], running: set[str]) -> None:
    """Sort the reports of jobs: that they run, or a window's end with its count and arrival time."""
    for line in lines:
        report = event(line)
        if report is None or report.get("name") not in seen:
            continue
        if report.get("running"):
            running.add(report["name"])
        else:
            seen[report["name"]].take(report["end"], report["count"], report["at"])


def event(line: str) -> dict[str, Any] | None:
    """Return a job's report in a line; None if the line is Flink's own."""
    try:
        report = json.loads(line)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def environment() -> dict[str, str]:
    """Return our environment without variables that would make another Python find our packages."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYSPARK_PYTHON")
    }
