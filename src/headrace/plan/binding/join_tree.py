"""The join tree of FROM: which join each item makes, with which windows, keys and residual conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.catalog.definitions import Table
from headrace.errors import NotSupported, UnboundedStateFault
from headrace.language.syntax.clauses import FollowingClause, LandmarkClause, MannerClause
from headrace.model.expressions.expression import TRUE, Call, Cast, Column, Expr, columns, conjunction, substitute
from headrace.model.types import DataType
from headrace.model.window import Extent
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.from_item import Item
from headrace.plan.binding.window import extent, since
from headrace.plan.nodes import Node

_JOIN_HINT = (
    "write a window after it, such as [RANGE 5 MINUTES], or bound the time between both streams in ON: "
    "a.at BETWEEN b.at - INTERVAL 5 MINUTES AND b.at; or EMIT CHANGES STATE TTL '1 day' at the end: a changelog"
)
WINDOW_HINT = "write a window after it, such as [RANGE 5 MINUTES]; [UNBOUNDED] keeps everything"


@dataclass(frozen=True, slots=True)
class Step:
    """One JOIN: which item joins, how, and under what names its columns come out."""

    item: Item
    kind: nodes.JoinKind
    names: tuple[str, ...]
    following: FollowingClause | None
    manner: MannerClause | None
    span: int | None = None  # how long its tuples are kept, if the conditions say it


class JoinTree:
    """The join tree while it grows to the right."""

    def __init__(self, env: Environment, steps: list[Step], *, aggregated: bool) -> None:
        self._env = env
        self._aggregated = aggregated
        self._word = next((_word(step.following) for step in steps if step.following is not None), "")
        self._is_sequence = bool(self._word)
        streams = [step for step in steps if not isinstance(step.item.source, Table)]
        if self._is_sequence and len(streams) > 2:
            hint = "join the first two in a sub-query: FROM (SELECT ...) [RANGE 5 MINUTES] AS x JOIN ..."
            raise NotSupported(f"a {self._word} join has exactly two streams", span=streams[2].item.span, hint=hint)
        self._windowed = len(streams) > 1
        self._extent: Extent | None = None
        self._first = steps[0].item
        self.node: Node

    def start(self, step: Step) -> None:
        self.node, self._extent = self._input(step)

    def join(
        self, step: Step, on: tuple[Expr, ...], where: tuple[Expr, ...]
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Join one more item by all conditions that can be tested now; return the ones that cannot."""
        left, right = frozenset(self.node.schema.names), frozenset(step.names)
        ready = tuple(term for term in on if columns(term) <= left | right)
        joining = tuple(term for term in where if sides(term, left, right) is not None)
        conditions = _Conditions.of((*ready, *joining), left, right)
        _check_step(step)
        if isinstance(step.item.source, Table) and step.item.versions is not None:
            self._temporal_join(step, step.item.source, step.item.versions, conditions)
        elif isinstance(step.item.source, Table):
            self._table_join(step, step.item.source, conditions)
        elif step.following is not None:
            self._follow(step, step.following, conditions)
        else:
            self._window_join(step, conditions)
        return tuple(term for term in on if term not in ready), tuple(term for term in where if term not in joining)

    def _window_join(self, step: Step, conditions: _Conditions) -> None:
        node, window = self._input(step)
        manner = step.manner
        if manner is not None and any(side is not None and side.rows is not None for side in (self._extent, window)):
            word = manner.manner.upper()
            raise NotSupported(f"{word} JOIN cannot have ROWS windows", span=manner.span, hint="write [RANGE ...]")
        self.node = nodes.Join(
            self.node,
            node,
            step.kind,
            conditions.keys(step),
            conjunction(conditions.residual),
            self._extent,
            window,
            step.names,
            "plain" if manner is None else manner.manner,
            "" if self._extent is None else self._first.names[0],
            step.item.names[0],
        )
        self._extent = None

    def _table_join(self, step: Step, table: Table, conditions: _Conditions) -> None:
        kind: Literal["inner", "left"]
        match step.kind:
            case "inner" | "left":
                kind = step.kind
            case "right" | "full":
                hint = "write LEFT JOIN with the stream on the left"
                raise NotSupported(
                    f"a {step.kind.upper()} JOIN with the stored table {table.name} is not supported",
                    span=step.item.span,
                    hint=hint,
                )
        keys: list[tuple[Expr, str]] = []
        residual = list(conditions.residual)
        own = {name: field.name for name, field in zip(step.names, table.schema, strict=True)}
        for left, right, term in conditions.equalities:
            # The table's side is a bare column, so the tuple's side takes its type; an integer too large for it becomes
            # NULL and finds no row.
            widened = isinstance(right, Cast) and right.type.is_integer and right.arg.type.is_integer
            bare = right.arg if isinstance(right, Cast) and widened else right
            if isinstance(bare, Column):
                keys.append((left if left.type == bare.type else narrowed(left, bare.type), own[bare.name]))
            else:
                residual.append(term)
        self.node = nodes.TableJoin(
            self.node, table.name, table.schema, kind, tuple(keys), conjunction(tuple(residual)), step.names
        )

    def _temporal_join(self, step: Step, table: Table, versions: Node, conditions: _Conditions) -> None:
        """Join each tuple with the newest row of its key that is not later; other conditions test that row."""
        form = temporal_form(table, self._first.names[0])
        if self._windowed:
            raise NotSupported(
                f"the table {table.name} of a stream cannot be joined with several streams",
                span=step.item.span,
                hint=f"join the streams in a sub-query: FROM (SELECT *, rowtime AS at FROM ...) AS x {form}",
            )
        if step.kind not in ("inner", "left"):
            raise NotSupported(
                f"a {step.kind.upper()} JOIN with the table {table.name} is not supported",
                span=step.item.span,
                hint="write LEFT JOIN with the stream on the left",
            )
        own = {name: field.name for name, field in zip(step.names, table.schema, strict=True)}
        keys: dict[str, tuple[Expr, Expr]] = {}
        others = list(conditions.residual)
        for mine, theirs, term in conditions.equalities:
            column = theirs.arg if isinstance(theirs, Cast) else theirs
            name = own.get(column.name) if isinstance(column, Column) else None
            if name in table.key and name not in keys and mine.type == theirs.type:
                keys[name] = theirs, mine
            else:
                others.append(term)
        for name in table.key:
            if name not in keys:
                raise NotSupported(
                    f"a join with {table.name} needs its whole PRIMARY KEY, and ON does not compare {name!r}",
                    span=step.item.span,
                    hint=form,
                )
        if others and step.kind == "left":
            raise NotSupported(
                f"ON of a LEFT JOIN with {table.name} compares the PRIMARY KEY and nothing else",
                span=step.item.span,
                hint="write the other conditions in WHERE, or with CASE in SELECT",
            )
        left = nodes.Project(
            versions,
            tuple((name, Column(field.name, field.type)) for name, field in zip(step.names, table.schema, strict=True)),
        )
        names, ordered = self.node.schema.names, tuple(keys[name] for name in table.key)
        joined = nodes.SequenceJoin(
            left, self.node, "recent", True, ordered, None, None, names, padded=step.kind == "left"
        )
        self.node = _filtered(joined, tuple(others))

    def _follow(self, step: Step, following: FollowingClause, conditions: _Conditions) -> None:
        """Make a sequence join; a condition on one side alone selects tuples of that side, so it is a filter there."""
        word, is_consuming = _word(following), following.mode == "consuming"
        if step.kind != "inner":
            raise NotSupported(
                f"a {word} join cannot be a {step.kind.upper()} JOIN", span=following.span, hint="write JOIN"
            )
        if step.item.clause is not None and not is_consuming:
            hint = "leave the window out; to aggregate the pairs, write the join in a sub-query"
            raise NotSupported(
                "the second stream of a FOLLOWING join cannot have a window", span=step.item.clause.span, hint=hint
            )
        left, right = frozenset(self.node.schema.names), frozenset(step.names)
        of_left = tuple(term for term in conditions.residual if columns(term) <= left)
        of_right = tuple(term for term in conditions.residual if columns(term) <= right and term not in of_left)
        of_both = tuple(term for term in conditions.residual if term not in (*of_left, *of_right))
        if self._extent is None and (following.mode != "recent" or not conditions.equalities or of_both):
            # All but the newest tuple of each key may be forgotten only if the newest is always the one that is taken.
            name = self._first.names[0]
            raise UnboundedStateFault(
                f"the {word} join would have to keep all tuples of {name} forever",
                span=self._first.span,
                hint=WINDOW_HINT,
            )
        if is_consuming and step.item.clause is None:
            raise UnboundedStateFault(
                f"the CONSUMING join would have to keep all tuples of {step.item.names[0]} forever",
                span=step.item.span,
                hint=WINDOW_HINT,
            )
        first = _filtered(self.node, of_left)
        own = _own_names(step)
        source, window = self._input(step)
        second = _filtered(source, tuple(substitute(term, own) for term in of_right))
        span = None if self._extent is None else self._extent.span
        self.node = nodes.SequenceJoin(
            first,
            second,
            following.mode,
            following.inclusive,
            conditions.keys(step),
            conjunction(of_both),
            span,
            step.names,
            right_span=None if window is None else window.span,
        )
        self._extent = None

    def _input(self, step: Step) -> tuple[Node, Extent | None]:
        item = step.item
        assert not isinstance(item.source, Table)
        if not self._windowed or (self._is_sequence and item.clause is None):
            return item.source, None
        if step.span is not None:
            return item.source, Extent(span=step.span)
        if item.clause is None:
            raise UnboundedStateFault(
                f"the join would have to keep all tuples of {item.names[0]} forever", span=item.span, hint=_JOIN_HINT
            )
        binder = ExpressionBinder(Scope((item.relation(),)), self._env.catalog, "in a window")
        window = extent(item.clause, binder, aggregated=self._aggregated or item.call is not None)
        if self._is_sequence and window.rows is not None:
            raise NotSupported(
                f"a {self._word} join cannot have a ROWS window", span=item.clause.span, hint="write [RANGE ...]"
            )
        source = item.source
        if isinstance(item.clause, LandmarkClause):
            source = nodes.Filter(source, since(item.clause.start))
        return source, window


