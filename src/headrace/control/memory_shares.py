"""What queries shed of their input so that the memory that they MUST keep to suffices."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headrace.commands.command import ShedAt
from headrace.commands.running import Running
from headrace.commands.running_graph import whole_of
from headrace.commands.shedders_in_force import parts_of, share_of_each, shedders_for
from headrace.control.situation import Situation, must
from headrace.model.time import SECOND
from headrace.operators.specs import Output

#: A share changes at most so often (microseconds): what is held follows only as windows and queues let go of tuples.
SETTLE = 10 * SECOND
#: The part of the promise to aim at, and the part below which less is shed.
AIM, LOW = 0.9, 0.65
#: Smaller changes of a share are not worth a command.
STEP = 0.02


class MemoryShare(Struct, frozen=True):
    """The share of the input of a query that is shed, and since when."""

    share: float
    since: int


def memory_shares(before: Mapping[str, MemoryShare], situation: Situation) -> dict[str, MemoryShare]:
    """Return the shares from now on; memory is assumed to be in proportion to what is kept."""
    now, by_hand = situation.observation.time, situation.running.shed_shares
    after: dict[str, MemoryShare] = {}
    for query in situation.running.queries:
        check = must(situation, query.query, "memory")
        if check is None or not query.qos.error or query.query in by_hand:
            continue
        known = before.get(query.query, MemoryShare(0.0, now - SETTLE))
        if now - known.since >= SETTLE and (not check.is_kept or check.observed < LOW * check.expected):
            most = share_of_each(query.qos.error, parts_of(query.graph, query.output))
            wanted = 1.0 - (1.0 - known.share) * AIM * check.expected / max(check.observed, 1.0)
            share = min(most, max(0.0, wanted))
            if abs(share - known.share) >= STEP or (not share and known.share):
                known = MemoryShare(share, now)
        if known.share:
            after[query.query] = known
    return after


def memory_shedders(
    running: Running, shares: Mapping[str, MemoryShare], others: tuple[ShedAt, ...]
) -> tuple[ShedAt, ...]:
    """Return the shedders for these shares, besides those that are needed for other promises.

    Both together take no more from a query than it may lose. Nothing is dropped at an output, which holds no tuples.
    """
    allowed = {}
    for query in running.queries:
        if query.query in shares:
            own = {vertex.id for vertex in query.graph}
            lost = min(1.0, sum(shedder.share for shedder in others if shedder.reader in own))
            most = share_of_each(query.qos.error or 0.0, parts_of(query.graph, query.output))
            rest = 1.0 - (1.0 - most) / (1.0 - lost) if lost < most else 0.0
            allowed[query.query] = min(shares[query.query].share, rest)
    whole = whole_of(running)
    vertices, taken = whole.by_id(), {shedder.arc for shedder in others}
    return tuple(
        shedder
        for shedder in shedders_for(running, whole, allowed)
        if shedder.arc not in taken and not isinstance(vertices[shedder.reader].spec, Output)
    )
