"""`headrace serve --demo`: a deployment to look around in, of which nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_is_served_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "serve", "--demo", "--host", "local", "--bind", "127.0.0.1:0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address, _, token = process.stdout.readline().strip().partition("/#token=")
            while "ready" not in (said := process.stderr.readline()):
                assert said, "it ended"
            request = urllib.request.Request(f"{address}/api/v1/queries", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert {query["name"] for query in json.load(answer)} >= {"speed_map", "congestion"}
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert "stopped" in process.stderr.read()
        finally:
            if process.poll() is None:
                process.kill()
    assert not list(tmp_path.glob("headrace-demo-*"))
    assert not (tmp_path / "headrace-state").exists()
