"""Snapshots: what is there now, by SQL."""

from __future__ import annotations

from starlette.responses import Response

from headrace.server.asks import SnapshotAsk
from headrace.server.relations import relations_of
from headrace.server.route import Call
from headrace.server.routes.results import JSON, body_of, form_of
from headrace.server.snapshot import take_snapshot
from headrace.server.values import columns_in, rows_in
from headrace.server.views.results import SnapshotView


def snapshot(call: Call) -> SnapshotView | Response:
    """Run a SELECT over what is on shelves, in stored tables and in headrace.* now."""
    ask: SnapshotAsk = call.body
    form = form_of(call)
    settled = call.server.service.shelves.settled
    batch = settled if settled >= 0 else None
    taken = take_snapshot(ask.text, relations_of(call.server), ask.limit)
    if form != JSON:
        return Response(body_of(taken.frame, form), media_type=form)
    return SnapshotView(columns_in(taken.frame), rows_in(taken.frame, safe=call.safe), batch, taken.is_cut)