def temporal_form(table: Table, stream: str) -> str:
    """Return how a table of a stream is joined."""
    on = " AND ".join(f"{stream}.{name} = t.{name}" for name in table.key)
    return f"JOIN {table.name} FOR SYSTEM_TIME AS OF {stream}.rowtime AS t ON {on}"


def sides(term: Expr, left: frozenset[str], right: frozenset[str]) -> tuple[Expr, Expr] | None:
    """Return the two sides of an equality, that over `left` first; None if it does not compare the two."""
    if not isinstance(term, Call) or term.function != "=":
        return None
    first, second = term.args
    for pair in ((first, second), (second, first)):
        mine, theirs = columns(pair[0]), columns(pair[1])
        if mine and theirs and mine <= left and theirs <= right:
            return pair
    return None


def narrowed(expr: Expr, to: DataType) -> Expr:
    """Convert a key to the type of a table's column; values that are too large become NULL."""
    inner = expr.arg if isinstance(expr, Cast) else expr
    return inner if inner.type == to else Cast(inner if inner.type.is_integer else expr, to)


class _Equality(NamedTuple):
    """A condition `left = right` of a join, an expression over each of its inputs; `term` is the whole condition."""

    left: Expr
    right: Expr
    term: Expr


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The conditions that a join tests: those that compare its two inputs for equality, and the residual."""

    equalities: tuple[_Equality, ...]
    residual: tuple[Expr, ...]

    @classmethod
    def of(cls, terms: tuple[Expr, ...], left: frozenset[str], right: frozenset[str]) -> _Conditions:
        pairs = [(sides(term, left, right), term) for term in terms]
        equalities = tuple(_Equality(*pair, term) for pair, term in pairs if pair is not None)
        return cls(equalities, tuple(term for pair, term in pairs if pair is None and term != TRUE))

    def keys(self, step: Step) -> tuple[tuple[Expr, Expr], ...]:
        """Return the equalities with the right side over the item's own column names."""
        own = _own_names(step)
        return tuple((left, substitute(right, own)) for left, right, _ in self.equalities)


