"""Count the tuples that the sources of a Flink job have read, by Flink's own metrics."""

import json
import re
import socket
import threading
import time
import urllib.parse
import urllib.request
from typing import Any

#: How often the tuples are counted, in seconds.
_EVERY = 0.05
#: Settings without which the counts would be of some time ago.
SETTINGS = {"metrics.fetcher.update-interval": "20"}


def free_port() -> int:
    """Return a port at which a job can be asked."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def run(environment: Any, statement: str, port: int, streams: list[str], began: float) -> dict[str, Any]:
    """Run an INSERT to its end.

    Return the seconds since `began` at its end, and in `read` pairs of seconds and tuples that streams had given then.
    """
    running = environment.execute_sql(statement)
    read: list[tuple[float, int]] = []
    ended = threading.Event()
    client = running.get_job_client()
    assert client is not None
    address = f"http://127.0.0.1:{port}/jobs/{client.get_job_id()}"
    watching = threading.Thread(target=_watch, args=(address, streams, began, read, ended))
    watching.start()
    try:
        running.wait()
    finally:
        seconds = time.perf_counter() - began
        ended.set()
        watching.join()
    return {"seconds": seconds, "read": read}


def reads(vertex: str, stream: str) -> bool:
    """Return whether a vertex of this name reads a stream, from files or from a topic."""
    return re.search(rf"Source: ({stream}\[|KafkaSource-\S*\.{stream}(\s|$))", vertex) is not None


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
    sources = [vertex["id"] for vertex in vertices if any(reads(vertex["name"], stream) for stream in streams)]
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
