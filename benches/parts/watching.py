"""Clients of a server, in a process of their own: pages that watch, followers, clients that only hear beats."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def watching(url: str, token: str, queries: Sequence[str], *, clients: int = 3, follow: str = "") -> Iterator[Any]:
    """Watch as pages do; give a function that ends it and returns the milliseconds from each delivery to a client.

    With `follow`, clients follow that query and nothing else. Messages are decoded only for their delays: what a client
    computes is no cost of the server.
    """
    topics: list[dict[str, str]] = [{"t": "beat"}, {"t": "decisions"}, {"t": "catalog"}, {"t": "state"}]
    topics += [{"t": kind, "query": query} for query in queries for kind in ("graph", "results")]
    if follow:
        topics = [{"t": "results", "query": follow}]
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_watch, args=(theirs, url, token, topics, clients), daemon=True)
    process.start()
    theirs.close()  # else nobody would hear that it has failed
    ours.recv()  # all are connected

    def tell() -> list[float]:
        ours.send("stop")
        delays: list[float] = ours.recv()
        return delays

    try:
        yield tell
    finally:
        process.terminate()
        process.join()


def _watch(pipe: Any, url: str, token: str, topics: list[dict[str, str]], clients: int) -> None:
    import asyncio

    from websockets.asyncio.client import connect

    delays: list[float] = []

    async def one(ready: asyncio.Barrier) -> None:
        address = url.replace("http", "ws") + "/api/v1/live"
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(address, additional_headers=headers, proxy=None, max_size=None, compression=None) as feed:
            await feed.send(json.dumps({"watch": topics}))
            began = time.time() * 1000
            await ready.wait()
            async for message in feed:
                now = time.time() * 1000
                if isinstance(message, str) and message.startswith('{"t":"results"'):
                    at = int(message.partition('"at":')[2].partition(",")[0])
                    if at > began:  # what was kept from before comes first
                        delays.append(now - at)

    async def run() -> None:
        ready = asyncio.Barrier(clients + 1)
        tasks = [asyncio.create_task(one(ready)) for _ in range(clients)]
        await ready.wait()
        pipe.send("connected")
        delays.clear()
        await asyncio.to_thread(pipe.recv)
        pipe.send(list(delays))
        for task in tasks:
            task.cancel()

    asyncio.run(run())
