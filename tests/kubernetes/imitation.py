"""An imitation of Kubernetes for one driver: its interface for pods, and executors as processes of this machine.

It answers what Spark's scheduler asks in client mode, and runs what the entry point of Spark's image runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyspark

from headrace.cli import java

SPARK = Path(pyspark.__file__).parent
_PLACE = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>\w+)(?:/(?P<name>[^/]+))?")
_KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "services": "Service",
}


class Kubernetes(ThreadingHTTPServer):
    """The objects of all namespaces, by kind and name, and the processes of executors by the name of their pod."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.folder = folder
        self.objects: dict[tuple[str, str], Any] = {}
        self.executors: dict[str, subprocess.Popen[bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    @property
    def master(self) -> str:
        return f"k8s://http://127.0.0.1:{self.server_address[1]}"

    def add(self, kind: str, item: Any) -> Any:
        with self.lock:
            metadata = item["metadata"]
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
            self.objects[kind, metadata["name"]] = item
            if kind == "pods":
                item["status"] = {"phase": "Running", "podIP": "127.0.0.1"}
                if item["metadata"].get("labels", {}).get("spark-role") == "executor":
                    self.executors[metadata["name"]] = self._run(item)
        return item

    def seen(self, kind: str, name: str) -> Any:
        item = self.objects.get((kind, name))
        process = self.executors.get(name)
        if item is not None and kind == "pods" and process is not None and process.poll() is not None:
            item["status"]["phase"] = "Succeeded" if process.returncode == 0 else "Failed"
        return item

    def listed(self, kind: str, labels: dict[str, str]) -> list[Any]:
        items = [self.seen(kind, name) for one, name in list(self.objects) if one == kind]
        return [item for item in items if labels.items() <= item["metadata"].get("labels", {}).items()]

    def remove(self, kind: str, name: str) -> None:
        self.objects.pop((kind, name), None)
        if (process := self.executors.get(name)) is not None and kind == "pods":
            process.kill()
            process.wait()

    def close(self) -> None:
        for kind, name in list(self.objects):
            self.remove(kind, name)
        self.shutdown()
        self.server_close()

    def _run(self, pod: Any) -> subprocess.Popen[bytes]:
        """Run what the entry point of Spark's image runs for an executor."""
        (container,) = pod["spec"]["containers"]
        assert container["args"] == ["executor"], container["args"]
        given = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        given |= {"SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": pod["metadata"]["name"]}
        given["SPARK_LOCAL_DIRS"] = str(self.folder / pod["metadata"]["name"])
        options = [value for name, value in sorted(given.items()) if name.startswith("SPARK_JAVA_OPT_")]
        environ = {**os.environ, **given}
        command = [str(java.prepare() / "bin" / "java"), *options, f"-Xmx{given['SPARK_EXECUTOR_MEMORY']}"]
        command += ["-cp", f"{SPARK}/jars/*", "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"]
        command += ["--driver-url", given["SPARK_DRIVER_URL"], "--executor-id", given["SPARK_EXECUTOR_ID"]]
        command += ["--cores", given["SPARK_EXECUTOR_CORES"], "--app-id", given["SPARK_APPLICATION_ID"]]
        command += ["--hostname", "127.0.0.1", "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"]]
        command += ["--podName", pod["metadata"]["name"]]
        with (self.folder / f"{pod['metadata']['name']}.log").open("wb") as output:
            return subprocess.Popen(command, env=environ, cwd=self.folder, stdout=output, stderr=output)


class _Answer(BaseHTTPRequestHandler):
    server: Kubernetes
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        url = urlsplit(self.path)
        self.server.requests.append((method, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match = _PLACE.fullmatch(url.path)
        if match is None:
            self._send(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})
            return
        kind, name = match["kind"], match["name"]
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        pairs = [
            pair.partition("=") for pair in query.get("labelSelector", "").split(",") if "=" in pair and "!" not in pair
        ]
        labels = {key: value for key, _, value in pairs}
        if method == "POST":
            self._send(201, self.server.add(kind, json.loads(body)))
        elif method == "DELETE":
            for item in [self.server.seen(kind, name)] if name else self.server.listed(kind, labels):
                if item is not None:
                    self.server.remove(kind, item["metadata"]["name"])
            self._send(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
        elif name is None:
            wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
            items = [
                item for item in self.server.listed(kind, labels) if not wanted or item["metadata"]["name"] == wanted
            ]
            self._send(
                200,
                {
                    "kind": f"{_KINDS[kind]}List",
                    "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"},
                    "items": items,
                },
            )
        else:
            item = self.server.seen(kind, name)
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            self._send(*((404, status) if item is None else (200, item)))

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass
