"""The live feed: one WebSocket for each page, with the topics that it watches.

A beat is encoded once for all. A client that reads slowly gets the newest beat, and of results it is told how many rows
it has missed; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import polars as pl
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from headrace import __version__
from headrace.server import read
from headrace.server.asks import LiveAsk, Topic
from headrace.server.encoded import Encoded
from headrace.server.follower import Follower
from headrace.server.problems import Fault
from headrace.server.routes.definitions import outbox_of
from headrace.server.routes.results import batch_view
from headrace.server.shelf import Shelved
from headrace.server.tokens import Login
from headrace.server.views.figures import Beat
from headrace.server.views.live import (
    BeatMessage,
    CatalogMessage,
    DecisionsMessage,
    GraphMessage,
    Hello,
    LiveError,
    LiveMessage,
    ResultsMessage,
    RulesMessage,
    StateMessage,
)

if TYPE_CHECKING:
    from headrace.server.server import Server

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Limits of the live feed: clients, topics of each, bytes of a client's message, rows in a message of results.
CLIENTS, TOPICS, MESSAGE, ROWS = 256, 32, 64 * 1024, 500
_decoder = msgspec.json.Decoder(LiveAsk)


class Live:
    """All clients of the live feed; but for `on_beat` and `on_results` it runs in the loop of the HTTP server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: set[_Client] = set()
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self.beat = server.service.beats.latest
        self.encoded: dict[str, bytes] = {}  # messages of this beat by topic
        self.results = Encoded()

    @property
    def clients(self) -> int:
        """Return how many clients there are."""
        return len(self._clients)

    def begin(self) -> None:
        """Take note of the loop; called in it."""
        self._loop = asyncio.get_running_loop()

    def on_beat(self, beat: Beat) -> None:
        """Take a beat from another thread."""
        self._soon(self._take, beat)

    def on_results(self, query: str) -> None:
        """Take note of new results of a query, within the delivery."""
        if query in self._listeners:
            self._soon(self._wake, query)

    def wake_all(self) -> None:
        """Let every follower look whether it is to end."""
        self._soon(self._wake, None)

    @contextmanager
    def listening(self, query: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when a query has new results."""
        event = asyncio.Event()
        self._listeners.setdefault(query, set()).add(event)
        try:
            yield event
        finally:
            listeners = self._listeners[query]
            listeners.discard(event)
            if not listeners:
                del self._listeners[query]

    async def serve(self, socket: WebSocket, login: Login) -> None:
        """Serve one client until it goes."""
        if len(self._clients) >= CLIENTS:
            await socket.close(1013, "too many clients")
            return
        await socket.accept()
        client = _Client(self, self._server, socket, login)
        self._clients.add(client)
        try:
            await client.run()
        finally:
            self._clients.discard(client)
            client.close()

    def _take(self, beat: Beat) -> None:
        self.beat = beat
        self.encoded = {}
        for client in self._clients:
            client.news.set()
        # a query may have been dropped, which ends its followers
        self._wake(None)

    def _wake(self, query: str | None) -> None:
        events = self._listeners.values() if query is None else [self._listeners.get(query, set())]
        for listeners in events:
            for event in listeners:
                event.set()

    def _soon(self, function: Callable[[_T], None], argument: _T) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it closes just now
                loop.call_soon_threadsafe(function, argument)


class _Client:
    """One page: what it watches, and what it has been sent."""

    def __init__(self, live: Live, server: Server, socket: WebSocket, login: Login) -> None:
        self._live, self._server, self._socket, self._login = live, server, socket, login
        self.news = asyncio.Event()
        self._topics: dict[str, Topic] = {}
        self._sent: dict[str, object] = {}  # by topic: what tells whether there is something new
        self._followers: dict[str, Follower] = {}
        self._readings: dict[str, Generator[None]] = {}
        self._credit: dict[str, int] = {}
        self._errors: list[LiveError] = []

    async def run(self) -> None:
        """Send what is new, until the client goes or the server stops."""
        hello = Hello(__version__, self._login.role, self._server.service.beats.latest)
        await self._send(msgspec.json.encode(hello))
        receiver = asyncio.create_task(self._receive())
        try:
            while not receiver.done() and not self._server.service.is_stopping:
                waiter = asyncio.create_task(self.news.wait())
                await asyncio.wait({waiter, receiver}, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
                self.news.clear()
                for message in await asyncio.to_thread(self._messages):
                    await self._send(message)
            if self._server.service.is_stopping:
                await self._send(msgspec.json.encode(StateMessage("stopping", None, None)))
                await self._socket.close(1012, "the server is stopping")
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass
        finally:
            receiver.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await receiver

    def close(self) -> None:
        """Forget what it watched."""
        for key in list(self._followers):
            self._end(key)

    async def _send(self, message: bytes) -> None:
        if self._socket.client_state is WebSocketState.CONNECTED:
            await self._socket.send_text(message.decode())

    async def _receive(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                text = await self._socket.receive_text()
                try:
                    if len(text) > MESSAGE:
                        raise Fault(413, f"a message has at most {MESSAGE} bytes")
                    ask = _decoder.decode(text)
                except (msgspec.DecodeError, Fault) as error:
                    fault = error if isinstance(error, Fault) else Fault(422, str(error))
                    self._errors.append(LiveError(None, fault.problem))
                else:
                    self._follow(ask)
                self.news.set()

    def _follow(self, ask: LiveAsk) -> None:
        for key in ask.drop:
            self._topics.pop(key, None)
            self._sent.pop(key, None)
            self._credit.pop(key, None)
            self._end(key)
        for topic in ask.watch:
            if topic.key not in self._topics and len(self._topics) >= TOPICS:
                problem = Fault(429, f"a client watches {TOPICS} topics at most").problem
                self._errors.append(LiveError(topic.key, problem))
                continue
            self._topics[topic.key] = topic
            self._sent.pop(topic.key, None)
            if topic.t == "results":
                self._begin(topic)
        for key, more in ask.credit.items():
            if key in self._topics:
                self._credit[key] = min(1000, self._credit.get(key, 0) + max(0, more))

    def _begin(self, topic: Topic) -> None:
        self._end(topic.key)
        service = self._server.service
        known = {query.query.lower(): query.query for query in service.running.added}
        name = known.get((topic.query or "").lower())
        if name is None:
            problem = Fault(404, f"there is no query {topic.query!r} that runs").problem
            self._errors.append(LiveError(topic.key, problem))
            del self._topics[topic.key]
            return
        after = -1 if topic.after is None else topic.after
        self._followers[topic.key] = Follower(service, name, after, most=ROWS)
        reading = self._reading(name)
        next(reading)
        self._readings[topic.key] = reading

    def _reading(self, name: str) -> Generator[None]:
        """Count as a reader of a query, and hear of its results, until it is closed."""
        with self._server.service.follows.reading(name), self._live.listening(name) as event:
            task = asyncio.create_task(self._relay(event))
            try:
                yield
            finally:
                task.cancel()

    async def _relay(self, event: asyncio.Event) -> None:
        while True:
            await event.wait()
            event.clear()
            self.news.set()

    def _end(self, key: str) -> None:
        self._followers.pop(key, None)
        reading = self._readings.pop(key, None)
        if reading is not None:
            reading.close()

    def _messages(self) -> list[bytes]:
        """Return what is new for this client; it runs in another thread, since it computes."""
        messages = [msgspec.json.encode(error) for error in self._errors]
        self._errors.clear()
        for key, topic in list(self._topics.items()):
            try:
                messages += self._of(key, topic)
            except Exception as error:
                _LOG.exception("the live feed cannot send %s", key)
                messages.append(msgspec.json.encode(LiveError(key, Fault(500, type(error).__name__).problem)))
                self._topics.pop(key, None)
        return messages

    def _of(self, key: str, topic: Topic) -> list[bytes]:
        beat, service = self._live.beat, self._server.service
        match topic.t:
            case "results":
                return self._results(key)
            case "beat":
                return self._once(key, (beat.batch, beat.at, beat.state, beat.catalog), lambda: BeatMessage(beat))
            case "graph":
                return self._once(key, (beat.batch, beat.at), lambda: self._graph(topic))
            case "catalog":
                return self._once(key, beat.catalog, lambda: CatalogMessage(beat.catalog))
            case "state":
                state, stage = service.status()
                return self._once(
                    key, (state, stage), lambda: StateMessage(state, stage, service.problem), shared=False
                )
            case "decisions":
                last = self._sent.get(key)
                return self._once(key, beat.decisions, lambda: self._decisions(last), shared=False)
            case "rules":
                return self._once(key, tuple(service.statistics.rules.items()), self._rules, shared=False)

    def _once(self, key: str, mark: object, make: Callable[[], LiveMessage], *, shared: bool = True) -> list[bytes]:
        """Return a message unless it has been sent; what is the same for all clients is encoded once."""
        if self._sent.get(key) == mark:
            return []
        self._sent[key] = mark
        if not shared:
            return [msgspec.json.encode(make())]
        encoded = self._live.encoded
        if key not in encoded:
            encoded[key] = msgspec.json.encode(make())
        return [encoded[key]]

    def _graph(self, topic: Topic) -> GraphMessage:
        figures = self._server.service.beats.figures
        if figures is None:
            return GraphMessage(topic.query, -1, (), None)
        batch = figures.moment.statistics.batch
        return GraphMessage(topic.query, batch, figures.vertices(topic.query), figures.bottleneck)

    def _decisions(self, last: object) -> DecisionsMessage:
        numbered = self._server.service.session.deployment.control.decisions.numbered()
        view = read.decisions_view(numbered, last if isinstance(last, int) else 0, None, 500)
        return DecisionsMessage(view.decisions, view.newest)

    def _rules(self) -> RulesMessage:
        service = self._server.service
        running, statistics = service.running, service.statistics
        rules = tuple(read.rule_view(rule, running, statistics) for rule in service.catalog.rules())
        return RulesMessage(rules, outbox_of(service))

    def _results(self, key: str) -> list[bytes]:
        follower = self._followers.get(key)
        if follower is None or self._credit.get(key, 1) <= 0:
            return []
        messages = []
        for entry, frame, skipped in follower.take():
            place = (follower.query, entry.batch, entry.total, frame.height, skipped)
            messages.append(self._live.results.get(place, partial(_results, follower.query, entry, frame, skipped)))
        if key in self._credit:
            self._credit[key] -= len(messages)
        return messages


def _results(query: str, entry: Shelved, frame: pl.DataFrame, skipped: int) -> bytes:
    return msgspec.json.encode(ResultsMessage(query, batch_view(entry, frame, skipped, safe=True)))
