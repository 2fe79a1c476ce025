"""Results of queries: what their shelves hold, and what comes, in the form that the client asks for."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import polars as pl
from starlette.responses import Response, StreamingResponse

from headrace.connectors.formats.json_lines import without_nesting
from headrace.server.arrow_stream import ArrowStream
from headrace.server.follower import CompleteFollower, Follower
from headrace.server.problems import Fault
from headrace.server.route import Call
from headrace.server.routes.definitions import query_name, rule_named
from headrace.server.shelf import Shelved
from headrace.server.values import columns_in, columns_of, rows_in
from headrace.server.views.definitions import ShelfView
from headrace.server.views.results import ResultBatch, ResultsView

JSON, NDJSON, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
_FORMS = (JSON, NDJSON, EVENTS, ARROW, CSV)
#: A stream that is silent for so many seconds says that it is alive.
HEARTBEAT = 15.0
#: At most so many rows in an answer that is not a stream.
MOST_ROWS = 100_000


async def results(call: Call) -> Response | ResultsView:
    """Return the newest results of a query, or follow them."""
    name = query_name(call)
    form = form_of(call)
    if "follow" in call.options or form == EVENTS:
        return await _follow(call, name, form)
    return _newest(call, name, form)


def detections(call: Call) -> Response | ResultsView:
    """Return the newest detections of a rule."""
    return _newest(call, rule_named(call).name, form_of(call))


def _newest(call: Call, name: str, form: str) -> Response | ResultsView:
    after, limit = call.number("after", -1, least=-1), call.number("limit", 1000, least=1, most=MOST_ROWS)
    service = call.server.service
    entries, shelf = service.shelves.read(name, after)
    view = service.shelves.view(name) or ShelfView("", False, 0, 0, None, None, 0, 0)
    if form in (ARROW, CSV, NDJSON):
        frame = pl.concat([entry.frame for entry in entries]).tail(limit) if entries else _empty(call, name)
        return Response(body_of(frame, form), media_type=form)
    chosen: list[ResultBatch] = []
    left = limit
    for entry in reversed(entries):  # the newest that fit
        if left <= 0:
            break
        frame = entry.frame.tail(left)
        left -= frame.height
        chosen.append(batch_view(entry, frame, entry.frame.height - frame.height + entry.hidden, safe=call.safe))
    chosen.reverse()
    newest = entries[-1].batch if entries else after
    columns = columns_of(shelf.schema) if shelf is not None else columns_in(_empty(call, name))
    return ResultsView(name, columns, tuple(chosen), newest, view)


def batch_view(entry: Shelved, frame: pl.DataFrame, skipped: int, *, safe: bool) -> ResultBatch:
    """Return the results of a micro-batch."""
    return ResultBatch(entry.batch, round(entry.at * 1000), columns_in(frame), rows_in(frame, safe=safe), skipped)


def form_of(call: Call) -> str:
    """Return the form in which a client wants rows."""
    accepted = call.request.headers.get("accept", "")
    is_followed = "follow" in call.options
    for form in _FORMS:
        if form in accepted:
            if is_followed and form == CSV:
                raise Fault(406, "results cannot be followed as CSV", hint=f"ask for {NDJSON}, {EVENTS} or {ARROW}")
            return NDJSON if is_followed and form == JSON else form
    if is_followed:
        return NDJSON
    if not accepted or "*/*" in accepted or "application/*" in accepted:
        return JSON
    raise Fault(406, "there is no such form of results", hint=f"ask for one of {', '.join(_FORMS)}")


def _empty(call: Call, name: str) -> pl.DataFrame:
    running = call.server.service.running
    added = next((query for query in running.added if query.query == name), None)
    return pl.DataFrame() if added is None else pl.DataFrame(schema=added.schema.polars())


def body_of(frame: pl.DataFrame, form: str) -> bytes:
    """Return rows in a form that is not JSON."""
    match form:
        case "application/vnd.apache.arrow.stream":
            buffer = io.BytesIO()
            frame.write_ipc_stream(buffer)
            return buffer.getvalue()
        case "text/csv":
            return _csv(frame)
        case _:
            return b"".join(msgspec.json.encode(row) + b"\n" for row in _objects(frame))


def _objects(frame: pl.DataFrame) -> list[dict[str, object]]:
    names = frame.columns
    return [dict(zip(names, row, strict=True)) for row in rows_in(frame)]


def _csv(frame: pl.DataFrame) -> bytes:
    """Return a frame as CSV; a text that a spreadsheet would run as a formula gets an apostrophe before it."""
    frame = without_nesting(frame)
    strings = [name for name, dtype in frame.schema.items() if dtype == pl.String()]
    risky = [pl.when(pl.col(n).str.contains(r"^[=+\-@\t\r]")).then("'" + pl.col(n)).otherwise(pl.col(n)).alias(n)
             for n in strings]  # fmt: skip
    rows = pl.DataFrame(
        {column.name: _values_of(column) for column in frame.with_columns(risky)}, strict=False
    ) if frame.width else frame  # fmt: skip
    return rows.write_csv().encode()


def _values_of(column: pl.Series) -> list[object]:
    return [row[0] for row in rows_in(column.to_frame())]


async def _follow(call: Call, name: str, form: str) -> Response:
    """Send results as they come, until the client goes or the server stops."""
    follower = Follower.of(call, name)
    pieces = _pieces(call, follower, form)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(pieces, media_type=form, headers=headers)


async def _pieces(call: Call, follower: Follower | CompleteFollower, form: str) -> AsyncIterator[bytes]:
    arrow = ArrowStream(_empty(call, follower.query).schema) if form == ARROW else None
    with call.server.service.follows.reading(follower.query), call.server.live.listening(follower.query) as news:
        yield b": follow\n\n" if form == EVENTS else b"" if arrow is None else arrow.begin()
        while not call.server.service.is_stopping:
            try:
                taken = await asyncio.to_thread(follower.take)
            except Fault:
                return  # it has fallen behind; the next request says so
            for entry, frame, skipped in taken:
                if arrow is None:
                    key = (form, follower.query, entry.batch, entry.total, frame.height, skipped)
                    make = partial(_piece, entry, frame, skipped, form)
                    yield await asyncio.to_thread(call.server.live.results.get, key, make)
                elif frame.schema == arrow.schema:
                    yield arrow.add(frame, entry.batch, skipped)
                else:  # the query was replaced; the client asks again
                    yield arrow.end()
                    return
            if taken:
                continue
            if follower.is_over:
                break
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT)
                news.clear()
            except TimeoutError:
                yield b": alive\n\n" if form == EVENTS else b"\n" if form == NDJSON else b""
        if arrow is not None:
            yield arrow.end()
        elif form == EVENTS and not follower.is_over:
            yield b"event: stopping\ndata: {}\n\n"


def _piece(entry: Shelved, frame: pl.DataFrame, skipped: int, form: str) -> bytes:
    if form == EVENTS:
        data = msgspec.json.encode(batch_view(entry, frame, skipped, safe=True))
        return b"id: %d\nevent: results\ndata: %s\n\n" % (entry.batch, data)
    head = msgspec.json.encode({"batch": entry.batch, "rows": frame.height, "skipped": skipped})
    return head + b"\n" + body_of(frame, NDJSON)
