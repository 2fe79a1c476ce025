"""WITH PACE: a UNION that leaves out what lags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from sqlglot import exp

from headrace.errors import NameFault, NotSupported
from headrace.language.names import did_you_mean
from headrace.language.syntax.clauses import PaceClause
from headrace.model.streams import late_stream
from headrace.plan import nodes
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.span import place
from headrace.plan.binding.time_columns import time_columns
from headrace.plan.nodes import Node
from headrace.plan.traversal import replace_inputs

#: The share of the tolerance behind which a part that was late need not begin any work, unless CUT says otherwise.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a UNION and what it is called."""

    node: Node
    names: tuple[str, ...]


def paced(union: Node, parts: Sequence[Part], clause: PaceClause, env: Environment) -> Node:
    """Give a union its pace; the named columns must be the timestamps of its parts, each once."""
    assert isinstance(union, nodes.Union)
    if clause.tolerance <= 0:
        raise NotSupported("WITH PACE needs a tolerance above zero", span=clause.span)
    if 2 * clause.service > clause.tolerance:
        raise NotSupported(
            "SERVICE must be at most half of the tolerance",
            span=clause.span,
            hint="choose a larger tolerance or a shorter SERVICE",
        )
    if clause.columns:
        named = [_part_of(column, parts, env) for column in clause.columns]
        for index, part in enumerate(parts):
            if named.count(index) != 1:
                name = part.names[0] if part.names else f"part {index + 1} of the UNION"
                wrong = (
                    f"the pace does not name the time of {name}"
                    if index not in named
                    else f"the pace names the time of {name} twice"
                )
                hint = (
                    f"write {name}.rowtime once, or ON rowtime for all"
                    if part.names
                    else "write ON rowtime, which is that of all parts"
                )
                raise NameFault(wrong, span=clause.span, hint=hint)
    return nodes.Pace(union.inputs, clause.tolerance, SHARE if clause.share is None else clause.share, clause.service)


def late_of(plan: Node, query: str) -> Node:
    """Return the plan of the tuples that a query dropped as late; only columns and conditions may follow its pace."""
    match plan:
        case nodes.Pace():
            return replace(plan, late=True)
        case nodes.Project(input=below) | nodes.Filter(input=below) | nodes.Order(input=below):
            return replace_inputs(plan, (late_of(below, query),))
        case _:
            raise NameFault(
                f"{late_stream(query)} does not exist: WITH PACE is not the last step of {query}",
                hint="make the UNION with PACE a query of its own",
            )


def _part_of(column: exp.Column, parts: Sequence[Part], env: Environment) -> int:
    """Return the number of the part whose time a column is."""
    qualifier, span = ".".join(part.name for part in column.parts[:-1]), place(column)
    known = [name for part in parts for name in part.names]
    if not qualifier:
        raise NameFault(
            f"{column.name!r} does not name a part of the UNION",
            span=span,
            hint=f"write {' or '.join(f'{name}.{column.name}' for name in known)}" if known else "write ON rowtime",
        )
    numbers = [index for index, part in enumerate(parts) if qualifier.lower() in (name.lower() for name in part.names)]
    if not numbers:
        hint = did_you_mean(
            qualifier, known, otherwise=f"its parts are {', '.join(known)}" if known else "write ON rowtime"
        )
        raise NameFault(f"the UNION has no part {qualifier!r}", span=span, hint=hint)
    if len(numbers) > 1:
        raise NameFault(
            f"two parts of the UNION are called {qualifier!r}", span=span, hint="give them different names with AS"
        )
    node, name = parts[numbers[0]].node, column.name.lower()
    if name == "rowtime" or name in (known_name.lower() for known_name in time_columns(node, env)):
        return numbers[0]
    names = node.schema.names
    if name not in (known_name.lower() for known_name in names):
        raise NameFault(
            f"column {column.name!r} does not exist in {qualifier}",
            span=span,
            hint=did_you_mean(column.name, [*names, "rowtime"]),
        )
    raise NotSupported(
        f"{column.name!r} is not the timestamp of {qualifier}",
        span=span,
        hint=f"write {qualifier}.rowtime",
    )
