"""Names that SELECT gives, as OVER may read them: those that are no columns of its input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from sqlglot import exp

from headrace.plan.binding.aggregate import is_grouped
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope
from headrace.plan.binding.from_clause import bind_from


def names_of_select(select: exp.Select, env: Environment) -> dict[str, exp.Alias]:
    """Return the columns of SELECT by the names that OVER may call them.

    A name that FROM has as well is the column of FROM; below an aggregate, it is that if GROUP BY names it.
    """
    given = {item.alias.lower(): item for item in select.expressions if isinstance(item, exp.Alias)}
    doubtful = {name for name in _read(select.find_all(exp.Window)) if _is_doubtful(name, given)}
    if not doubtful:
        return given
    if is_grouped(select, env, ExpressionBinder(Scope(()), env.catalog)):
        group = select.args.get("group")
        keys = [] if group is None else group.expressions
        columns = {key.name.lower() for key in keys if isinstance(key, exp.Column)}
    else:
        columns = set(filter(columns_of(select, env, aggregated=False), doubtful))
    return {name: item for name, item in given.items() if name not in columns & doubtful}


def columns_of(select: exp.Select, env: Environment, *, aggregated: bool = True) -> Callable[[str], bool]:
    """Return a function that says whether FROM has a column; FROM is bound when it is first asked."""
    scope = cache(lambda: bind_from(select, env, aggregated=aggregated).scope)
    return lambda name: scope().has(name)


def _read(windows: Iterable[exp.Window]) -> set[str]:
    """Return the names that calls with OVER read, without those of an item of FROM."""
    return {column.name.lower() for window in windows for column in window.find_all(exp.Column) if not column.table}


def _is_doubtful(name: str, given: dict[str, exp.Alias]) -> bool:
    """Return whether SELECT gives a name to something else than the column of that name."""
    item = given.get(name)
    if item is None:
        return False
    written = item.this
    return not isinstance(written, exp.Column) or written.name.lower() != name
