"""Messages of any form, read by a Python function: `format 'python:module:function'`, cut where a terminator stands.

The function gets the text of one message and returns a row (a mapping of column names to values), several rows, or None
if the message is of no interest. A message for which it raises an error is a bad record, with the error as the reason.
Text is read as a value of the column's type, as in files; a column that is not named is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from headrace.connectors.formats.conversion import can_convert, convert, decimals, failures, reason
from headrace.connectors.formats.text import NEWLINE, Lines, Parsed
from headrace.errors import NameFault, QueryError, SourceFault
from headrace.model.nested_values import shaped
from headrace.model.option import Option
from headrace.model.python_target import RAISED, PythonTarget, is_python_target, text_of
from headrace.model.schema import Field, Schema
from headrace.model.types import DecimalType, is_nested

Row: TypeAlias = Mapping[str, Any]
#: What a user's function is: the text of a message to its rows.
Reading: TypeAlias = Callable[[str], Row | Iterable[Row] | None]

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Messages:
    """How messages end and the function that reads one, as 'module:function'."""

    target: str
    terminator: bytes = NEWLINE

    def load(self) -> Reading:
        """Load the function; raise SourceFault if there is none."""
        return _load(self.target)

    def parse(self, lines: Lines, schema: Schema) -> Parsed:
        """Turn messages into rows of `schema`; a message is bad as a whole."""
        read = self.load()
        rows: list[Row] = []
        owners: list[int] = []
        bad: dict[int, str] = {}
        for i in range(len(lines.starts)):
            try:
                parsed = _rows_of(lines.data[lines.starts[i] : lines.ends[i]].decode(), read)
            except UnicodeDecodeError:
                bad[i] = "the message is not UTF-8"
                continue
            except RAISED as error:  # the user's code may raise anything, and one message must not stop the stream
                why = text_of(error)
                bad[i] = why.removeprefix(f"{type(error).__name__}: ") if isinstance(error, ValueError) else why
                continue
            if len(parsed) > lines.ends[i] - lines.starts[i]:
                bad[i] = f"{len(parsed)} rows of one message: more than it has bytes"
                continue
            rows += parsed
            owners += [i] * len(parsed)
        columns = [_column(field, [row.get(field.name) for row in rows]) for field in schema]
        for _, failed in columns:
            for row, why in failed.items():
                bad.setdefault(owners[row], why)
        owner = np.array(owners, dtype=np.int64)
        first = np.searchsorted(owner, owner)  # rows of one message are numbered by the bytes it has
        positions = lines.starts[owner] + np.arange(len(owner)) - first
        frame = pl.DataFrame([column for column, _ in columns]) if columns else pl.DataFrame(height=len(rows))
        if bad:
            keep = ~np.isin(owner, list(bad))
            frame, positions = frame.filter(pl.Series(keep)), positions[keep]
        return Parsed(frame, positions, sorted(bad.items()))


def read_messages(form: str, options: Mapping[str, Option]) -> Messages | None:
    """Return the function that a format names, or None if it names none; raise QueryError if it is malformed."""
    if not is_python_target(form):
        if "terminator" in options:
            raise QueryError(
                f"format {form!r} has no terminator",
                hint="its records are lines; a terminator is for 'python:module:function'",
            )
        return None
    try:
        target = PythonTarget.parse_prefixed(form)
    except ValueError as error:
        raise NameFault(f"format {form!r} does not name a function", hint="write 'python:module:function'") from error
    return Messages(str(target), _terminator(str(options.get("terminator", "\\n"))))


def _terminator(written: str) -> bytes:
    r"""Return the bytes that a text such as '\r\n\031' stands for: octal, \xhh, \r, \n, \t and \\."""

    def plain(match: re.Match[str]) -> str:
        octal, digits, letter = match.groups()
        if letter is None:
            return chr(int(octal, 8) if octal else int(digits, 16))
        if letter not in _LETTERS:
            raise QueryError(
                f"the terminator {written!r} has an unknown escape \\{letter}",
                hint=r"there are \r, \n, \t, \\, \031 and \x19",
            )
        return _LETTERS[letter]

    mark = _ESCAPE.sub(plain, written).encode()
    if not mark:
        raise QueryError("the terminator is empty", hint=r"write the characters that end each message, such as '\n'")
    if any(mark.startswith(mark[-length:]) for length in range(1, len(mark))):
        raise QueryError(
            f"the terminator {written!r} overlaps with itself",
            hint="it would be ambiguous where a message ends; write only the last part",
        )
    return mark


def _rows_of(message: str, read: Reading) -> list[Row]:
    if not message.strip():
        return []
    result = read(message)
    if result is None:
        return []
    rows = [result] if isinstance(result, Mapping) else list(result)
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("the function must return a mapping of column names to values, several, or None")
    return rows


def _column(field: Field, values: list[Any]) -> tuple[pl.Series, dict[int, str]]:
    """Return values as a column of the field's type, and the rows that do not fit with the reason."""
    if all(value is None or isinstance(value, str) for value in values):
        texts = pl.Series(field.name, values, dtype=pl.String)
        column = convert(texts, field.type)
        return column, {row: reason(values[row], field.name, field.type) for row in failures(texts, column).arg_true()}
    if isinstance(field.type, DecimalType):
        column = decimals(values, field.type).rename(field.name)
        bad = [row for row, value in enumerate(values) if value is not None and column[row] is None]
        return column, {row: reason(values[row], field.name, field.type) for row in bad}
    try:
        if not is_nested(field.type):
            return pl.Series(field.name, values, dtype=field.type.polars), {}
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        pass  # mixed or foreign values: one by one, so that only those that do not fit are bad
    done: list[Any] = []
    wrong: dict[int, str] = {}
    for row, value in enumerate(values):
        done.append(_value(value, field))
        if done[-1] is None and value is not None:
            wrong[row] = reason(value, field.name, field.type)
    return pl.Series(field.name, done, dtype=field.type.polars), wrong


def _value(value: Any, field: Field) -> Any:
    try:
        if is_nested(field.type):
            return convert(pl.Series([value]), field.type)[0] if isinstance(value, str) else shaped(value, field.type)
        column = pl.Series([value])
        return convert(column, field.type)[0] if can_convert(column.dtype, field.type) else None
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return None


@cache
def _load(target: str) -> Reading:
    hint = (
        "the module must be importable here and on every worker: put its folder on PYTHONPATH, or the script beside it"
    )
    return PythonTarget.parse(target).load("the format", error=SourceFault, hint=hint)
