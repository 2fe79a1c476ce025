"""The closed set of relational nodes: what a query means, as a tree of frozen values.

Every node has `schema`, its visible columns; names are unique. Timestamps travel as the hidden column `__ts`, which
expressions may name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from headrace.errors import InternalError
from headrace.model.events.event import Context, Event
from headrace.model.events.output import Output, output_schema
from headrace.model.expressions.expression import Column, Expr
from headrace.model.frame import Frame, PlaceFrame
from headrace.model.rank import Ranking, RankOrder
from headrace.model.row_pattern import Fold, Lookup, RowPattern
from headrace.model.schema import Field, Schema
from headrace.model.suppression import Suppression
from headrace.model.types import ArrayType, DataType, MapType, Type
from headrace.model.window import AggregateCall, Extent, Window

JoinKind: TypeAlias = Literal["inner", "left", "right", "full"]
SequenceMode: TypeAlias = Literal["recent", "chronicle", "consuming"]
Manner: TypeAlias = Literal["plain", "thrifty", "impatient", "demanding"]


class Scan(Struct, frozen=True, tag="scan"):
    """All tuples of a registered stream; `name` may be a side stream such as 'bids.late'."""

    name: str
    schema: Schema


class Filter(Struct, frozen=True, tag="filter"):
    """The tuples for which the predicate is true (not NULL)."""

    input: Node
    predicate: Expr

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Project(Struct, frozen=True, tag="project"):
    """New columns computed from each tuple; hidden columns stay."""

    input: Node
    columns: tuple[tuple[str, Expr], ...]

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(name, expr.type) for name, expr in self.columns))


class Condense(Struct, frozen=True, tag="condense"):
    """Tuples that agree in timestamp and `keys` as one row with aggregates of them, or each as such a row.

    The `calls` are counts, sums, least and greatest values of columns.
    """

    input: Node
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]

    @property
    def schema(self) -> Schema:
        kept = (field for name in self.keys for field in self.input.schema if field.name == name)
        return Schema((*kept, *(Field(call.name, call.type) for call in self.calls)))


class Unnest(Struct, frozen=True, tag="unnest", omit_defaults=True):
    """Each tuple once for each element of an ARRAY (one name) or entry of a MAP (two), with its place if that is named.

    Places count from `first`. An `outer` one keeps a tuple without elements. `kept` are the columns that stay, all if
    None.
    """

    input: Node
    of: Expr
    names: tuple[str, ...]
    place: str = ""
    first: int = 0
    outer: bool = False
    kept: tuple[str, ...] | None = None

    @property
    def schema(self) -> Schema:
        match self.of.type:
            case MapType(key=key, of=value):
                types: tuple[DataType, ...] = (key, value)
            case ArrayType(element=element):
                types = (element,)
            case _:
                raise InternalError(f"{self.of.type.value} has no elements")
        added = [Field(name, type_) for name, type_ in zip(self.names, types, strict=True)]
        if self.place:
            added.append(Field(self.place, Type.INT))
        kept = [field for field in self.input.schema if self.kept is None or field.name in self.kept]
        return Schema((*kept, *added))


class Union(Struct, frozen=True, tag="union"):
    """All tuples of all inputs (a bag); inputs have equal schemas, the binder having renamed and cast."""

    inputs: tuple[Node, ...]

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


class Pace(Struct, frozen=True, tag="pace", omit_defaults=True):
    """The tuples at most `tolerance` older than the newest before them, in order of arrival; or the others, `late`.

    Inputs are as those of a union. Once an input is late, it may also drop tuples older than `share` of the tolerance,
    or that would be late after two tuples that take `service` each. A late tuple has the timestamp of the newest one
    when it came.
    """

    inputs: tuple[Node, ...]
    tolerance: int
    share: float
    service: int = 0
    late: bool = False

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


class Punctuate(Struct, frozen=True, tag="punctuate", omit_defaults=True):
    """The tuples of a stream without marks and without tuples that an earlier mark rules out; or the latter, `late`.

    A mark is a tuple whose column `mark` is TRUE, or a time: no tuple with the same `keys` comes later that is before
    the time of the mark, or before that time.
    """

    input: Node
    mark: str
    keys: tuple[str, ...]
    late: bool = False

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Join(Struct, frozen=True, tag="join", omit_defaults=True):
    """Pairs of tuples that are in each other's window, agree on all `keys` and satisfy `residual`.

    A key is a left and a right expression that must be equal. A result is stamped with the larger timestamp. Output
    columns: the left's, then the right's renamed by `right_names` (same order as the right schema). `residual` is over
    output names.

    An extent of None means that the input is itself a join of the same FROM clause and its tuples carry their own
    expiry; else a tuple expires at ts + extent.span. A pair joins iff max(ts) <= min(expiry). A row of a preserved side
    (left, right, full) that finds no partner comes out padded with NULL, stamped with its own timestamp and keeping its
    own expiry.

    A `manner` chooses the feedback that the join sends to its inputs; it changes no final result. The aliases are those
    of the inputs in FROM, if they are items of it.

    With `change`, the join gives a changelog, and this is the column that says what a row is. A row without a partner
    is inserted, padded, at its own instant. With its first partner it is deleted, at the instant of the pair. A row
    that has a partner at its own instant never comes out padded.
    """

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    left_extent: Extent | None
    right_extent: Extent | None
    right_names: tuple[str, ...]
    manner: Manner = "plain"
    left_alias: str = ""
    right_alias: str = ""
    change: str = ""

    @property
    def schema(self) -> Schema:
        renamed = tuple(
            Field(name, field.type) for name, field in zip(self.right_names, self.right.schema, strict=True)
        )
        change = (Field(self.change, Type.STRING),) if self.change else ()
        return Schema(self.left.schema.fields + renamed + change)


class MultiJoin(Struct, frozen=True, tag="multi_join", omit_defaults=True):
    """All combinations of one tuple of each input that are in their windows together: max(ts) <= min(expiry).

    It stands for the inner joins of one FROM clause, in whatever order they are made. A class has for each input an
    expression over it, or None: those that it has must be equal. `terms` are over output names and do not read the
    timestamp. A result is stamped with the largest timestamp, and expires with the first of its parts. An extent of
    None means that the tuples of the input carry their own expiry. `labels` are the aliases of the inputs. Inputs
    without a key that all of them have meet in a grid, where `grid` has the weight of each (`model.grid`).
    """

    inputs: tuple[Node, ...]
    names: tuple[tuple[str, ...], ...]
    extents: tuple[Extent | None, ...]
    classes: tuple[tuple[Expr | None, ...], ...]
    terms: tuple[Expr, ...]
    labels: tuple[str, ...]
    grid: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        parts = zip(self.inputs, self.names, strict=True)
        return Schema(tuple(Field(n, f.type) for part, own in parts for f, n in zip(part.schema, own, strict=True)))


class SequenceJoin(Struct, frozen=True, tag="sequence_join", omit_defaults=True):
    """Each right tuple, in order, with one left tuple that precedes it; stamped as the right tuple.

    A left tuple a and a right tuple b match iff a.ts < b.ts (`inclusive`: a.ts <= b.ts), b.ts <= a.ts + span (None:
    forever), they agree on all `keys` and satisfy `residual`, in which `__ts` is b's. 'recent' takes the newest a that
    matches, any number of times; 'chronicle' the earliest that matches and has not been taken before. A right tuple
    without a match has no result, or one that is `padded` with NULL. Order is by timestamp, ties by arrival in a base
    stream, else by content.

    With 'consuming', either side may precede. Tuples of both sides come in order, at equal times left ones first. Each
    takes the earliest of the other side that came before it, still is in its window (`span`, `right_span`), matches,
    and has not been taken; one that takes another cannot be taken. A pair has the time of the later one, and so has
    `__ts` in the residual.
    """

    left: Node
    right: Node
    mode: SequenceMode
    inclusive: bool
    keys: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    span: int | None
    right_names: tuple[str, ...]
    padded: bool = False
    right_span: int | None = None

    @property
    def schema(self) -> Schema:
        renamed = tuple(
            Field(name, field.type) for name, field in zip(self.right_names, self.right.schema, strict=True)
        )
        return Schema(self.left.schema.fields + renamed)


class TableJoin(Struct, frozen=True, tag="table_join"):
    """Each tuple with the rows of a stored table that agree on all `keys` and satisfy `residual`.

    A key is an expression over the tuple and a column of the table.
    """

    input: Node
    table: str
    table_schema: Schema
    kind: Literal["inner", "left"]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    table_names: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        renamed = tuple(
            Field(name, field.type) for name, field in zip(self.table_names, self.table_schema, strict=True)
        )
        return Schema(self.input.schema.fields + renamed)


class Membership(Struct, frozen=True, tag="membership", omit_defaults=True):
    """Each tuple with one more column, `name`: whether one of its rows of a stored table agrees with it on `compared`.

    Its rows are those that agree on all `keys`, pairs of an expression over the tuple and one over the table's own
    columns, and satisfy `residual`, over the tuple and the table's columns under `table_names`. Without `compared` it
    is whether there is such a row (EXISTS). With `compared` (IN) it is NULL where no row agrees, but one might if its
    NULL, or that of the tuple, were another value.

    With `value`, the answer is that of a scalar sub-query instead: `value` over `calls`, the aggregates of these rows
    over the table's own columns. Then `residual` reads the table only, and there is nothing compared.
    """

    input: Node
    name: str
    table: str
    table_schema: Schema
    keys: tuple[tuple[Expr, Expr], ...]
    compared: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    table_names: tuple[str, ...]
    calls: tuple[AggregateCall, ...] = ()
    value: Expr | None = None

    @property
    def type(self) -> DataType:
        """Return the type of the answer."""
        return Type.BOOLEAN if self.value is None else self.value.type

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.fields, Field(self.name, self.type)))

    @property
    def pair_schema(self) -> Schema:
        """Return the columns that `residual` may read."""
        added = (Field(name, field.type) for name, field in zip(self.table_names, self.table_schema, strict=True))
        return Schema((*self.input.schema.fields, *added))


class StoredArchive(Struct, frozen=True, tag="stored"):
    """The values of a column of a stored table, looked up by `keys`, columns of the table.

    Of several rows with a value the first counts.
    """

    table: str
    schema: Schema
    keys: tuple[str, ...]
    column: str


class FunctionArchive(Struct, frozen=True, tag="function"):
    """A Python function of the keys, as 'module:function'."""

    target: str


class Impute(Struct, frozen=True, tag="impute"):
    """Each tuple with one more column, `name`: the `value`, or where that is NULL what the archive has for `keys`.

    A NULL key finds nothing.
    """

    input: Node
    name: str
    value: Expr
    keys: tuple[Expr, ...]
    archive: StoredArchive | FunctionArchive

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.fields, Field(self.name, self.value.type)))


class Aggregate(Struct, frozen=True, tag="aggregate"):
    """One row per group and window: the keys, the aggregates, then window_start and window_end (TIMESTAMP)."""

    input: Node
    window: Window
    keys: tuple[tuple[str, Expr], ...]
    calls: tuple[AggregateCall, ...]

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(name, expr.type) for name, expr in self.keys)
        calls = tuple(Field(call.name, call.type) for call in self.calls)
        bounds = (Field("window_start", Type.TIMESTAMP), Field("window_end", Type.TIMESTAMP))
        return Schema(keys + calls + bounds)


class Changes(Struct, frozen=True, tag="changes"):
    """How the row of each group changes: one or two rows for each instant at which it does, with the kind of change.

    A row of a group is `columns` over keys and calls, as of all tuples up to an instant; there is none if `condition`
    fails. A change is stamped with its instant. In the column `change` it is an insert, a delete (of the old row), or
    update_before and update_after (the old and the new row). A group that has had no tuple for more than `ttl`
    microseconds begins anew, and its old row stays.
    """

    input: Node
    keys: tuple[tuple[str, Expr], ...]
    calls: tuple[AggregateCall, ...]
    ttl: int
    columns: tuple[tuple[str, Expr], ...]
    condition: Expr | None
    change: str

    @property
    def group_schema(self) -> Schema:
        """Return what `columns` and `condition` may read."""
        keys = (Field(name, expr.type) for name, expr in self.keys)
        return Schema((*keys, *(Field(call.name, call.type) for call in self.calls)))

    @property
    def schema(self) -> Schema:
        return Schema((*(Field(name, expr.type) for name, expr in self.columns), Field(self.change, Type.STRING)))


class Distinct(Struct, frozen=True, tag="distinct"):
    """Tuples without an equal one (all visible columns; NULL equals NULL) at most `span` microseconds before them.

    In timestamp order; of equal tuples at one timestamp one comes out. These are the new rows of the set that a window
    of `span` holds.
    """

    input: Node
    span: int

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Deduplicate(Struct, frozen=True, tag="deduplicate"):
    """Tuples without one that agrees in `by` at most `span` microseconds before them (`last`: after them).

    In timestamp order, ties by arrival in a base stream, else by content. NULL equals NULL.
    """

    input: Node
    by: tuple[Expr, ...]
    span: int
    last: bool

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Over(Struct, frozen=True, tag="over"):
    """Each tuple with one more column for each of `calls`: an aggregate of the tuples of its frame.

    These agree with it in `by` (NULL equals NULL) and are before it in timestamp order, ties by arrival in a base
    stream, else by content. A range frame also has those of the same timestamp.
    """

    input: Node
    by: tuple[Expr, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.fields, *(Field(call.name, call.type) for call in self.calls)))


class MatchRows(Struct, frozen=True, tag="match_rows"):
    """The matches of a row pattern, stamped with their last row: the columns `by`, then lookups and folds.

    The rows of a partition agree in `by` (NULL equals NULL) and are in timestamp order, then by the columns `order`,
    then by arrival in a base stream, else by content.
    """

    input: Node
    by: tuple[Column, ...]
    order: tuple[Column, ...]
    pattern: RowPattern
    lookups: tuple[Lookup, ...]
    folds: tuple[Fold, ...]

    @property
    def schema(self) -> Schema:
        return Schema(
            (
                *(Field(column.name, column.type) for column in self.by),
                *(Field(lookup.name, lookup.of.type) for lookup in self.lookups),
                *(Field(fold.call.name, fold.call.type) for fold in self.folds),
            )
        )


class Suppress(Struct, frozen=True, tag="suppress"):
    """Of the tuples that agree in `by`, in order, those that the suppressor lets through.

    Columns: the newest of them, then the oldest under `old_names`; the last of `old_names` is for the timestamp of the
    oldest. A result is stamped with the instant at which it comes out.
    """

    input: Node
    by: tuple[Expr, ...]
    rule: Suppression
    old_names: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        older = (*self.input.schema.fields, Field("", Type.BIGINT))
        return Schema(
            (
                *self.input.schema.fields,
                *(Field(name, field.type) for name, field in zip(self.old_names, older, strict=True)),
            )
        )


class Rank(Struct, frozen=True, tag="rank"):
    """Each tuple with one more column, `name`: its place, from 1, among those that agree in `by` in the same window.

    A window has `size` microseconds and is aligned; with size 1 it is an instant. NULL equals NULL in `by`. row_number
    tells tuples apart that `order` does not by timestamp, then by arrival in a base stream, else by content.
    """

    input: Node
    size: int
    by: tuple[Expr, ...]
    order: tuple[RankOrder, ...]
    function: Ranking
    name: str

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.fields, Field(self.name, Type.BIGINT)))


class WindowOver(Struct, frozen=True, tag="window_over"):
    """Each tuple with one more column for each of `calls`: an aggregate of its frame in a complete window.

    A window has `size` microseconds and is aligned; with size 1 it is an instant. The tuples of it that agree in `by`
    (NULL equals NULL) are in the order of `order`, then of timestamps, then by arrival in a base stream, else by
    content.
    """

    input: Node
    size: int
    by: tuple[Expr, ...]
    order: tuple[RankOrder, ...]
    frame: PlaceFrame
    calls: tuple[AggregateCall, ...]

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.fields, *(Field(call.name, call.type) for call in self.calls)))


class Order(Struct, frozen=True, tag="order", omit_defaults=True):
    """The same tuples in timestamp order (ties by arrival for a base stream, else by content).

    `merge` keeps each input of a union in order and takes the earliest head, ties by port, instead of sorting the
    output. With `by`, order holds among the tuples that agree in these columns; of an instant, a delete is before an
    insert.
    """

    input: Node
    merge: bool = False
    by: tuple[Expr, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Limit(Struct, frozen=True, tag="limit", omit_defaults=True):
    """The first `count` tuples in timestamp order (ties by arrival for a base stream, else by content).

    `query` names the running query that counts them where another one reads its results. Empty: the query whose plan
    this is.
    """

    input: Node
    count: int
    query: str = ""

    @property
    def schema(self) -> Schema:
        return self.input.schema


class Detect(Struct, frozen=True, tag="detect"):
    """The occurrences of a complex event, stamped with their ends; each primitive event is the input at its port.

    Tuples that differ in `keys` (for each input, over its columns) belong to histories of their own. `conditions` are
    over `part.column` and are tested while pairing. Inputs are in order by timestamp, ties by arrival in a base stream,
    else by content.
    """

    parts: tuple[Node, ...]
    event: Event
    context: Context
    keys: tuple[tuple[Expr, ...], ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Output, ...]

    @property
    def schema(self) -> Schema:
        return output_schema(self.event, tuple(part.schema for part in self.parts), self.outputs)


Node: TypeAlias = (
    Scan
    | Filter
    | Project
    | Condense
    | Unnest
    | Union
    | Pace
    | Punctuate
    | Join
    | MultiJoin
    | SequenceJoin
    | TableJoin
    | Membership
    | Impute
    | Aggregate
    | Changes
    | Distinct
    | Deduplicate
    | Over
    | MatchRows
    | Suppress
    | Rank
    | WindowOver
    | Order
    | Limit
    | Detect
)


def inputs(node: Node) -> tuple[Node, ...]:
    """Return the direct inputs of a node."""
    match node:
        case Scan():
            return ()
        case Union(inputs=nodes) | Pace(inputs=nodes) | MultiJoin(inputs=nodes) | Detect(parts=nodes):
            return nodes
        case Join(left=left, right=right) | SequenceJoin(left=left, right=right):
            return (left, right)
        case (
            Filter()
            | Project()
            | Condense()
            | Unnest()
            | TableJoin()
            | Membership()
            | Impute()
            | Aggregate()
            | Changes()
            | Distinct()
            | Deduplicate()
            | Punctuate()
            | Over()
            | MatchRows()
            | Suppress()
            | Rank()
            | WindowOver()
            | Order()
            | Limit()
        ):
            return (node.input,)
