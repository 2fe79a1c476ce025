"""The plan of a named query, where a scan stands for it."""

from __future__ import annotations

from dataclasses import replace

from headrace.language.dialect import parse_select, tokenize
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.plan.binding.environment import Environment
from headrace.plan.nodes import Node, Scan


def plan_of(stand_in: Scan, env: Environment) -> Node | None:
    """Return the plan of the SELECT that a scan stands for; None if it stands for no query, or for an event."""
    for query in env.catalog.queries():
        if env.queries(query.name) == stand_in:
            if not isinstance(parse(query.text)[0], Select):
                return None
            select = parse_select(tokenize(query.text), query.text)
            return env.bind_query(select, replace(env, ctes={}, queries=lambda _: None))
    return None
