"""What a plan means, computed the slow and obvious way over whole histories, one tuple at a time.

Shares no code with the operators. Every host, page size and plan must agree with `answer` as a multiset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import OperatorFault
from headrace.model.changelog import DELETE, INSERT
from headrace.model.expressions.expression import Expr
from headrace.model.python_target import PythonTarget
from headrace.model.schema import TS, Schema
from headrace.model.time import BEGIN, END
from headrace.model.window import Extent
from headrace.plan import nodes
from headrace.plan.nodes import Node
from headrace.testing.oracle.changes import changes
from headrace.testing.oracle.events import detect
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.matches import match_rows
from headrace.testing.oracle.partitions import deduplicate, over
from headrace.testing.oracle.rank import rank, window_over
from headrace.testing.oracle.rows import Row, as_multiset, ordered, rows_of, split_late
from headrace.testing.oracle.suppress import suppress
from headrace.testing.oracle.values import compare, identity, lift, plain
from headrace.testing.oracle.windows import aggregate

__all__ = ["Row", "Tables", "answer", "as_multiset", "ordered", "plain", "rows_of", "split_late"]

Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def answer(plan: Node, streams: Mapping[str, Sequence[Row]], tables: Tables | None = None) -> list[Row]:
    """Return all results of a plan, in order, for streams that have ended.

    `streams` holds tuples in arrival order, none of them late.
    """
    return ordered(_rows(plan, streams, tables or {}))


def _rows(node: Node, streams: Mapping[str, Sequence[Row]], tables: Tables) -> list[Row]:
    match node:
        case nodes.Scan(name=name, schema=schema):
            return _scan(streams[name], schema)
        case nodes.Filter(input=source, predicate=predicate):
            return [row for row in _rows(source, streams, tables) if value_of(predicate, row.scope) is True]
        case nodes.Project(input=source, columns=columns):
            return [_project(row, columns) for row in _rows(source, streams, tables)]
        case nodes.Condense():
            raise NotImplementedError("a plan that runs: ask for the plan as it was bound")
        case nodes.Unnest(input=source):
            return [made for row in _rows(source, streams, tables) for made in _unnest(node, row)]
        case nodes.Union(inputs=sources):
            return [_derived(row) for source in sources for row in _rows(source, streams, tables)]
        case nodes.Punctuate(input=source):
            return _punctuated(node, _rows(source, streams, tables))
        case nodes.Pace(inputs=sources):
            return _paced(node, [_rows(source, streams, tables) for source in sources])
        case nodes.Join(left=left, right=right):
            return _join(node, _rows(left, streams, tables), _rows(right, streams, tables))
        case nodes.MultiJoin(inputs=sources):
            return _combine(node, [_rows(source, streams, tables) for source in sources])
        case nodes.SequenceJoin(left=left, right=right):
            return _follow(node, _rows(left, streams, tables), _rows(right, streams, tables))
        case nodes.TableJoin(input=source, table=table):
            return [joined for row in _rows(source, streams, tables) for joined in _look_up(node, row, tables[table])]
        case nodes.Membership(input=source, table=table, value=value) if value is not None:
            return [_valued(node, value, row, tables[table]) for row in _rows(source, streams, tables)]
        case nodes.Membership(input=source, table=table):
            return [_marked(node, row, tables[table]) for row in _rows(source, streams, tables)]
        case nodes.Impute(input=source):
            return [_imputed(node, row, tables) for row in _rows(source, streams, tables)]
        case nodes.Aggregate(input=source):
            return aggregate(node, _rows(source, streams, tables))
        case nodes.Changes(input=source):
            return changes(node, _rows(source, streams, tables))
        case nodes.Distinct(input=source, span=span):
            return _distinct(_rows(source, streams, tables), span)
        case nodes.Deduplicate(input=source):
            return deduplicate(node, _rows(source, streams, tables))
        case nodes.Over(input=source):
            return over(node, _rows(source, streams, tables))
        case nodes.MatchRows(input=source):
            return match_rows(node, _rows(source, streams, tables))
        case nodes.Rank(input=source):
            return rank(node, _rows(source, streams, tables))
        case nodes.WindowOver(input=source):
            return window_over(node, _rows(source, streams, tables))
        case nodes.Suppress(input=source):
            return suppress(node, _rows(source, streams, tables))
        case nodes.Detect(parts=sources):
            return detect(node, [ordered(_rows(source, streams, tables)) for source in sources])
        case nodes.Order(input=source):
            return ordered(_rows(source, streams, tables))
        case nodes.Limit(input=source, count=count):
            return [_derived(row) for row in ordered(_rows(source, streams, tables))[:count]]


def _scan(rows: Sequence[Row], schema: Schema) -> list[Row]:
    scanned: list[Row] = []
    for position, row in enumerate(rows):
        values = {name: row.values[name] for name in schema.names}
        scanned.append(Row(row.ts, values, position if row.seq is None else row.seq))
    return scanned


def _project(row: Row, columns: tuple[tuple[str, Expr], ...]) -> Row:
    return Row(row.ts, {name: value_of(expr, row.scope) for name, expr in columns}, row.seq, row.expiry)


def _unnest(node: nodes.Unnest, row: Row) -> list[Row]:
    held = value_of(node.of, row.scope)
    parts = [] if held is None else list(held.items()) if isinstance(held, dict) else [(value,) for value in held]
    numbered: list[tuple[tuple[Any, ...], int | None]] = [(part, node.first + at) for at, part in enumerate(parts)]
    if not parts and node.outer:
        numbered = [((None,) * len(node.names), None)]
    kept = {name: value for name, value in row.values.items() if node.kept is None or name in node.kept}
    return [
        Row(
            row.ts,
            {**kept, **dict(zip(node.names, part, strict=True)), **({node.place: at} if node.place else {})},
            None,
            row.expiry,
        )
        for part, at in numbered
    ]


def _derived(row: Row) -> Row:
    return Row(row.ts, row.values, None, row.expiry)


def _punctuated(node: nodes.Punctuate, rows: list[Row]) -> list[Row]:
    """Follow the marks in the order of arrival."""
    ends: dict[Any, int] = {}
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: row.seq or 0):
        key, mark = identity([row.values[name] for name in node.keys]), row.values[node.mark]
        if mark is not None and mark is not False:
            ends[key] = max(ends.get(key, BEGIN), row.ts if mark is True else mark)
        elif (row.ts < ends.get(key, BEGIN)) is node.late:
            kept.append(row)
    return kept


def _paced(node: nodes.Pace, inputs: list[list[Row]]) -> list[Row]:
    """Merge inputs in the order of arrival: by arrival number where all tuples have one, else input by input."""
    arrived = [(END if row.seq is None else row.seq, port, row) for port, rows in enumerate(inputs) for row in rows]
    paced: list[Row] = []
    newest: int | None = None
    for _, _, row in sorted(arrived, key=lambda entry: entry[:2]):
        newest = row.ts if newest is None else max(newest, row.ts)
        if node.late and row.ts < newest - node.tolerance:
            paced.append(Row(newest, row.values, None, row.expiry))
        elif not node.late and row.ts >= newest - node.tolerance:
            paced.append(_derived(row))
    return paced


def _distinct(rows: list[Row], span: int) -> list[Row]:
    distinct: list[Row] = []
    newest: dict[tuple[Any, ...], int] = {}
    for row in ordered(rows):
        key = tuple(identity(value) for value in row.values.values())
        if key not in newest or row.ts - newest[key] > span:
            distinct.append(_derived(row))
        newest[key] = row.ts
    return distinct


def _look_up(node: nodes.TableJoin, row: Row, table: Sequence[Mapping[str, Any]]) -> list[Row]:
    matches: list[Row] = []
    for entry in table:
        agree = all(
            _equal(
                value_of(expr, row.scope),
                expr,
                entry[name],
                next(field.type for field in node.table_schema if field.name == name),
            )
            for expr, name in node.keys
        )
        values = {
            **row.values,
            **{new: entry[old] for new, old in zip(node.table_names, node.table_schema.names, strict=True)},
        }
        if agree and (node.residual is None or value_of(node.residual, {**values, TS: row.ts}) is True):
            matches.append(Row(row.ts, values, None, row.expiry))
    if not matches and node.kind == "left":
        matches.append(Row(row.ts, {**row.values, **dict.fromkeys(node.table_names)}, None, row.expiry))
    return matches


def _marked(node: nodes.Membership, row: Row, table: Sequence[Mapping[str, Any]]) -> Row:
    """Ask each row of the table: TRUE if one agrees, else NULL if one might, else FALSE."""
    mark: bool | None = False
    for entry in table:
        renamed = {new: entry[old] for new, old in zip(node.table_names, node.table_schema.names, strict=True)}
        pairs = [_equality(pair, row, entry) for pair in node.keys]
        residual = node.residual is None or value_of(node.residual, {**row.scope, **renamed}) is True
        if residual and all(pair is True for pair in pairs):
            agrees = [_equality(pair, row, entry) for pair in node.compared]
            if all(agrees):
                mark = True
            elif False not in agrees and mark is False:
                mark = None
    return Row(row.ts, {**row.values, node.name: mark}, row.seq, row.expiry)


def _valued(node: nodes.Membership, value: Expr, row: Row, table: Sequence[Mapping[str, Any]]) -> Row:
    """Return a row with the value of a sub-query, over all rows of the table that belong to it."""
    own = [
        entry
        for entry in table
        if all(_equality(pair, row, entry) is True for pair in node.keys)
        and (
            node.residual is None
            or value_of(node.residual, dict(zip(node.table_names, entry.values(), strict=True))) is True
        )
    ]
    calls = {call.name: aggregate_of(call, own) for call in node.calls}
    return Row(row.ts, {**row.values, node.name: value_of(value, calls)}, row.seq, row.expiry)


def _equality(pair: tuple[Expr, Expr], row: Row, entry: Mapping[str, Any]) -> bool | None:
    mine, theirs = pair
    first, second = value_of(mine, row.scope), value_of(theirs, entry)
    return None if first is None or second is None else _equal(first, mine, second, theirs.type)


def _imputed(node: nodes.Impute, row: Row, tables: Tables) -> Row:
    value = value_of(node.value, row.scope)
    keys = [value_of(key, row.scope) for key in node.keys]
    if value is None and None not in keys:
        value = _archived(node, keys, tables)
    return Row(row.ts, {**row.values, node.name: value}, row.seq, row.expiry)


def _archived(node: nodes.Impute, keys: list[Any], tables: Tables) -> Any:
    if isinstance(node.archive, nodes.FunctionArchive):
        return PythonTarget.parse(node.archive.target).load("the archive", error=OperatorFault)(*keys)
    types = {field.name: field.type for field in node.archive.schema}
    for entry in tables[node.archive.table]:
        pairs = zip(keys, node.keys, node.archive.keys, strict=True)
        if (
            all(_equal(key, expr, entry[name], types[name]) for key, expr, name in pairs)
            and entry[node.archive.column] is not None
        ):
            return lift(entry[node.archive.column], types[node.archive.column], node.value.type)
    return None


def _equal(left: Any, expr: Expr, right: Any, right_type: Any) -> bool:
    return left is not None and right is not None and compare(left, expr.type, right, right_type) == 0


def _join(node: nodes.Join, left: list[Row], right: list[Row]) -> list[Row]:
    left, right = ordered(left), ordered(right)
    first_left: dict[int, int] = {}  # the instant of the first pair of a row
    first_right: dict[int, int] = {}
    joined: list[Row] = []
    for i, left_row in enumerate(left):
        for j, right_row in enumerate(right):
            if not _meet(node, left, i, right, j):
                continue
            pair = _pair(node, left_row, right_row)
            keys_agree = all(
                _equal(value_of(a, left_row.scope), a, value_of(b, right_row.scope), b.type) for a, b in node.keys
            )
            if keys_agree and (node.residual is None or value_of(node.residual, pair.scope) is True):
                joined.append(_changed(node, pair, INSERT))
                first_left[i] = min(pair.ts, first_left.get(i, END))
                first_right[j] = min(pair.ts, first_right.get(j, END))
    if node.kind in ("left", "full"):
        nothing = dict.fromkeys(node.right_names)
        for i, row in enumerate(left):
            padded = Row(row.ts, {**row.values, **nothing}, None, _expiry(row, node.left_extent))
            joined += _padded(node, padded, first_left.get(i))
    if node.kind in ("right", "full"):
        nothing = dict.fromkeys(node.left.schema.names)
        for j, row in enumerate(right):
            padded = Row(row.ts, {**nothing, **_renamed(node, row)}, None, _expiry(row, node.right_extent))
            joined += _padded(node, padded, first_right.get(j))
    return joined


def _padded(node: nodes.Join, row: Row, first: int | None) -> list[Row]:
    """Return a padded row if it has no pair; in a changelog also if the first one comes later, which deletes it."""
    if not node.change:
        return [row] if first is None else []
    if first == row.ts:
        return []
    gone = [] if first is None else [Row(first, {**row.values, node.change: DELETE}, None, row.expiry)]
    return [_changed(node, row, INSERT), *gone]


def _changed(node: nodes.Join, row: Row, kind: str) -> Row:
    return Row(row.ts, {**row.values, node.change: kind}, row.seq, row.expiry) if node.change else row


def _combine(node: nodes.MultiJoin, inputs: list[list[Row]]) -> list[Row]:
    """Return all combinations of one row of each input, one input after the other."""
    found: list[tuple[tuple[Row, ...], int]] = [((), END)]
    for rows, extent in zip(inputs, node.extents, strict=True):
        found = [
            ((*parts, row), min(end, _expiry(row, extent)))
            for parts, end in found
            for row in rows
            if max(part.ts for part in (*parts, row)) <= min(end, _expiry(row, extent))
            and all(_agree(members, (*parts, row)) for members in node.classes)
        ]
    joined = []
    for parts, end in found:
        own = zip(node.names, parts, strict=True)
        values = {n: v for names, part in own for n, v in zip(names, part.values.values(), strict=True)}
        row = Row(max(part.ts for part in parts), values, None, end)
        if all(value_of(term, row.scope) is True for term in node.terms):
            joined.append(row)
    return joined


def _agree(members: tuple[Expr | None, ...], parts: tuple[Row, ...]) -> bool:
    """Say whether the rows so far agree in a class."""
    known = [(value_of(expr, part.scope), expr) for expr, part in zip(members, parts, strict=False) if expr is not None]
    return all(_equal(known[0][0], known[0][1], value, expr.type) for value, expr in known)


def _consume(node: nodes.SequenceJoin, left: list[Row], right: list[Row]) -> list[Row]:
    """Return pairs of a join in which a tuple leaves its window with its first partner."""
    open_left: list[Row] = []
    open_right: list[Row] = []
    pairs: list[Row] = []
    arriving = [(row.ts, 0, row) for row in ordered(left)] + [(row.ts, 1, row) for row in ordered(right)]
    for ts, port, row in sorted(arriving, key=lambda arrival: arrival[:2]):
        others, span = ((open_right, node.right_span), (open_left, node.span))[port]
        in_window = (other for other in others if span is None or ts <= other.ts + span)
        taken = next((other for other in in_window if _match(node, *((row, other), (other, row))[port], ts)), None)
        if taken is None:
            (open_left, open_right)[port].append(row)
            continue
        others[:] = [other for other in others if other is not taken]
        left_row, right_row = ((row, taken), (taken, row))[port]
        pairs.append(Row(ts, {**left_row.values, **_renamed(node, right_row)}))
    return pairs


def _follow(node: nodes.SequenceJoin, left: list[Row], right: list[Row]) -> list[Row]:
    if node.mode == "consuming":
        return _consume(node, left, right)
    left = ordered(left)
    used: set[int] = set()
    followed: list[Row] = []
    for right_row in ordered(right):
        matching = [i for i, candidate in enumerate(left) if i not in used and _is_followed(node, candidate, right_row)]
        if not matching:
            if node.padded:
                nothing = dict.fromkeys(node.left.schema.names)
                followed.append(Row(right_row.ts, {**nothing, **_renamed(node, right_row)}))
            continue
        if node.mode == "chronicle":
            used.add(matching[0])
        left_row = left[matching[0] if node.mode == "chronicle" else matching[-1]]
        followed.append(Row(right_row.ts, {**left_row.values, **_renamed(node, right_row)}))
    return followed


def _is_followed(node: nodes.SequenceJoin, left_row: Row, right_row: Row) -> bool:
    if left_row.ts > right_row.ts or (left_row.ts == right_row.ts and not node.inclusive):
        return False
    if node.span is not None and right_row.ts > left_row.ts + node.span:
        return False
    return _match(node, left_row, right_row, right_row.ts)


def _match(node: nodes.SequenceJoin, left_row: Row, right_row: Row, ts: int) -> bool:
    if not all(_equal(value_of(a, left_row.scope), a, value_of(b, right_row.scope), b.type) for a, b in node.keys):
        return False
    return (
        node.residual is None
        or value_of(node.residual, {**left_row.values, **_renamed(node, right_row), TS: ts}) is True
    )


def _pair(node: nodes.Join, left_row: Row, right_row: Row) -> Row:
    expiry = min(_expiry(left_row, node.left_extent), _expiry(right_row, node.right_extent))
    return Row(max(left_row.ts, right_row.ts), {**left_row.values, **_renamed(node, right_row)}, None, expiry)


def _renamed(node: nodes.Join | nodes.SequenceJoin, row: Row) -> dict[str, Any]:
    return dict(zip(node.right_names, row.values.values(), strict=True))


def _expiry(row: Row, extent: Extent | None) -> int:
    """Return the last instant at which the row can still meet others."""
    if extent is None:
        assert row.expiry is not None, "an input without an extent must be a join"
        return row.expiry
    return END if extent.span is None else min(row.ts + extent.span, END)


def _meet(node: nodes.Join, left: list[Row], i: int, right: list[Row], j: int) -> bool:
    """Say whether two tuples are in each other's window, the total order being (ts, port, order within the port)."""
    left_row, right_row = left[i], right[j]
    if max(left_row.ts, right_row.ts) > min(_expiry(left_row, node.left_extent), _expiry(right_row, node.right_extent)):
        return False
    if left_row.ts <= right_row.ts:  # the left one comes first: is it still among the newest when the right one comes?
        return _among_newest(left, i, node.left_extent, sum(1 for row in left if row.ts <= right_row.ts))
    return _among_newest(right, j, node.right_extent, sum(1 for row in right if row.ts < left_row.ts))


def _among_newest(rows: list[Row], position: int, extent: Extent | None, arrived: int) -> bool:
    """Say whether the row is one of the newest `extent.rows` of its group once the first `arrived` rows have come."""
    if extent is None or extent.rows is None:
        return True
    group = _group(rows[position], extent)
    later = sum(1 for row in rows[position + 1 : arrived] if _group(row, extent) == group)
    return later < extent.rows


def _group(row: Row, extent: Extent) -> tuple[Any, ...]:
    return tuple(identity(value_of(expr, row.scope)) for expr in extent.by)
