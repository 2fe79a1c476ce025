"""Where missing values are looked up: the rows of a stored table, or a Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import polars as pl
from msgspec import UNSET, Struct, UnsetType

from headrace.errors import OperatorFault, found_in
from headrace.model.python_target import RAISED, PythonTarget, text_of
from headrace.model.schema import Schema
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.expressions.lookup import candidates
from headrace.operators.tables import stored_table


class Archive(Protocol):
    """Gives a value for each key; NULL if it has none."""

    def look_up(self, keys: Sequence[pl.Series], dtype: pl.DataType) -> pl.Series: ...


class StoredRows(Struct, frozen=True, tag="stored_rows"):
    """The rows of a table as an Arrow IPC stream, or by digest; `column` has the values, `keys` are compared.

    Of several rows the first counts.
    """

    rows: bytes
    schema: Schema
    keys: tuple[str, ...]
    column: str
    digest: str | UnsetType = UNSET  # not NULL, so that vertices of others are called as ever
    table: str | UnsetType = UNSET  # whose rows those of the version in force are (`commands.tables`)

    def open(self) -> Archive:
        return _Table(self)

    @property
    def portion(self) -> int | None:
        return None  # as quick as any operator


class PythonFunction(Struct, frozen=True, tag="python_function"):
    """A function of the keys, as 'module:function'.

    It is called once for each key of which a value is missing in a page.
    """

    target: str

    def open(self) -> Archive:
        return _Function(self.target)

    @property
    def portion(self) -> int | None:
        return 64  # a look-up may take long, and feedback that comes meanwhile should spare the next ones


ArchiveSpec: TypeAlias = StoredRows | PythonFunction


class _Table:
    def __init__(self, spec: StoredRows) -> None:
        types = spec.schema.polars()
        table = stored_table(spec.rows, spec.digest).select([pl.col(name).cast(type_) for name, type_ in types.items()])
        table = table.drop_nulls([spec.column, *spec.keys])
        hashes = hash_columns([table[name] for name in spec.keys])
        order = np.argsort(hashes, kind="stable")  # rows of one key stay in their order
        self._hashes = hashes[order]
        self._keys = [table[name].gather(order) for name in spec.keys]
        self._values = table[spec.column].gather(order)

    def look_up(self, keys: Sequence[pl.Series], dtype: pl.DataType) -> pl.Series:
        left, right = candidates(self._hashes, hash_columns(list(keys)))
        agree = np.ones(len(left), dtype=bool)
        for ours, theirs in zip(keys, self._keys, strict=True):
            agree &= (ours.gather(left) == theirs.gather(right)).fill_null(False).to_numpy()
        rows, first = np.unique(left[agree], return_index=True)
        values = pl.Series([None], dtype=dtype).new_from_index(0, len(keys[0]))
        return values.scatter(rows, self._values.gather(right[agree][first]).cast(dtype)) if len(rows) else values


class _Function:
    def __init__(self, target: str) -> None:
        self._target, self._function = target, load(target)

    def look_up(self, keys: Sequence[pl.Series], dtype: pl.DataType) -> pl.Series:
        frame = pl.DataFrame([key.alias(str(i)) for i, key in enumerate(keys)]).with_row_index("__row")
        names = [str(i) for i in range(len(keys))]
        known = frame.drop_nulls(names)
        distinct = known.select(names).unique(maintain_order=True)
        values = [self._call(key) for key in distinct.rows()]
        try:
            column = pl.Series("__value", values, dtype=dtype)
        except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
            wrong = f"{self._target} gave a value that is no {dtype}: {found_in(error)}"
            raise OperatorFault(wrong, hint="return a value of the column's type, or None") from error
        joined = known.join(distinct.with_columns(column), on=names, how="left", maintain_order="left")
        empty = pl.Series([None], dtype=dtype).new_from_index(0, frame.height)
        return empty.scatter(joined["__row"], joined["__value"]) if joined.height else empty

    def _call(self, key: tuple[Any, ...]) -> Any:
        try:
            return self._function(*key)
        except RAISED as error:  # the user's code may raise anything
            raise OperatorFault(
                f"{self._target} failed for {key}: {text_of(error)}", hint="see the function's own code"
            ) from error


def load(target: str) -> Callable[..., Any]:
    """Import 'module:function'."""
    hint = "the module must be importable on every worker"
    return PythonTarget.parse(target).load("the archive", error=OperatorFault, hint=hint)
