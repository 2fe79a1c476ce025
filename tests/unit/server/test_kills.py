"""A server that is killed: pushes that got no answer are repeated under their keys, and each row is there once."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.spool import stream_spool
from headrace.server.tokens import TokenFile, token_path

KILLS, PUSHES = 2, 30
#: Without a query: the local host does not continue one after a kill. tests/spark has queries that do.
SQL = "CREATE STREAM numbers (n INT) FROM MEMORY;"


class Served:
    """`headrace serve` on the local host, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "app.sql").write_text(SQL)
        (folder / "state").mkdir()
        self.token = TokenFile(token_path(folder / "state")).add("tester", "write")
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it answers once it is ready."""
        command = [sys.executable, "-m", "headrace", "serve", str(self._folder / "app.sql"), "--host", "local"]
        command += ["--checkpoint", str(self._folder / "state"), "--bind", f"127.0.0.1:{self._port}"]
        with (self._folder / "output.txt").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while "ready" not in (said := (self._folder / "output.txt").read_text()):
            assert self._process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        address = next(line for line in said.splitlines() if line.startswith("http"))
        self._port = int(address.partition("/#")[0].rpartition(":")[2])

    def kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            headers |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1{path}", data, headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
            assert answer.status == 200, content
            return content
        finally:
            connection.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_pushes_repeated_over_kills_add_each_row_once(tmp_path: Path) -> None:
    chance, served = random.Random(5), Served(tmp_path)
    served.start()
    victims = chance.sample(range(5, PUSHES), KILLS)
    repeated = 0
    try:
        for number in range(PUSHES):
            key = {"Idempotency-Key": f"push-{number}"}
            rows = [{"n": 2 * number}, {"n": 2 * number + 1}]
            if number in victims:  # the answer is thrown away: the client cannot know whether the rows are there
                sent = http.client.HTTPConnection("127.0.0.1", served._port, timeout=10)
                headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json", **key}
                sent.request("POST", "/api/v1/streams/numbers/rows", json.dumps(rows), headers)
                if number == victims[0]:
                    sent.getresponse().read()
                served.kill()
                sent.close()
                served.start()
            answer = served.ask("POST", "/streams/numbers/rows", rows, **key)
            assert answer["rows"] == 2
            repeated += answer["repeated"]
    finally:
        served.kill()
    spool = stream_spool("numbers", tmp_path / "state")
    assert [row[0] for file in spool.files() for row in spool.read(file).iter_rows()] == list(range(2 * PUSHES))
    assert 0 < repeated <= KILLS
