"""The matches of a row pattern, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headrace.model.row_pattern import Fold, Lookup, RowPattern, Variable
from headrace.plan.nodes import MatchRows
from headrace.testing.oracle.expressions import aggregate_of, value_of
from headrace.testing.oracle.rows import Row, ordered
from headrace.testing.oracle.values import sort_key
from headrace.testing.oracle.windows import grouped

#: For each variable, the rows that it has.
Taken = dict[str, list[Row]]


def match_rows(node: MatchRows, rows: Iterable[Row]) -> list[Row]:
    """Return a result for each match."""
    results: list[Row] = []
    in_order = sorted(
        enumerate(ordered(rows)),
        key=lambda at: (at[1].ts, *(sort_key(value_of(column, at[1].scope)) for column in node.order), at[0]),
    )
    for group in grouped([row for _, row in in_order], node.by):
        start = 0
        while start < len(group):
            taken = _match(node.pattern, group, start)
            length = 0 if taken is None else sum(map(len, taken.values()))
            if taken is not None:
                whole = group[start : start + length]
                values = {column.name: value_of(column, group[start].scope) for column in node.by}
                values |= _values(node.lookups, node.folds, taken, whole, group, start + length - 1)
                results.append(Row(whole[-1].ts, values))
            start += 1 if taken is None or node.pattern.overlapping else length
    return results


def _match(pattern: RowPattern, group: Sequence[Row], start: int) -> Taken | None:
    """Return the rows of each variable if a match begins here: of all ways, the first of those that end first."""
    nothing: Taken = {variable.name: [] for variable in pattern.variables}
    ways = _ways(pattern, group, start, 0, nothing)
    return min(ways, key=lambda taken: sum(map(len, taken.values())), default=None)


def _ways(pattern: RowPattern, group: Sequence[Row], start: int, number: int, taken: Taken) -> Iterator[Taken]:
    """Go on with a variable: an optional one with a row and without, another with all rows that it can take."""
    if number == len(pattern.variables):
        yield taken
        return
    variable = pattern.variables[number]
    ways = [taken]
    while (longer := _with_next(pattern, group, start, variable, ways[-1])) is not None:
        ways.append(longer)
        if variable.least == variable.most == len(ways) - 1:
            break
    if variable.is_optional:
        for way in reversed(ways[:2]):
            yield from _ways(pattern, group, start, number + 1, way)
    elif variable.least <= len(ways) - 1 <= (variable.most or len(ways)):
        yield from _ways(pattern, group, start, number + 1, ways[-1])


def _with_next(pattern: RowPattern, group: Sequence[Row], start: int, variable: Variable, taken: Taken) -> Taken | None:
    """Return the rows with one more for a variable, if the next row is in time and satisfies its condition."""
    at = start + sum(map(len, taken.values()))
    if at == len(group) or (pattern.within is not None and group[at].ts - group[start].ts >= pattern.within):
        return None
    longer = {**taken, variable.name: [*taken[variable.name], group[at]]}
    seen = _values(pattern.lookups, pattern.folds, longer, group[start : at + 1], group, at)
    return longer if value_of(variable.condition, {**group[at].scope, **seen}) is True else None


def _values(
    lookups: Sequence[Lookup], folds: Sequence[Fold], taken: Taken, whole: Sequence[Row], group: Sequence[Row], at: int
) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for lookup in lookups:
        if lookup.place == "prev":
            values[lookup.name] = value_of(lookup.of, group[at - lookup.offset].scope)
            continue
        own = whole if lookup.variable is None else taken[lookup.variable]
        place = lookup.offset if lookup.place == "first" else len(own) - 1 - lookup.offset
        values[lookup.name] = value_of(lookup.of, own[place].scope) if 0 <= place < len(own) else None
    for fold in folds:
        own = whole if fold.variable is None else taken[fold.variable]
        scopes = [row.scope for row in own]
        empty = 0 if fold.call.function == "count" else None
        values[fold.call.name] = aggregate_of(fold.call, scopes) if scopes else empty
    return values
