"""A real Prometheus reads the metrics of a server: promtool finds nothing wrong, and an alert fires and ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from tests.prometheus.conftest import program
from tests.unit.server.conftest import Client, end, serve

from headrace.cli.serving.dashboard import PANELS, alerts
from headrace.server.tokens import TokenFile, token_path

SQL = """
CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM GENERATOR (rate 100, seed 7);
CREATE QUERY all_bids WITH (latency '1 hour' BEST EFFORT) AS SELECT item FROM bids;
"""
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: headrace
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
#: Where the overloaded deployment runs: with `spark` it is as users run it, and takes a minute more.
HOST: Literal["spark", "local"] = "spark" if os.environ.get("HEADRACE_OVERLOADED_HOST") == "spark" else "local"
#: Seconds after which something has not happened.
PATIENCE = 60.0


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    promtool = program("promtool")
    (tmp_path / "rules.yml").write_text(alerts())
    subprocess.run([promtool, "check", "rules", str(tmp_path / "rules.yml")], check=True, capture_output=True)
    server = serve(tmp_path / "state", SQL)
    try:
        client = Client(server)
        client.until(lambda: client.get("deployment")["beat"]["batch"] >= 0)
        text = client.ask("GET", "/metrics").body
    finally:
        end(server)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")


@contextmanager
def prometheus(folder: Path, port: int, token: str) -> Iterator[str]:
    """Run Prometheus on this machine, which reads a server every second; give its address."""
    found = program("prometheus")
    (folder / "token").write_text(token)
    (folder / "rules.yml").write_text(alerts().replace("for: 5m", "for: 2s"))
    text = CONFIGURATION.format(rules=folder / "rules.yml", token=folder / "token", port=port)
    (folder / "prometheus.yml").write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [found, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def until(is_so: Any, what: str, patience: float = PATIENCE) -> Any:
    deadline = time.monotonic() + patience
    while True:
        try:
            if found := is_so():
                return found
        except OSError:
            pass  # it is starting
        assert time.monotonic() < deadline, f"not so: {what}"
        time.sleep(0.2)


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/api/v1/{path}", timeout=10) as answer:
        return json.load(answer)["data"]


def firing(url: str) -> list[tuple[str, str]]:
    """Return the alerts that fire, with their queries."""
    found = ask(url, "alerts")["alerts"]
    return [(a["labels"]["alertname"], a["labels"].get("query", "")) for a in found if a["state"] == "firing"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_alert_of_a_broken_promise_fires_and_ends(tmp_path: Path) -> None:
    program("prometheus")
    server = serve(tmp_path / "state", SQL)
    client = Client(server)
    token = TokenFile(token_path(server.service.directory)).add("prometheus", "read")
    broken = ("HeadracePromiseBroken", "all_bids")
    try:
        with prometheus(tmp_path, server.port, token) as url:
            until(lambda: ask(url, "query?query=headrace_promise_kept")["result"], "it reads the server")
            assert broken not in firing(url)
            answer = client.run("ALTER QUERY all_bids SET (latency '1 ms' BEST EFFORT)")
            assert answer.status == 200, answer
            until(lambda: broken in firing(url), "the alert fires")
            client.run("ALTER QUERY all_bids SET (latency '1 hour' BEST EFFORT)")
            until(lambda: broken not in firing(url), "the alert ends")
            for _, _, panels in PANELS:
                for expression, _ in panels:
                    query = quote(expression)
                    assert ask(url, f"query?query={query}")["resultType"] == "vector", expression
    finally:
        end(server)


OVERLOAD = """
CREATE STREAM probes (at TIMESTAMP, zone INT, x DOUBLE, y DOUBLE) TIMESTAMP BY at SKEW 1 SECOND
  FROM FILES (path '{folder}/probes', format 'parquet');
CREATE TABLE points (area INT, px DOUBLE, py DOUBLE) FROM FILES (path '{folder}/points.csv', format 'csv');
CREATE QUERY near_roads WITH (force, latency '1 s' BEST EFFORT) AS
  SELECT zone, count(*) AS near, window_end FROM probes [RANGE 1 SECOND] JOIN points ON zone = area
  WHERE pow(x - px, 2) + pow(y - py, 2) < 0.0025 GROUP BY zone;
"""


class Probes:
    """Writes files of probes that have just been seen."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._rng, self._count = folder / "probes", np.random.default_rng(3), 0
        self._folder.mkdir()
        points = pl.DataFrame({"area": [1, 2] * 20, "px": self._rng.random(40), "py": self._rng.random(40)})
        points.write_csv(folder / "points.csv")

    def put(self, rows: int) -> None:
        now = time.time()
        seen = np.sort(self._rng.uniform(now - 0.2, now, rows) * 1e6).astype(np.int64)
        zones = pl.Series(self._rng.integers(1, 3, rows), dtype=pl.Int32)
        columns = {"zone": zones, "x": self._rng.random(rows), "y": self._rng.random(rows)}
        frame = pl.DataFrame({"at": pl.Series(seen).cast(pl.Datetime("us")), **columns})
        self._count += 1
        frame.write_parquet(self._folder / f".{self._count}.tmp")
        (self._folder / f".{self._count}.tmp").rename(self._folder / f"{self._count:05d}.parquet")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_alert_fires_while_the_machine_is_overloaded_and_ends_after_that(tmp_path: Path) -> None:
    program("prometheus")
    probes = Probes(tmp_path)
    probes.put(1000)
    server = serve(tmp_path / "state", OVERLOAD.format(folder=tmp_path), host=HOST)
    token = TokenFile(token_path(server.service.directory)).add("prometheus", "read")
    broken = ("HeadracePromiseBroken", "near_roads")
    rows = 100_000.0
    try:
        with prometheus(tmp_path, server.port, token) as url:

            def more_than_it_can_do() -> bool:
                nonlocal rows
                if rows < 10_000_000:  # soon no machine is fast enough
                    probes.put(round(rows))
                    rows *= 1.6
                time.sleep(0.5)
                return broken in firing(url)

            until(more_than_it_can_do, "the alert fires", 240)

            def what_it_can_do() -> bool:
                probes.put(1000)
                time.sleep(0.3)
                return broken not in firing(url)

            until(what_it_can_do, "the alert ends", 240)
    finally:
        end(server)
