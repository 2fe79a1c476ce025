"""Says which tuples a call with OVER sees, and refuses what would need later ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault, TypeFault
from headrace.model.expressions.expression import Literal
from headrace.model.frame import Frame, RangeFrame, RowsFrame
from headrace.model.time import DAY, LONGEST
from headrace.model.types import Type
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.places import MOST_ROWS
from headrace.plan.binding.rank import unbounded_rank
from headrace.plan.binding.span import place

OVER_FORM = "sum(x) OVER (PARTITION BY id ORDER BY rowtime ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
IN_WINDOW = "sum(n) OVER (PARTITION BY window_end ORDER BY n DESC), of the tuples or results of a window"
#: Functions of OVER that count places.
BY_PLACE = ("row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist")
_KINDS = ("ROWS", "RANGE")


@dataclass(frozen=True, slots=True)
class OverCall:
    """One call with OVER: its node, and the names of the columns below that hold its parts."""

    node: exp.Window
    function: str
    keys: tuple[str, ...]
    terms: tuple[str, ...]
    #: The call over these columns.
    over: exp.Expr

    @property
    def order(self) -> list[exp.Expr]:
        """Return the terms of ORDER BY as they are written."""
        order = self.node.args.get("order")
        return [] if order is None else list(order.expressions)


def looks_back(call: OverCall, times: Collection[str]) -> bool:
    """Return whether a call needs only tuples up to the current one, in the order of time."""
    spec = call.node.args.get("spec")
    ahead = spec is not None and (spec.args.get("end_side") is not None or spec.args.get("end") == "UNBOUNDED")
    return _is_by_time(call, times) and call.function not in (*BY_PLACE, "lead", "nth_value") and not ahead


def check_looks_back(call: OverCall, times: Collection[str]) -> None:
    """Refuse a call without a window that is not in the order of time, or looks ahead."""
    function, span = call.function, place(call.node)
    if function in BY_PLACE and not (function == "row_number" and _is_by_time(call, times)):
        raise unbounded_rank(call.node)
    if function in ("lead", "nth_value"):
        raise NotSupported(
            f"{function.upper()} would have to wait for a later tuple",
            span=span,
            hint=f"write LAG, which gives the same pairs when the later tuple comes; or {IN_WINDOW}",
        )
    if len(call.order) != 1 or call.order[0].args.get("desc"):
        raise NotSupported(
            f"{function.upper()} OVER needs ORDER BY time, ascending, or a window",
            span=span,
            hint=f"write {function}(x) OVER (PARTITION BY id ORDER BY rowtime); or {IN_WINDOW}",
        )
    if not _is_by_time(call, times):
        raise NotSupported(
            "OVER must be in the order of time, or of a window",
            span=place(call.node.args["order"]),
            hint=f"write {OVER_FORM}; or {IN_WINDOW}",
        )


def frame_of(call: OverCall, env: Environment) -> Frame:
    """Return the tuples before the current one that a call sees, whose order is that of time."""
    spec = call.node.args.get("spec")
    if call.function == "row_number":
        return RowsFrame(None)
    if call.function == "lag":
        if spec is not None or not 1 <= len(call.over.expressions) <= 3:
            raise SyntaxFault("LAG takes 1 to 3 arguments and no frame", span=place(call.node), hint="LAG(x, 1)")
        number = call.over.expressions[1] if len(call.over.expressions) > 1 else exp.Literal.number(1)
        return RowsFrame(row_count(number, call.node))
    if spec is None:
        return RangeFrame(None)
    end, side = spec.args.get("end"), spec.args.get("end_side")
    if side == "PRECEDING" and spec.args["kind"] == "ROWS":
        raise NotSupported(
            "a frame must end at CURRENT ROW",
            span=place(call.node),
            hint="name it in a sub-query, and take it from an earlier row: SELECT *, LAG(m) OVER (PARTITION BY id "
            "ORDER BY rowtime) AS before FROM (SELECT *, avg(x) OVER (PARTITION BY id ORDER BY rowtime ROWS 9 "
            "PRECEDING) AS m FROM s)",
        )
    if side is not None or end not in (None, "CURRENT ROW"):
        raise NotSupported(
            "a frame must end at CURRENT ROW, since later tuples have not come yet",
            span=place(call.node),
            hint=OVER_FORM,
        )
    start = spec.args.get("start")
    if spec.args.get("exclude") or spec.args.get("start_side") == "FOLLOWING" or spec.args["kind"] not in _KINDS:
        raise NotSupported("this frame is not supported", span=place(call.node), hint=f"write {OVER_FORM}")
    if start == "CURRENT ROW":
        return RowsFrame(0) if spec.args["kind"] == "ROWS" else RangeFrame(0)
    if start == "UNBOUNDED":
        return RowsFrame(None) if spec.args["kind"] == "ROWS" else RangeFrame(None)
    if spec.args["kind"] == "ROWS":
        return RowsFrame(row_count(start, call.node))
    span = ExpressionBinder(Scope(()), env.catalog, "in a frame").bind(start)
    if not isinstance(span, Literal) or span.type is not Type.INTERVAL or not isinstance(span.value, int):
        raise TypeFault(
            "a RANGE frame needs an interval",
            span=place(call.node),
            hint="write RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW, or ROWS BETWEEN ...",
        )
    if span.value < 0:
        raise SyntaxFault("the interval of a frame is negative", span=place(call.node), hint="leave the sign out")
    if span.value > LONGEST:
        raise NotSupported(
            f"a RANGE frame has {LONGEST // DAY:,} days at most", span=place(call.node), hint="write UNBOUNDED instead"
        )
    return RangeFrame(span.value)


def row_count(node: exp.Expr, call: exp.Expr) -> int:
    """Return the number of rows that an argument or a frame names."""
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdecimal():
        raise SyntaxFault(
            "a number of rows must be a whole number", span=place(call), hint="write for example LAG(x, 1)"
        )
    if int(node.name) > MOST_ROWS:
        raise NotSupported(
            f"a frame can have {MOST_ROWS:,} rows at most",
            span=place(call),
            hint="write a RANGE frame, such as RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW",
        )
    return int(node.name)


def _is_by_time(call: OverCall, times: Collection[str]) -> bool:
    return len(call.order) == 1 and not call.order[0].args.get("desc") and call.terms[0] in times