def _check_step(step: Step) -> None:
    if step.manner is not None:
        _check_manner(step, step.manner)
    if step.following is not None and isinstance(step.item.source, Table):
        raise NotSupported(
            f"the stored table {step.item.source.name} cannot be joined with {_word(step.following)}",
            span=step.following.span,
            hint=f"leave {_word(step.following)} out",
        )


def _check_manner(step: Step, clause: MannerClause) -> None:
    word = clause.manner.upper()
    if isinstance(step.item.source, Table):
        raise NotSupported(
            f"{word} JOIN needs two streams, but {step.item.source.name} is a stored table",
            span=clause.span,
            hint="write JOIN",
        )
    if step.following is not None:
        follows = _word(step.following)
        raise NotSupported(f"a {follows} join cannot be {word}", span=clause.span, hint=f"write JOIN ... {follows}")
    if step.kind != "inner":
        hint = f"write {word} JOIN, or {step.kind.upper()} JOIN alone"
        raise NotSupported(
            f"{word} JOIN cannot be a {step.kind.upper()} JOIN: it drops tuples without a partner",
            span=clause.span,
            hint=hint,
        )


def _word(clause: FollowingClause) -> str:
    return "CONSUMING" if clause.mode == "consuming" else "FOLLOWING"


def _filtered(node: Node, terms: tuple[Expr, ...]) -> Node:
    predicate = conjunction(terms)
    return node if predicate is None else nodes.Filter(node, predicate)


def _own_names(step: Step) -> Mapping[str, Expr]:
    return {name: Column(field.name, field.type) for name, field in zip(step.names, step.item.schema, strict=True)}
