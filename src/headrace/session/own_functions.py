"""The statement that lets queries call a Python function."""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal

from headrace.errors import NameFault
from headrace.model.expressions.text import format_name

_TYPES: dict[object, str] = {
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bool: "BOOLEAN",
    bytes: "BINARY",
    datetime.datetime: "TIMESTAMP",
    datetime.date: "DATE",
}


def create_function_text(
    code: Callable[..., Any],
    name: str | None,
    args: Sequence[str] | None,
    returns: str | None,
    vectorized: Literal["polars", "arrow"] | None,
) -> str:
    """Return CREATE OR REPLACE FUNCTION for a function of a module."""
    module, own = getattr(code, "__module__", None), getattr(code, "__qualname__", "")
    if not module or module == "__main__" or not own.isidentifier():
        raise NameFault(
            f"workers cannot import the function {own or code!r}",
            hint="define it with def at the top of a module beside the program, and import it from there",
        )
    if isinstance(args, str) or vectorized not in (None, "polars", "arrow"):
        wrong = f"args is the text {args!r}" if isinstance(args, str) else f"vectorized is {vectorized!r}"
        raise NameFault(
            f"the function {own} cannot be declared: {wrong}",
            hint="args is a list of types, args=['INT', 'STRING'], and vectorized is 'polars' or 'arrow'",
        )
    if args is None or returns is None:
        types = _annotated(code, own)
        args, returns = args or types[:-1], returns or types[-1]
    style = "" if vectorized is None else f" VECTORIZED {vectorized.upper()}"
    return (
        f"CREATE OR REPLACE FUNCTION {format_name(name or own)}({', '.join(args)}) RETURNS {returns} "
        f"FROM PYTHON '{module}:{own}'{style}"
    )


def _annotated(code: Callable[..., Any], own: str) -> list[str]:
    """Return the types of the arguments and of the result, from annotations; `int | None` is an int."""
    try:
        hints = typing.get_type_hints(code)
    except Exception as error:  # annotations that are text are evaluated
        raise NameFault(
            f"the annotations of the function {own} cannot be read: {error}",
            hint=f"correct them, or write session.function({own}, args=['INT'], returns='STRING')",
        ) from error
    result = hints.pop("return", None)
    types: list[str] = []
    for hint in (*hints.values(), result):
        choices = [choice for choice in typing.get_args(hint) or (hint,) if choice is not type(None)]
        if len(choices) != 1 or choices[0] not in _TYPES:
            raise NameFault(
                f"the function {own} does not say the types of its arguments and its result",
                hint=f"annotate them, def {own}(x: int) -> str, or write session.function({own}, args=['INT'], "
                "returns='STRING')",
            )
        types.append(_TYPES[choices[0]])
    return types
