"""Columns that binding OVER adds under names of its own, such as `$in0`: people read what they hold instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr
from headrace.model.rank import RankOrder, format_order

_NAME = re.compile(r"`(\$\w+)`")
_DEFINED = re.compile(r" AS `\$\w+`")
#: A column in whose place a value comes later.
_PLACE = re.compile(r", 0 AS `\$place\d+`|\b0 AS `\$place\d+`(, )?")
_WINDOW = re.compile(r"\$over(\d+)_\w+")
#: What needs no parentheses.
_PLAIN = re.compile(r"[\w.]+(\([^()]*\))?|\(.*\)")


def meanings_of(columns: Iterable[tuple[str, Expr]], known: Mapping[str, str]) -> dict[str, str]:
    """Return what columns of such names hold, as text over columns of users."""
    found = {name: readable(format_expr(expr), known) for name, expr in columns if name.startswith("$")}
    return {name: text if _PLAIN.fullmatch(text) else f"({text})" for name, text in found.items()}


def readable(text: str, known: Mapping[str, str]) -> str:
    """Return a description with what such columns hold in place of their names."""
    if "`$" not in text:
        return text
    bare = _DEFINED.sub("", _PLACE.sub("", text))
    return _NAME.sub(lambda found: known.get(found[1], found[0]), bare)


def rank_text(function: str, by: Iterable[Expr], order: Sequence[RankOrder], known: Mapping[str, str]) -> str:
    """Return a rank as in the text of a query."""
    keys = ", ".join(map(format_expr, by))
    partition = f"PARTITION BY {keys} " if keys else ""
    return readable(f"{function}() OVER ({partition}ORDER BY {format_order(order)})", known)


def window_label(names: Iterable[str]) -> str:
    """Return the name of the window whose calls have these names, w0; nothing for names of users."""
    found = (_WINDOW.fullmatch(name) for name in names)
    return next((f"w{match[1]}" for match in found if match is not None), "")
