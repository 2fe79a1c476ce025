"""Aggregates that users write in Python, found by name 'python:module:Class' and run on columns of states.

The class has `zero() -> state`, `add(state, values: list) -> state`, `merge(a, b) -> state` and `finish(state) ->
value`. A state is made of what MessagePack knows (numbers, strings, bytes, lists, maps; a tuple or a set comes back as
a list), because it is kept and sent as such. NULL is not among the values; over nothing but NULL the result is that of
the zero state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, cast

import msgspec
import polars as pl

from headrace.errors import OperatorFault, found_in
from headrace.model.python_target import RAISED, PythonTarget, text_of


class Definition(Protocol):
    """What a user's class must offer."""

    def zero(self) -> Any: ...
    def add(self, state: Any, values: list[Any]) -> Any: ...
    def merge(self, left: Any, right: Any) -> Any: ...
    def finish(self, state: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class UserAggregate:
    """A user's aggregate over columns of lists and of encoded states."""

    name: str
    definition: Definition

    def fold(self, values: pl.Series) -> pl.Series:
        """Turn lists of values into states."""
        zero, add = self.definition.zero, self.definition.add
        return self._states(values, lambda items: add(zero(), items))

    def merge(self, states: pl.Series) -> pl.Series:
        """Merge lists of states."""
        decode, merge = msgspec.msgpack.decode, self.definition.merge
        return self._states(states, lambda items: reduce(merge, map(decode, items)))

    def finish(self, states: pl.Series, dtype: pl.DataType) -> pl.Series:
        """Turn states into final values."""
        decode, finish = msgspec.msgpack.decode, self.definition.finish
        values = self._run(finish, map(decode, states.to_list()))
        try:
            return pl.Series(states.name, values, dtype=dtype)
        except (TypeError, pl.exceptions.PolarsError) as error:
            wrong = f"{self.name}: finish() gave a value that is no {dtype}: {found_in(error)}"
            raise OperatorFault(wrong, hint="return a value of the declared type, or None") from error

    def _states(self, column: pl.Series, work: Callable[[list[Any]], Any]) -> pl.Series:
        states = self._run(work, column.to_list())
        try:
            return pl.Series(column.name, [msgspec.msgpack.encode(state) for state in states], dtype=pl.Binary)
        except (TypeError, OverflowError) as error:
            raise OperatorFault(
                f"{self.name}: a state cannot be kept: {error}",
                hint="use numbers, strings, bytes, lists and dicts only",
            ) from error

    def _run(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        try:
            return [work(item) for item in items]
        except RAISED as error:  # the user's code may raise anything
            raise OperatorFault(f"{self.name} failed: {text_of(error)}", hint="see the class's own code") from error


def load(name: str) -> UserAggregate:
    """Import 'python:module:Class' and make one object of it."""
    hint = "the module must be importable on every worker"
    class_ = PythonTarget.parse_prefixed(name).load("the aggregate", error=OperatorFault, hint=hint)
    try:
        made = class_()
    except RAISED as error:  # the user's code may raise anything
        fault = OperatorFault(
            f"cannot make the aggregate {name!r}: {text_of(error)}",
            hint="its class must have a constructor without arguments",
        )
        fault.lacks_code = True
        raise fault from error
    missing = [method for method in ("zero", "add", "merge", "finish") if not callable(getattr(made, method, None))]
    if missing:
        fault = OperatorFault(
            f"the aggregate {name!r} lacks {', '.join(missing)}()", hint="define zero, add, merge and finish"
        )
        fault.lacks_code = True
        raise fault
    return UserAggregate(name, cast(Definition, made))
