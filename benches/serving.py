"""What serving costs and how fast it is: watching pages against none, delivery to a screen, a statement until it works.

A server on Spark runs as `headrace serve` does. Clients are in processes of their own and use what a page uses: one
WebSocket with beats, figures of operators, results and decisions. If there is a browser, results are also followed in
three windows of it until they are drawn. Figures are of one run on one machine.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.parts.screens import browser, on_screen
from benches.parts.watching import watching

from headrace.client import RemoteSession, connect
from headrace.server.tokens import TokenFile, token_path
from headrace.storage.owner import owner_of

#: Tuples per second: more than any machine can do here, and a load that leaves room.
FLOOD, CALM = 20_000_000, 2_000
TABS, IDLE, LIVELY = 3, 200, 50
SCRIPT = """
CREATE STREAM readings (at TIMESTAMP, segment INT, speed DOUBLE) TIMESTAMP BY at SKEW 500 MILLISECONDS
  FROM GENERATOR (rate {rate}, seed 7, col.segment 'uniform(1, 50)', col.speed 'normal(55, 18)');
CREATE QUERY slow AS
  SELECT segment, count(*) AS n, avg(speed) AS speed, window_end
  FROM readings [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE speed < 60 GROUP BY segment;
CREATE QUERY rare AS SELECT at, segment, speed FROM readings WHERE speed > {fastest};
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own; when it answered and when it was ready, in seconds after its start."""

    session: RemoteSession
    url: str
    token: str
    process: subprocess.Popen[bytes]
    state: Path
    reachable: float
    ready: float


def main(quick: bool = False) -> dict[str, Any]:
    """Compare periods of 20 s by turns (8 if quick), follow results for 30 s (10), try 20 statements (6)."""
    rows: list[dict[str, Any]] = []
    notes = [f"load of the machine at the start: {os.getloadavg()[0]:.1f}"]
    with served(SCRIPT.format(rate=CALM, fastest=70)) as server:
        rows.append(_row("page reachable after the start", server.reachable, "s", 3.0))
        rows.append(_row("ready with Spark after the start", server.ready, "s", 30.0))
        with watching(server.url, server.token, ("slow", "rare"), clients=TABS) as tell:
            took = _batch_ms(server.session, 10.0 if quick else 30.0)
            delays = tell()
        rows.append(_row(f"delivery to {TABS} clients, p95", _p95(delays), "ms", 250.0))
        notes.append(f"clients: {_spread(delays)}; a micro-batch takes {took:.0f} ms (median)")
        if program := browser():
            drawn = on_screen(program, server.url, server.token, "slow", TABS, 10.0 if quick else 30.0)
            rows.append(_row(f"delivery to screen, {TABS} windows, p95", _p95(drawn), "ms", 250.0))
            notes.append(f"screens: {_spread(drawn)}")
        in_force, firsts, periods = statements(server.session, 6 if quick else 20)
        limit = statistics.median(periods) + 50
        rows.append(_row("statement until in force, median", statistics.median(in_force), "ms", limit))
        notes.append(
            f"statements: in force {_spread(in_force)}; a micro-batch follows another after {_spread(periods)}; "
            f"first results with a client after {_spread(firsts)}"
        )
        rows.append(_row(f"memory for {IDLE} idle clients", idle_clients(server), "MB", 50.0))
        alone, crowded = lively(server, 2 if quick else 4, 6.0 if quick else 12.0)
        ratio = statistics.median(crowded) / statistics.median(alone)
        rows.append(_row(f"micro-batch with {LIVELY} followers of {CALM // 2:,} rows/s, to none", ratio, "x", 1.05))
        notes.append(f"micro-batches with followers {_listed(crowded)}, without {_listed(alone)} ms, by turns")
        with watching(server.url, server.token, ("slow", "rare"), clients=TABS):
            free, ended, took = stop(server)
        rows.append(_row("stop with streams open: checkpoint released", free, "s", took / 1000 + 1.0))
        notes.append(f"the process had ended, and Java with it, {ended:.1f} s after it was asked to")
    with served(SCRIPT.format(rate=FLOOD, fastest=130)) as server:
        watched, alone = throughput(server, 2 if quick else 4, 8.0 if quick else 20.0)
    ratio = statistics.median(watched) / statistics.median(alone)
    rows.append(_row(f"tuples per second with {TABS} watching pages, to none", ratio, "x", 0.97, least=True))
    notes.append(f"with pages {_listed(watched)}, without {_listed(alone)} tuples per second, by turns")
    return {"bench": "serving", "title": "What serving costs, and how fast it is", "rows": rows, "notes": notes}


def throughput(server: Served, turns: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the tuples per second with watching pages and without, by turns."""
    watched: list[float] = []
    alone: list[float] = []
    _rate(server.session, seconds)  # counts for nothing
    for turn in range(2 * turns):
        # 1 0 0 1 1 0: what changes slowly meanwhile concerns both
        if turn % 4 in (0, 3):
            with watching(server.url, server.token, ("slow", "rare"), clients=TABS):
                watched.append(_rate(server.session, seconds))
        else:
            alone.append(_rate(server.session, seconds))
    return watched, alone


def lively(server: Served, turns: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the milliseconds of micro-batches without followers and with many, by turns."""
    alone: list[float] = []
    crowded: list[float] = []
    server.session.execute("CREATE QUERY every AS SELECT at, segment, speed FROM readings WHERE segment <= 25")
    for turn in range(2 * turns):
        if turn % 4 in (0, 3):
            with watching(server.url, server.token, (), clients=LIVELY, follow="every"):
                crowded.append(_batch_ms(server.session, seconds))
        else:
            alone.append(_batch_ms(server.session, seconds))
    server.session.execute("DROP QUERY every")
    return alone, crowded


def statements(session: RemoteSession, count: int) -> tuple[list[float], list[float], list[float]]:
    """Return milliseconds: until new queries are in force, until their first results are here, and of micro-batches.

    A query is in force when the first micro-batch begins that knows it, which is when the one before was delivered.
    The last figures are the times between deliveries.
    """
    in_force, firsts = [], []
    with _noting(session) as known:
        for number in range(count):
            name, began = f"fresh{number}", time.time() * 1000
            session.execute(f"CREATE QUERY {name} AS SELECT segment, speed + {number} AS s FROM readings")
            first = next(session.follow(name, after="first"))
            firsts.append(time.time() * 1000 - began)
            session.execute(f"DROP QUERY {name}")
            time.sleep(0.137)  # not in step with micro-batches
            if (before := known.get(first.number - 1)) is not None:
                in_force.append(max(0.0, before[0] - began))
        periods = [known[batch][0] - known[batch - 1][0] for batch in known if batch - 1 in known]
    return in_force, firsts, periods


def idle_clients(server: Served) -> float:
    """Return the megabytes by which the server grows when clients connect that only hear beats."""
    before = _resident(server.process.pid)
    with watching(server.url, server.token, (), clients=IDLE):
        time.sleep(5)
        return max(0.0, _resident(server.process.pid) - before)


def stop(server: Served) -> tuple[float, float, float]:
    """Stop the server; return the seconds until its checkpoint is free, until it ended, and a micro-batch in ms."""
    took = _batch_ms(server.session, 3.0)
    began = time.monotonic()
    server.process.send_signal(signal.SIGINT)
    while owner_of(server.state)[1]:
        time.sleep(0.01)
    free = time.monotonic() - began
    server.process.wait(60)
    return free, time.monotonic() - began, took


@contextmanager
def served(script: str) -> Iterator[Served]:
    """Serve a script on Spark, and wait until micro-batches run."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        (folder / "app.sql").write_text(script)
        (folder / "state").mkdir(mode=0o700)
        token = TokenFile(token_path(folder / "state")).add("bench", "write")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "headrace", "serve", str(folder / "app.sql"), "--bind", f"127.0.0.1:{port}"]
        command += ["--checkpoint", str(folder / "state")]
        began = time.monotonic()
        with (folder / "output.txt").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}"
            reachable = _until(url, process, folder / "output.txt", began)
            ready = _until(f"{url}/health/ready", process, folder / "output.txt", began)
            with connect(url, token=token) as session:
                while _beat(session)["batch"] < 3:
                    time.sleep(0.2)
                yield Served(session, url, token, process, folder / "state", reachable, ready)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def _until(url: str, process: subprocess.Popen[bytes], log: Path, began: float) -> float:
    """Return after how many seconds an address was answered with 200."""
    last: Exception | None = None
    while time.monotonic() < began + 180:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return time.monotonic() - began
        except OSError as error:
            last = error
            time.sleep(0.05)
    raise RuntimeError(f"{url} is not answered: {last}")


