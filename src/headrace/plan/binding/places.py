"""Functions of the place of a tuple in a complete window, written as counts; and frames of such windows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.model.expressions.expression import Case, Expr, Literal
from headrace.model.frame import PlaceFrame
from headrace.model.types import Type
from headrace.plan.binding.expressions.function import apply

#: Most tuples before or behind the current one in a frame of rows.
MOST_ROWS = 100_000
#: All tuples; those up to the current one; those up to its peers; its peers and those behind them.
_ALL, _UP_TO = PlaceFrame(), PlaceFrame(None, 0)
_UP_TO_PEERS, _FROM_PEERS = PlaceFrame(None, 0, peers=True), PlaceFrame(0, None, peers=True)
_FRAME = "write ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING, or RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def place_function(name: str, count: Callable[[PlaceFrame], Expr], tiles: int, span: Span | None) -> Expr:
    """Return row_number, rank, percent_rank, cume_dist or ntile; `count` gives the number of tuples in a frame."""

    def number(value: int) -> Expr:
        return Literal(value, Type.BIGINT)

    def of(function: str, left: Expr, right: Expr) -> Expr:
        return apply(function, (left, right), span)

    match name:
        case "row_number":
            return count(_UP_TO)
        case "rank":
            return of("+", of("-", count(_ALL), count(_FROM_PEERS)), number(1))
        case "percent_rank":
            others = of("-", count(_ALL), number(1))
            share = of("/", of("-", count(_ALL), count(_FROM_PEERS)), others)
            return Case(((of("=", others, number(0)), Literal(0.0, Type.DOUBLE)),), share, Type.DOUBLE)
        case "cume_dist":
            return of("/", count(_UP_TO_PEERS), count(_ALL))
        case _:
            if tiles < 1:
                raise SyntaxFault("NTILE needs a number of 1 or more", span=span, hint="write ntile(4)")
            place = of("-", count(_UP_TO), number(1))
            small = of("div", count(_ALL), number(tiles))
            longer = of("%", count(_ALL), number(tiles))  # so many tiles have one tuple more
            in_longer = of("*", longer, of("+", small, number(1)))
            first = of("div", place, of("+", small, number(1)))
            later = of("+", longer, of("div", of("-", place, in_longer), small))
            tile = Case(((of("<", place, in_longer), first),), later, Type.BIGINT)
            return of("+", tile, number(1))


def window_frame(spec: exp.Expr | None, *, has_order: bool, span: Span | None) -> PlaceFrame:
    """Read the frame of a complete window; without one, it is all tuples, or with ORDER BY those up to the peers."""
    if spec is None:
        return _UP_TO_PEERS if has_order else _ALL
    kind = spec.args["kind"]
    if spec.args.get("exclude") or kind not in ("ROWS", "RANGE"):
        raise NotSupported("this frame is not supported", span=span, hint=_FRAME)
    start = _end(spec.args.get("start"), spec.args.get("start_side"), kind, span)
    end = _end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), kind, span)
    if not has_order and kind == "RANGE":
        return _ALL
    if start == "last" or end == "first":
        raise SyntaxFault("the frame ends before it begins", span=span, hint=_FRAME)
    return PlaceFrame(
        start if isinstance(start, int) else None, end if isinstance(end, int) else None, peers=kind == "RANGE"
    )


def _end(value: exp.Expr | str | None, side: str | None, kind: str, span: Span | None) -> int | str:
    """Return an end of a frame in places after the current row, or 'first' or 'last'."""
    if value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        return "first" if side == "PRECEDING" else "last"
    if kind == "RANGE":
        raise NotSupported(
            "a RANGE frame of a window begins and ends with UNBOUNDED or CURRENT ROW", span=span, hint=_FRAME
        )
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdecimal():
        raise SyntaxFault("a frame needs a whole number of rows", span=span, hint=_FRAME)
    if int(value.name) > MOST_ROWS:
        raise NotSupported(
            f"a frame can have {MOST_ROWS:,} rows on each side at most", span=span, hint="write UNBOUNDED instead"
        )
    return -int(value.name) if side == "PRECEDING" else int(value.name)
