"""What joins need not take in.

 An output row has a left part, a key part (in columns of both sides) and a right part. A side's tuple is not needed if
all rows that it is part of are assumed; and it may only be missing if that leaves no tuple of the other side without a
partner which comes out padded then.
"""

from __future__ import annotations

from headrace.model.expressions.expression import Cast, Column, Expr
from headrace.model.patterns.match import Match
from headrace.model.patterns.pattern import STAMP, Pattern, pattern
from headrace.model.schema import TS
from headrace.model.types import DataType, Type
from headrace.operators.feedback.preimage import preimage
from headrace.operators.feedback.spans import ending_before
from headrace.operators.specs import Join, MultiJoin, OrderedJoin, RowsJoin, SequenceJoin, TableJoin


def join_inputs(spec: Join | OrderedJoin | RowsJoin, assumed: Pattern) -> tuple[Pattern | None, Pattern | None]:
    """Return for each side the tuples that are part of assumed rows only."""
    if isinstance(spec, RowsJoin) and spec.kind != "inner":
        return None, None
    return _side(spec, assumed, 0), _side(spec, assumed, 1)


def sequence_inputs(spec: SequenceJoin, assumed: Pattern) -> tuple[Pattern | None, Pattern | None]:
    """Return for each side the tuples of whole keys that no reader needs.

    Otherwise a right tuple alone, where it uses up no left one; a left one only if all right tuples that may take it
    are not needed, for the next best left tuple would take its place.
    """
    own, keys, stamp = _own(spec), _keys(spec), assumed.get(TS)
    if spec.padded:  # without its left tuple a right one would come out padded
        return None, _of_side(assumed, own, ({}, {}), 1, stamp=stamp)
    by_key = all(
        term.column.name in keys[0] or term.column.name in keys[1] for term in assumed.terms if term.column.name != TS
    )
    if by_key and stamp is None:
        return _of_side(assumed, own, keys, 0), _of_side(assumed, own, keys, 1)
    if spec.mode != "recent":
        return None, None  # what an unneeded tuple has used up must not be there for one that is needed
    soon = ending_before(stamp, spec.span) if by_key and stamp is not None else None
    return None if soon is None else _of_side(assumed, own, keys, 0, stamp=soon), _of_side(
        assumed, own, keys, 1, stamp=stamp
    )


def multi_inputs(spec: MultiJoin, assumed: Pattern) -> tuple[Pattern | None, ...]:
    """Return for each input the tuples that are part of assumed rows only."""
    return tuple(_of_port(spec, assumed, port) for port in range(len(spec.inputs)))


def _of_port(spec: MultiJoin, assumed: Pattern, port: int) -> Pattern | None:
    own = {name: Column(f.name, f.type) for name, f in zip(spec.names[port], spec.inputs[port], strict=True)}
    for members in spec.classes:
        mine = None if (expr := members[port]) is None else _column(expr)
        for other, expr in enumerate(members):
            theirs = None if expr is None else _column(expr)
            if mine is not None and theirs is not None and _comparable(mine.type, theirs.type):
                own.setdefault(spec.columns(other)[theirs.name].name, mine)
    terms: list[tuple[Column, Match]] = []
    for term in assumed.terms:
        if term.column.name == TS:
            extent = spec.extents[port]
            stamp = ending_before(term.match, None if extent is None else extent.span)
            if stamp is None:
                return None
            terms.append((STAMP, stamp))
        elif term.column.name in own:
            terms.append((own[term.column.name], term.match))
        else:
            return None
    return pattern(*terms)


def table_input(spec: TableJoin, assumed: Pattern) -> Pattern | None:
    """Return the tuples of which all rows are assumed, by own columns or by a key that all their table rows share."""
    shared: dict[str, Expr] = {}
    if spec.kind == "inner":
        names = dict(zip(spec.schema.names, spec.table_names, strict=True))
        types = {field.name: field.type for field in spec.schema}
        shared = {names[name]: expr for expr, name in spec.keys if _comparable(expr.type, types[name])}
    terms: list[tuple[Column, Match]] = []
    for term in assumed.terms:
        own_terms: tuple[tuple[Column, Match], ...] | None = ((term.column, term.match),)
        if term.column.name in spec.table_names:
            own_terms = preimage(shared[term.column.name], term.match) if term.column.name in shared else None
        if own_terms is None:
            return None
        terms += own_terms
    return pattern(*terms)


def _side(spec: Join | OrderedJoin | RowsJoin, assumed: Pattern, port: int) -> Pattern | None:
    own, keys = _own(spec), _keys(spec)
    if spec.preserves(1 - port) and not all(term.column.name in keys[1 - port] for term in assumed.terms):
        return None  # its partners must be unneeded as well, or they would come out padded
    if spec.preserves(port):
        keys = ({}, {})  # padded, it has NULL and not its own key in the other side's columns
    extent, stamp = spec.extent(port), assumed.get(TS)
    if stamp is not None:
        stamp = ending_before(stamp, None if extent is None or extent.rows is not None else extent.span)
        if stamp is None:
            return None
    input_pattern = _of_side(assumed, own, keys, port, stamp=stamp)
    if extent is not None and extent.rows is not None and input_pattern is not None:
        # others of its group would stay in the window instead, so only whole groups will do
        groups = {expr.name for expr in extent.by if isinstance(expr, Column)}
        return input_pattern if input_pattern.names <= groups and stamp is None else None
    return input_pattern


def _of_side(
    assumed: Pattern,
    own: tuple[dict[str, Column], dict[str, Column]],
    keys: tuple[dict[str, Column], dict[str, Column]],
    port: int,
    *,
    stamp: Match | None = None,
) -> Pattern | None:
    """Return the pattern in terms of one side, with `stamp` for its timestamp; None if it is about the other side."""
    terms: list[tuple[Column, Match]] = [] if stamp is None else [(STAMP, stamp)]
    for term in assumed.terms:
        name = term.column.name
        if name == TS and stamp is not None:
            continue
        column = own[port].get(name) or keys[1 - port].get(name)
        if column is None:
            return None
        terms.append((column, term.match))
    return pattern(*terms)


def _own(spec: Join | OrderedJoin | RowsJoin | SequenceJoin) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the columns of each side by their names in the output."""
    left = {field.name: Column(field.name, field.type) for field in spec.left}
    return left, {
        name: Column(field.name, field.type) for name, field in zip(spec.right_names, spec.right, strict=True)
    }


def _keys(spec: Join | OrderedJoin | RowsJoin | SequenceJoin) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return for each side, by output name, the key columns that the other side has too, as they are called there."""
    renamed = dict(zip(spec.right.names, spec.right_names, strict=True))
    shared: tuple[dict[str, Column], dict[str, Column]] = ({}, {})
    for left, right in spec.keys:
        left_column, right_column = _column(left), _column(right)
        if (
            left_column is None
            or right_column is None
            or TS in (left_column.name, right_column.name)
            or not _comparable(left_column.type, right_column.type)
        ):
            continue
        shared[0][left_column.name] = right_column
        shared[1][renamed[right_column.name]] = left_column
    return shared


def _column(expr: Expr) -> Column | None:
    if (
        isinstance(expr, Cast)
        and expr.type is Type.BIGINT
        and isinstance(expr.arg, Column)
        and expr.arg.type is Type.INT
    ):
        return expr.arg
    return expr if isinstance(expr, Column) else None


def _comparable(left: DataType, right: DataType) -> bool:
    """Return whether equal values are the same value; a DOUBLE may equal several BIGINTs."""
    return left == right or (left.is_integer and right.is_integer)
