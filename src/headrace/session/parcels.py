"""MOVE PARCELS and SHOW PARCELS: which bucket has which parcel of the keys of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from headrace.commands.command import AddQuery, Allot
from headrace.commands.key_splits import dealing
from headrace.commands.parcel_groups import ParcelGroup, parcel_groups
from headrace.commands.rebucketing import held_back
from headrace.commands.running import Running
from headrace.commands.running_graph import names_in, placement_of
from headrace.control.parcel_loads import ParcelLoads
from headrace.errors import NotSupported, QueryError
from headrace.graph.place import is_dealt, undealt
from headrace.language.syntax.parcels import MoveParcels
from headrace.language.syntax.statements import Alter
from headrace.operators.specs import Receive
from headrace.session.outcome import Listing

_NAMES = ("query", "parcel", "of", "bucket", "tuples/s", "share", "moves", "split over")
#: Of each query so many parcels are listed: those with most tuples, and those that were moved.
MOST_LISTED = 16
#: So many buckets there may be; each costs time in every micro-batch.
MOST_BUCKETS = 2520


def move(
    statement: MoveParcels, query: AddQuery, running: Running, buckets: Sequence[int], loads: ParcelLoads
) -> list[Allot]:
    """Return the commands of MOVE PARCELS; none if all are there already."""
    if not buckets:
        raise QueryError("no query runs yet, so there are no buckets", span=statement.bucket_span)
    if statement.bucket is not None and statement.bucket not in running.in_use(buckets):
        raise QueryError(
            f"there is no bucket {statement.bucket}",
            span=statement.bucket_span,
            hint=f"choose one of {_listed(running.in_use(buckets))}",
        )
    groups = [group for group in parcel_groups(running, buckets) if query.query in group.queries]
    keyed = [group for group in groups if group.is_keyed] or groups
    if not keyed:
        reason = "it is off" if query.query not in {on.query for on in running.queries} else "it keeps no state"
        raise NotSupported(f"{query.query} has no parcels: {reason}", span=statement.query.span)
    if statement.bucket is None:
        return _split(statement, query, keyed, running.in_use(buckets), loads)
    chosen = {parcel for parcel, _ in statement.parcels}
    if any(chosen & group.allotment.splits.keys() for group in keyed):  # what was split can be gathered in any case
        keyed = [group for group in keyed if group.hindrance is None]
    for group in keyed:
        if group.hindrance is not None:
            raise NotSupported(
                f"parcels of {query.query} cannot move: {group.hindrance}",
                span=statement.query.span,
                hint="SHOW PARCELS shows which queries can move; see docs/parcels.md",
            )
        _check_numbers(statement, query, group)
    commands = []
    for group in keyed:
        moves = {
            parcel: statement.bucket
            for parcel in sorted(chosen)
            if group.allotment.bucket(parcel) != statement.bucket or parcel in group.allotment.splits
        }
        if moves:
            commands.append(group.moving(moves))
    return commands


def _split(
    statement: MoveParcels,
    query: AddQuery,
    groups: Sequence[ParcelGroup],
    buckets: Sequence[int],
    loads: ParcelLoads,
) -> list[Allot]:
    """Return the commands by which the joins of a query have parcels in all buckets."""
    joining = [group for group in groups if group.joins]
    if not joining:
        raise NotSupported(
            f"parcels of {query.query} cannot be in several buckets: it has no inner join by key",
            span=statement.query.span,
            hint="tuples of aggregates over RANGE are added up before they go to buckets; see docs/parcels.md",
        )
    commands: list[Allot] = []
    for group in joining:
        _check_numbers(statement, query, group)
        ports = {
            parcel: {vertex: loads.heaviest_port(routes, parcel) for vertex, routes in group.joins.items()}
            for parcel in sorted({parcel for parcel, _ in statement.parcels})
            if group.allotment.holders(parcel) != {*buckets}
        }
        commands += dealing(group, ports, buckets) if ports else []
    return commands


def _check_numbers(statement: MoveParcels, query: AddQuery, group: ParcelGroup) -> None:
    for parcel, span in statement.parcels:
        if parcel >= group.allotment.parcels:
            raise QueryError(
                f"{query.query} has no parcel {parcel}",
                span=span,
                hint=f"its parcels have the numbers 0 to {group.allotment.parcels - 1}",
            )


def said(statement: MoveParcels, commands: Sequence[Allot], running: Running, buckets: Sequence[int]) -> str:
    """Say what the commands do, and to whom else."""
    where = "all buckets" if statement.bucket is None else f"bucket {statement.bucket}"
    if not commands:
        return f"{statement.query.text}: these parcels are in {where} already"
    names = {undealt(command.name) for command in commands}
    groups = [group for group in parcel_groups(running, buckets) if undealt(group.allotment.name) in names]
    others = sorted({query for group in groups for query in group.queries} - {statement.query.text})
    also = f"; so do those of {', '.join(others)}, which must be in the same buckets" if others else ""
    if statement.bucket is None:
        rest = any(not is_dealt(command.name) for command in commands)
        also = "; what reads the results of the join by key gets them a micro-batch later" if rest else ""
    parcels = sorted({parcel for parcel, _ in statement.parcels})
    word = "parcel" if len(parcels) == 1 else "parcels"
    verb = "goes" if len(parcels) == 1 else "go"
    return f"{statement.query.text}: {word} {_listed(parcels)} {verb} to {where}{also}"


def read_count(statement: Alter) -> int:
    """Return the number of buckets that an ALTER SYSTEM SET buckets asks for."""
    text = statement.value.text
    if not text.isdecimal() or not 1 <= int(text) <= MOST_BUCKETS:
        hint = f"write a number from 1 to {MOST_BUCKETS}, such as ALTER SYSTEM SET buckets = 8"
        raise QueryError(f"buckets cannot be {text!r}", span=statement.value.span, hint=hint)
    return int(text)


def buckets_said(count: int, running: Running, first: Sequence[int], buckets: Sequence[int]) -> str:
    """Say what a change of the number of buckets does, and what stays where it is."""
    word = "1 bucket" if count == 1 else f"{count} buckets"
    if not buckets:
        return f"all queries: their keys are divided among {word} when the first of them starts"
    if running.in_use(first) == tuple(buckets):
        return f"all queries: their keys are divided among {word} already"
    kept = held_back(running, first, buckets)
    stays = "; ".join(f"{query} stays where it is, since it cannot move ({why})" for query, why in kept.items())
    return f"all queries: their keys are divided among {word} ({_listed(buckets)})" + (f"; {stays}" if stays else "")


def explain_splits(query: str, running: Running, buckets: Sequence[int]) -> str:
    """Say which parcels the joins of a running query have in several buckets, and which input is dealt to them."""
    if not any(allotment.splits for allotment in running.allotments.values()):
        return ""
    keyed, names, lines = placement_of(running).keyed.by_id(), names_in(running), ["", "", "heavy keys"]
    for group in parcel_groups(running, buckets):
        for parcel, split in group.allotment.splits.items() if query in group.queries else ():
            vertex = group.vertices[0]
            source = keyed[keyed[vertex].inputs[split.port]].spec
            streams = "+".join(source.streams) if isinstance(source, Receive) else ""
            lines.append(
                f"  {names[vertex]}: parcel {parcel} is in buckets {_listed(split.buckets)}; "
                f"tuples of {streams} are dealt to them, all others go to each"
            )
    return "\n".join(lines) if len(lines) > 3 else ""


def show_parcels(running: Running, buckets: Sequence[int], loads: ParcelLoads) -> Listing:
    """List parcels with their buckets and tuples, and which queries cannot move."""
    rows: list[tuple[object, ...]] = []
    if not buckets:
        return Listing(_NAMES, ())
    for group in parcel_groups(running, buckets):
        counts, total = loads.of(group)
        heaviest = sorted(counts, key=lambda parcel: (-counts[parcel], parcel))[:MOST_LISTED]
        listed = dict.fromkeys((*heaviest, *_first(group.allotment.splits), *_first(group.allotment.places)))
        shown: list[int | None] = [*listed] or [None]
        rows += [_row(group, parcel, counts.get(-1 if parcel is None else parcel, 0.0), total) for parcel in shown]
    return Listing(_NAMES, tuple(rows))


def _row(group: ParcelGroup, parcel: int | None, rate: float, total: float) -> tuple[object, ...]:
    split = None if parcel is None else group.allotment.splits.get(parcel)
    return (
        ", ".join(group.queries),
        "" if parcel is None else parcel,
        group.allotment.parcels,
        "" if parcel is None else group.allotment.bucket(parcel),
        round(rate, 1),
        f"{rate / total:.1%}" if total else "",
        "yes" if group.hindrance is None else f"no: {group.hindrance}",
        "" if split is None else _listed(split.buckets),
    )


def _first(parcels: Iterable[int]) -> Iterable[int]:
    return islice(parcels, MOST_LISTED)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
