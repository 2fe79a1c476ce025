"""Run queries with Flink SQL, one after the other in one JVM, in an environment without Headrace.

Each line of the input is a job as JSON: `tables` (statements that create tables), `statement` (an INSERT),
`checkpoints` (a directory), `parallelism`, and `streams`, those tables whose tuples are counted. For each job a JSON
line is printed: `seconds` from the first statement to the end of the job, and `read`, pairs of seconds and tuples that
had been read by then, as Flink's metrics have them. A job that fails gives `error`. The process ends with its input.
"""

import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

#: How often the tuples are counted, in seconds.
_EVERY = 0.05
_SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    # as in the settings of Nexmark for Flink
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    # results are exactly once, as those of Headrace and Spark
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "state.backend.type": "hashmap",
    # so that the metrics are of now
    "metrics.fetcher.update-interval": "20",
    "taskmanager.memory.network.max": "256m",
    "taskmanager.memory.managed.size": "256m",
} | dict.fromkeys(
    ("rest.address", "rest.bind-address", "jobmanager.bind-host", "taskmanager.bind-host", "taskmanager.host"),
    "127.0.0.1",
)


def main() -> None:
    """Run the jobs of the input."""
    for line in sys.stdin:
        try:
            report = _run(json.loads(line))
        except Exception as error:  # whatever Java throws
            report = {"error": str(error)}
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


def _run(job: dict[str, Any]) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    began = time.perf_counter()
    environment = _environment(job, port)
    for table in job["tables"]:
        environment.execute_sql(table)
    running = environment.execute_sql(job["statement"])
    read: list[tuple[float, int]] = []
    ended = threading.Event()
    client = running.get_job_client()
    assert client is not None
    address = f"http://127.0.0.1:{port}/jobs/{client.get_job_id()}"
    watching = threading.Thread(target=_watch, args=(address, job["streams"], began, read, ended))
    watching.start()
    try:
        running.wait()
    finally:
        seconds = time.perf_counter() - began
        ended.set()
        watching.join()
    return {"seconds": seconds, "read": read}


def _environment(job: dict[str, Any], port: int) -> TableEnvironment:
    settings = Configuration()
    for name, value in _SETTINGS.items():
        settings.set_string(name, value)
    settings.set_string("rest.port", str(port))
    settings.set_string("rest.bind-port", str(port))
    settings.set_string("parallelism.default", str(job["parallelism"]))
    settings.set_string("taskmanager.numberOfTaskSlots", str(job["parallelism"]))
    settings.set_string("execution.checkpointing.dir", f"file://{job['checkpoints']}")
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )


def _watch(
    address: str, streams: list[str], began: float, read: list[tuple[float, int]], ended: threading.Event
) -> None:
    """Count the tuples of streams that have been read, until the job has ended; equal counts are left out."""
    counters: dict[str, list[str]] = {}
    while not ended.wait(_EVERY):
        try:
            if not counters:
                counters = _counters(address, streams)
                continue
            total = sum(
                int(float(value["sum"]))
                for vertex, names in counters.items()
                for value in _metrics(address, vertex, names)
            )
        except (OSError, ValueError, KeyError):
            continue  # it starts, or it ends
        if not read or total > read[-1][1]:
            read.append((time.perf_counter() - began, total))


def _counters(address: str, streams: list[str]) -> dict[str, list[str]]:
    """Return the names of the counters of tuples that streams have given, by vertex; none until all have one."""
    vertices = _get(address)["vertices"]
    sources = [vertex["id"] for vertex in vertices if any(f"Source: {stream}[" in vertex["name"] for stream in streams)]
    found = {
        vertex: [
            metric["id"]
            for metric in _get(f"{address}/vertices/{vertex}/subtasks/metrics")
            if metric["id"].startswith("Source") and metric["id"].endswith(".numRecordsIn")
        ]
        for vertex in sources
    }
    return found if all(found.values()) else {}


def _metrics(address: str, vertex: str, names: list[str]) -> list[dict[str, Any]]:
    wanted = urllib.parse.quote(",".join(names))
    return _get(f"{address}/vertices/{vertex}/subtasks/metrics?get={wanted}&agg=sum")


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=5) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