@contextmanager
def _noting(session: RemoteSession) -> Iterator[dict[int, tuple[float, float]]]:
    """Note of each micro-batch when it was delivered, and how many milliseconds it took."""
    known: dict[int, tuple[float, float]] = {}
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            beat = _beat(session)
            if beat["took_ms"]:
                known[beat["batch"]] = (beat["at"], beat["took_ms"])
            is_over.wait(0.05)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        is_over.set()
        thread.join()


def _batch_ms(session: RemoteSession, seconds: float) -> float:
    """Return the median milliseconds of micro-batches over a while."""
    with _noting(session) as known:
        time.sleep(1.0)
        known.clear()
        time.sleep(seconds)
        took = [ms for _, ms in known.values()]
    return statistics.median(took)


def _rate(session: RemoteSession, seconds: float) -> float:
    """Return the tuples that are read per second, between two micro-batches."""
    began, first = _next(session)
    now, tuples = began, first
    while now < began + seconds:
        now, tuples = _next(session)
    return (tuples - first) / (now - began)


def _next(session: RemoteSession) -> tuple[float, int]:
    """Wait for the end of a micro-batch; return when it was, and how many tuples were read until then."""
    before = _beat(session)["batch"]
    while True:
        beat = _beat(session)
        if beat["batch"] > before:
            tuples = next(stream["tuples"] for stream in beat["streams"] if stream["name"] == "readings")
            return beat["at"] / 1000, tuples
        time.sleep(0.05)


def _beat(session: RemoteSession) -> Any:
    return session._wire.ask("GET", "/deployment")["beat"]


def _resident(process: int) -> float:
    """Return the memory of a process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _row(case: str, ours: float, unit: str, target: float, *, least: bool = False) -> dict[str, Any]:
    verdict = "met" if (ours >= target if least else ours <= target) else "missed"
    return {"case": case, "ours": ours, "peers": {}, "unit": unit, "target": target, "verdict": verdict}


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _spread(values: list[float]) -> str:
    return f"median {statistics.median(values):.0f} of {len(values)}, from {min(values):.0f} to {max(values):.0f} ms"


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)
