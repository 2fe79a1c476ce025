"""How each operator answers an assumption about its output: what it need not take in.

The tuples of the output that match are dropped where they leave, in any case; that alone is always right. Where more
is safe, a port gets a pattern of its input. Such a pattern is used three times: to drop what comes in, to forget what
is kept, and as an assumption about the vertex before. It is safe if, whatever part of the matching tuples is missing
from now on, the output is right except for what was assumed.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.model.expressions.expression import Column, Expr
from headrace.model.patterns.match import Between, IsNull, equal
from headrace.model.patterns.pattern import STAMP, Pattern
from headrace.model.patterns.pattern import pattern as pattern_of
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.operators import specs
from headrace.operators.feedback.detect_response import detect_inputs
from headrace.operators.feedback.invariants import Invariants
from headrace.operators.feedback.join_response import join_inputs, multi_inputs, sequence_inputs, table_input
from headrace.operators.feedback.pane_response import group_input, pane_input, partial_input, watches
from headrace.operators.feedback.preimage import through
from headrace.operators.feedback.spans import shortened


class Response(Struct, frozen=True):
    """For each port what of its input is not needed (None: nothing is known to be safe).

    `watch` says that groups which match now will match forever, so the operator is to be asked for them after each
    page that it takes.
    """

    inputs: tuple[Pattern | None, ...]
    watch: bool = False


def respond(spec: specs.Spec, pattern: Pattern, invariants: tuple[Invariants, ...]) -> Response:
    """Return what an operator need not take in if no reader needs the tuples of its output that match."""
    match spec:
        case specs.Filter() | specs.Reorder() | specs.Output() | specs.Exchange() | specs.Hold():
            return Response((pattern,))
        case specs.Union(ports=ports) | specs.OrderedUnion(ports=ports):
            return Response((pattern,) * ports)
        case specs.Pace(ports=ports):
            # a tuple that is dropped for its other attributes would no longer make older ones late
            return Response(((pattern if _is_past(pattern) and not spec.late else None),) * ports)
        case specs.Project(columns=columns):
            return Response((through(pattern.terms, {**dict[str, Expr](columns), TS: STAMP}),))
        case specs.Distinct(span=span):
            return Response((shortened(pattern, span),))
        case specs.Impute(name=name) | specs.Membership(name=name):  # what a table has is not known before it is read
            return Response((None if name in pattern.names else pattern,))
        case specs.Condense(keys=kept):
            return Response((pattern if pattern.names <= {*kept, TS} else None,))
        case specs.Unnest(names=names, place=place):
            return Response((None if pattern.names & {*names, place} else pattern,))
        case specs.Punctuate(mark=mark, late=late):
            # marks are needed in any case
            none = equal(False) if mark.type is Type.BOOLEAN else IsNull()
            unmarked = pattern_of((mark, none), *((term.column, term.match) for term in pattern.terms))
            return Response((None if late else unmarked,))
        case specs.TableJoin():
            return Response((table_input(spec, pattern),))
        case specs.Join() | specs.OrderedJoin() | specs.RowsJoin():
            return Response(join_inputs(spec, pattern))
        case specs.MultiJoin():
            return Response(multi_inputs(spec, pattern))
        case specs.SequenceJoin():
            return Response(sequence_inputs(spec, pattern))
        case specs.Detect():
            return Response(detect_inputs(spec, pattern))
        case (
            specs.Rank(by=by)
            | specs.Leading(by=by)
            | specs.Suppress(by=by)
            | specs.Deduplicate(by=by)
            | specs.Over(by=by)
            | specs.WindowOver(by=by)
            | specs.MatchRows(by=by)
        ):
            # a group is on its own; of a group, what is left out would not count
            return Response((group_input(pattern, {expr.name: expr for expr in by if isinstance(expr, Column)}),))
        case specs.PartialAggregate():
            return Response((partial_input(spec, pattern, invariants[0]),))
        case specs.PaneAggregate():
            return Response((pane_input(spec, pattern, invariants[0]),), watches(spec, pattern, invariants[0]))
        case specs.SessionAggregate() | specs.SlidingAggregate():
            # of a group up to a time nothing: its session may go on behind that, and a sliding result says when its
            # group began
            return Response((group_input(pattern, dict(spec.keys)),))
        case specs.RowsAggregate() | specs.WhileAggregate():
            # a partition is on its own; a group within one is not, since the others' tuples count or end the run as
            # well
            return Response((group_input(pattern, {name: expr for name, expr in spec.keys if expr in spec.window.by}),))
        case specs.Scan() | specs.Receive():
            return Response(())
        case _:  # to drop only what leaves is safe
            return Response((None,) * len(invariants))


def _is_past(pattern: Pattern) -> bool:
    """Return whether a pattern is all before a time, and nothing else."""
    match = pattern.get(TS)
    return len(pattern.terms) == 1 and isinstance(match, Between) and match.low is None and not match.but
