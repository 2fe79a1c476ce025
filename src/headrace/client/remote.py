"""A session on a server: the methods of `Session`, by HTTP."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from headrace.client.tables import rows_of
from headrace.client.values import reader
from headrace.client.wire import Wire, error_of
from headrace.errors import HeadraceError, HostFault, NotSupported
from headrace.model.outcome import Listing, Message, Outcome, Started
from headrace.model.rows import mappings

if TYPE_CHECKING:
    from headrace.engine.statistics import Statistics

URL, TOKEN = "HEADRACE_URL", "HEADRACE_TOKEN"
#: Where `headrace serve` keeps its state if nothing else is said.
STATE = Path("headrace-state")
#: Seconds between tries to reach a server again.
_PAUSE = 1.0


class Batch(NamedTuple):
    """The results of a query in one micro-batch; `skipped` rows before them were not sent."""

    number: int
    rows: list[dict[str, Any]]
    skipped: int


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    checkpoint: Path | str | None = None,
    timeout: float = 60.0,
    cafile: str | None = None,
) -> RemoteSession:
    """Return a session on a server.

    Without an address it is the one in HEADRACE_URL, or the server of the checkpoint, which is ./headrace-state.
    Without a token it is the one in HEADRACE_TOKEN, or, of a checkpoint of this user, the owner's.
    """
    token = token or os.environ.get(TOKEN)
    url = url or (os.environ.get(URL) if checkpoint is None else None)
    if url is None:
        folder = Path(checkpoint or STATE)
        try:
            url = json.loads((folder / "server.json").read_bytes())["url"]
        except (OSError, ValueError, KeyError) as error:
            raise HostFault(
                f"no server of {folder} is known", hint="start one: headrace serve; or name one: --url, HEADRACE_URL"
            ) from error
        if token is None:
            try:
                token = (folder / "owner.token").read_text()
            except OSError as error:
                raise HostFault(f"the token of the server of {folder} cannot be read") from error
    return RemoteSession(url, token or "", timeout=timeout, cafile=cafile)


class RemoteSession:
    """Streams, tables and queries of a server.

    It has the methods of `Session` and raises the same errors. Functions of this process cannot be registered there.
    """

    def __init__(self, url: str, token: str = "", *, timeout: float = 60.0, cafile: str | None = None) -> None:
        self._wire = Wire(url, token, timeout=timeout, cafile=cafile)
        self._is_closed = threading.Event()
        self._start = secrets.token_hex(8)
        self._pushes = 0
        self.follows: set[str] = set()  # unnamed SELECTs of this session

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return self._wire.url

    def execute(self, text: str, *, start: bool = True) -> list[Outcome]:
        """Run statements in order, all or none; an error points into `text`."""
        answer = self._wire.ask("POST", "/statements", {"text": text})
        return [self._outcome(outcome) for outcome in answer["outcomes"]]

    def check(self, text: str) -> bool:
        """Check statements without effect; return whether they would do more than read."""
        diagnosis = self._wire.ask("POST", "/check", {"text": text})
        if diagnosis["problem"] is not None:
            raise error_of(json.dumps(diagnosis["problem"]).encode(), 422, text)
        return bool(diagnosis["changes"])

    def explain(self, text: str, *, form: Literal["text", "json"] = "text") -> str:
        """Return how the statements' queries would run."""
        answer = self._wire.ask("POST", "/explain", {"text": text})
        if form == "text":
            return str(answer["text"])
        return "\n\n".join(json.dumps(plan, indent=2) for plan in answer["plans"])

    def forecast(self, text: str, rates: Mapping[str, float], *, speed: float = 1.0) -> dict[str, Any]:
        """Forecast the queries of a text beside those that run, as `Session.foretell` does, as plain values."""
        found: dict[str, Any] = self._wire.ask(
            "POST", "/forecast", {"text": text, "rates": dict(rates), "speed": speed}
        )
        return found

    def start_query(self, name: str) -> None:
        """Start a query; nothing if it is on."""
        self.execute(f"START QUERY {_quoted(name)}")

    def stop_query(self, name: str) -> None:
        """Stop a query; nothing if it is off."""
        self.execute(f"STOP QUERY {_quoted(name)}")

    def push(self, stream: str, rows: Any, *, key: str = "") -> int | None:
        """Append rows to a MEMORY stream, all or none; durable when it returns.

        Rows are mappings, sequences in the order of the columns, data classes, or a table of Polars, Arrow or pandas.
        With a `key`, rows that were pushed under it within a day are not added again, also after a crash: then how many
        they were is returned, else None. Without one, only the repetition of a request that got no answer adds nothing.
        """
        self._pushes += 1
        header = {"Idempotency-Key": key or f"{self._start}-{self._pushes}"}
        path = f"/streams/{quote(stream, safe='')}/rows"
        table = rows_of(rows)
        columns = cache(partial(self._columns, stream))  # asked for at most once, and only if rows have no names
        body = [dict(row) for row in mappings(rows, columns)] if table is None else table
        try:
            answer = self._wire.ask("POST", path, body, header)
        except HostFault as error:
            if not isinstance(error.__cause__, OSError):
                raise
            time.sleep(_PAUSE)
            answer = self._wire.ask("POST", path, body, header)
        return int(answer["rows"]) if key and answer["repeated"] else None

    def _columns(self, stream: str) -> list[str]:
        """Return the names of the columns of a stream."""
        answer = self._wire.ask("GET", f"/streams/{quote(stream, safe='')}")
        return [column["name"] for column in answer["columns"]]

    def results(self, query: str) -> list[dict[str, Any]]:
        """Return the newest results of a query that the server keeps."""
        answer = self._wire.ask("GET", f"/queries/{quote(query, safe='')}/results?limit=100000")
        return [row for batch in answer["batches"] for row in _rows(batch)]

    def follow(
        self, query: str, *, after: int | Literal["latest", "first"] = "latest", complete: bool = False
    ) -> Iterator[Batch]:
        """Give the results of a query as they come; after a break it goes on behind the last micro-batch.

        A complete one, of a query WITH (keep '... durable'), misses nothing, also over a crash of the server.
        """
        path = f"/queries/{quote(query, safe='')}/results?follow={'complete' if complete else 'lively'}"
        place: int | str = after
        while not self._is_closed.is_set():
            try:
                headers = {"Accept": "text/event-stream"}
                response = self._wire.request("GET", f"{path}&after={place}", None, headers, timeout=60.0)
            except HostFault as error:
                is_passing = "is starting" in error.message or "is stopping" in error.message
                if error.__cause__ is None and not is_passing:
                    raise
                self._is_closed.wait(_PAUSE)
                continue
            try:
                for event in _events(response):
                    result = json.loads(event)
                    place = result["batch"]
                    yield Batch(result["batch"], _rows(result), result["skipped"])
            except (OSError, ValueError, http.client.HTTPException):
                pass  # the connection broke, or the last event is not whole: it comes again
            finally:
                response.close()
            if not self._is_there(query):
                return
            self._is_closed.wait(0.05)

    def subscribe(self, query: str, take: Callable[[int, list[dict[str, Any]]], None]) -> None:
        """Call `take(batch, rows)` with the results of a query as they come, from a background thread."""

        def run() -> None:
            for batch in self.follow(query, after="latest"):
                take(batch.number, batch.rows)

        self._wire.ask("GET", f"/queries/{quote(query, safe='')}")
        threading.Thread(target=run, name=f"follow {query}", daemon=True).start()

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Refuse: a server cannot call functions of another process."""
        raise NotSupported(
            "a function of this process cannot be called by a server",
            hint="put it into a module beside the server's script, and CALL PYTHON 'module:function'",
        )

    def statistics(self) -> Statistics:
        """Return the counters of the deployment as of the last finished micro-batch."""
        import msgspec  # these are here, so that importing the client stays cheap

        from headrace.engine.statistics import Statistics

        return msgspec.convert(self._wire.ask("GET", "/counters"), Statistics)

    def deployment(self) -> dict[str, Any]:
        """Return the state of the server and its latest beat."""
        found: dict[str, Any] = self._wire.ask("GET", "/deployment")
        return found

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the deployment ends (True) or `timeout` seconds pass (False); raises if it failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.deployment()
            if found["state"] == "failed":
                raise HostFault(found["stage"] or "the deployment has failed")
            if found["state"] in ("ended", "stopping"):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(0.1)

    def drain(self, timeout: float | None = None) -> None:
        """Refuse: draining ends the queries of all clients."""
        raise NotSupported(
            "a client does not drain a server", hint="headrace stop ends it; headrace run --once drains a checkpoint"
        )

    def stop_server(self) -> None:
        """Stop the server: the micro-batch is finished, and the checkpoint released."""
        self._wire.ask("POST", "/stop", {})

    def start(self) -> None:
        """Do nothing: the queries of a server run."""

    def stop(self) -> None:
        """Leave; the server goes on."""
        self._is_closed.set()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _is_there(self, query: str) -> bool:
        try:
            self._wire.ask("GET", f"/queries/{quote(query, safe='')}")
        except HostFault:
            return True  # the server may come back
        except HeadraceError:
            return False
        return True

    def _outcome(self, outcome: dict[str, Any]) -> Outcome:
        match outcome["kind"]:
            case "message":
                return Message(outcome["text"])
            case "started":
                if outcome["follow"]:
                    self.follows.add(outcome["query"])
                return Started(outcome["query"])
            case _:
                return Listing(tuple(outcome["columns"]), tuple(map(tuple, outcome["rows"])))


def _events(response: Any) -> Iterator[str]:
    """Give the data of each event that is whole."""
    data: str | None = None
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text.startswith("data: "):
            data = text[6:]
        elif text.startswith("event: stopping"):
            return
        elif not text and data is not None:
            yield data
            data = None


def _rows(batch: dict[str, Any]) -> list[dict[str, Any]]:
    names = [column["name"] for column in batch["columns"]]
    read = [reader(column["type"]) for column in batch["columns"]]
    return [
        {name: None if value is None else take(value) for name, take, value in zip(names, read, row, strict=True)}
        for row in batch["rows"]
    ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
