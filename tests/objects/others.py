"""Imitations of Azure's blob storage and of Google's cloud storage, if this machine has them.

HEADRACE_TEST_AZURITE names the program azurite-blob (npm install azurite), HEADRACE_TEST_GCS the program
fake-gcs-server (go install github.com/fsouza/fake-gcs-server@latest).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate

from tests.objects.imitation import BUCKET

#: The account that Azurite has, and its key, which its documentation publishes.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
PROGRAMS = {"azure": "HEADRACE_TEST_AZURITE", "gs": "HEADRACE_TEST_GCS"}
URLS = {"azure": f"abfs://{BUCKET}@{ACCOUNT}.dfs.core.windows.net", "gs": f"gs://{BUCKET}"}


def why_not(kind: str) -> str | None:
    """Return why an imitation cannot run here."""
    return None if os.environ.get(PROGRAMS[kind]) else f"{PROGRAMS[kind]} names no program (tests/objects/others.py)"


@contextmanager
def other_imitation(kind: str) -> Iterator[Mapping[str, str]]:
    """Run an imitation with an empty bucket; yield the variables by which clients find it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = os.environ[PROGRAMS[kind]]
    with tempfile.TemporaryDirectory() as folder:
        command = {
            "azure": [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder, "--silent",
                      "--skipApiVersionCheck", "--disableTelemetry"],
            "gs": [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory",
                   "-public-host", f"127.0.0.1:{port}"],
        }[kind]  # fmt: skip
        log = subprocess.DEVNULL
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            _await(port, server)
            if kind == "azure":
                _make_container(port)
                yield {
                    "AZURE_STORAGE_USE_EMULATOR": "true",
                    "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
                    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                    "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                }
            else:
                _make_bucket(port)
                account = {"gcs_base_url": f"http://127.0.0.1:{port}", "disable_oauth": True}
                unused = {"client_email": "", "private_key": "", "private_key_id": ""}
                yield {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, **unused})}
        finally:
            server.terminate()
            server.wait(60)


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the imitation does not start")


def _make_bucket(port: int) -> None:
    body = json.dumps({"name": BUCKET})
    assert _request(port, "POST", "/storage/v1/b?project=test", body, {"Content-Type": "application/json"}) == 200


def _make_container(port: int) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "\n".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    resource = f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"{canonical}\n{resource}"
    signature = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    signed = {**headers, "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"}
    assert _request(port, "PUT", f"/{ACCOUNT}/{BUCKET}?restype=container", "", signed) == 201


def _request(port: int, method: str, path: str, body: str, headers: Mapping[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status
