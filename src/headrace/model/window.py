"""Windows: which tuples of a stream a window operator sees together.

Time windows are aligned: a window of size `size` and slide `slide` is [k*slide, k*slide + size) for whole k, since 1970
UTC, or `offset` later.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.fold import Fold
from headrace.model.python_target import is_python_target
from headrace.model.types import DataType


class Range(Struct, frozen=True, tag="range", omit_defaults=True):
    """[RANGE size SLIDE slide], spans in microseconds; tumbling if they are equal, with gaps if slide is larger.

    A window with at least one tuple gives one result per group, stamped with the window's end. [NOW] is Range(1, 1).
    """

    size: int
    slide: int
    offset: int = 0  # less than slide


class Sliding(Struct, frozen=True, tag="sliding"):
    """[RANGE size SLIDE TUPLE]: for each tuple t, in order, the tuples of its group in [t.ts - size, t.ts].

    The window ends with t itself. One result per tuple, stamped t.ts. `size` None is [UNBOUNDED]. window_start is
    max(t.ts - size, first tuple), window_end is t.ts.
    """

    size: int | None


class Rows(Struct, frozen=True, tag="rows"):
    """[ROWS size SLIDE slide] and [PARTITION BY by ROWS size SLIDE slide]: counts tuples in timestamp order.

    The k-th window of a partition is its tuples k*slide .. k*slide + size - 1; complete windows only. Grouping happens
    inside the window. Results are stamped with the last tuple's timestamp; window_start and window_end are those of the
    first and last tuple.
    """

    size: int
    slide: int
    by: tuple[Expr, ...] = ()


class Session(Struct, frozen=True, tag="session", omit_defaults=True):
    """[SESSION gap]: per group, tuples closer than `gap` to the next; stamped last + gap, which is window_end.

    `inclusive`: tuples that are exactly `gap` apart are of one session, too.
    """

    gap: int
    inclusive: bool = False


class Landmark(Struct, frozen=True, tag="landmark"):
    """[LANDMARK FROM start SLIDE slide]: [start, start + k*slide) for k = 1, 2, ...; earlier tuples do not count.

    A group gives a result for a window if it got a tuple in the window's last slide. `start` None ([UNBOUNDED SLIDE s])
    is the beginning of time, with ends at multiples of `slide`; window_start is then NULL.
    """

    start: int | None
    slide: int


class Cumulative(Struct, frozen=True, tag="cumulative", omit_defaults=True):
    """[RANGE size STEP step]: [k*size, k*size + j*step) for j = 1, 2, ..., up to k*size + size.

    `size` is a multiple of `step`. A group gives a result for each window with at least one of its tuples, stamped with
    the window's end.
    """

    size: int
    step: int
    offset: int = 0  # less than size


class While(Struct, frozen=True, tag="while"):
    """[WHILE predicate], [PARTITION BY by WHILE predicate]: the longest runs of consecutive tuples that satisfy it.

    The result comes with, and is stamped by, the tuple that ends the run and is not part of it; a NULL predicate ends a
    run. window_start is the first tuple's timestamp, window_end the ending tuple's. Grouping happens inside the run.
    """

    predicate: Expr
    by: tuple[Expr, ...] = ()


Window: TypeAlias = Range | Sliding | Rows | Session | Landmark | Cumulative | While
#: Windows whose results are made of panes.
Panes: TypeAlias = Range | Landmark | Cumulative


class AggregateCall(Struct, frozen=True, omit_defaults=True):
    """One aggregate of a group: `function` is a name of AGGREGATES, or 'python:module:Class' for a user's own.

    `more` are its further arguments: what max_by compares, the fraction of a percentile. With function 'fold' it is one
    that is written in SQL: `arg` is whether a tuple counts, and `more` are the values that `fold` takes.
    """

    name: str
    function: str
    arg: Expr | None
    type: DataType
    more: tuple[Expr, ...] = ()
    fold: Fold | None = None

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.more if self.arg is None else (self.arg, *self.more)


class Extent(Struct, frozen=True):
    """The tuples of one input that a join keeps: those of a time span, or the newest rows.

    With `span` in microseconds (None: forever), tuple t is in the window at time x if t.ts <= x <= t.ts + span; [NOW]
    is span 0. With `rows`, the newest of its `by` group are kept, and span is None.
    """

    span: int | None = None
    rows: int | None = None
    by: tuple[Expr, ...] = ()


#: Aggregates whose partials hold values.
_KEEPING = (
    "percentile", "percentile_disc", "mode", "collect_list", "collect_set", "fold", "histogram", "skewness", "kurtosis",
)  # fmt: skip


def keeps_values(call: AggregateCall) -> bool:
    """Return whether what is kept for a call grows with the number of values."""
    function = call.function
    is_of_different = function.endswith("_distinct") and function != "approx_count_distinct"
    return function in _KEEPING or is_of_different or is_python_target(function)


def of_nothing(call: AggregateCall) -> int | list[object] | None:
    """Return the value of an aggregate over no rows: counts are 0, lists are empty, others are NULL."""
    if call.function in ("count", "count_distinct", "count_if", "approx_count_distinct"):
        return 0
    return [] if call.function in ("collect_list", "collect_set") else None
