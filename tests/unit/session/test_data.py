"""Rows of every kind that programs have go in, and results come out as they like them."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pytest

from headrace.errors import HeadraceError, NameFault, SourceFault
from headrace.session import Session

pd: Any = importlib.import_module("pandas")
AT = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001
BID = {"at": AT, "item": 1, "price": 9.5}


@dataclasses.dataclass
class Bid:
    at: datetime.datetime
    item: int
    price: float


class Pair(NamedTuple):
    item: int
    at: datetime.datetime


KINDS: dict[str, Any] = {
    "dictionaries": [BID],
    "tuples": [(AT, 1, 9.5)],
    "lists": [[AT, 1, 9.5]],
    "data classes": [Bid(AT, 1, 9.5)],
    "Polars": pl.DataFrame([BID]),
    "lazy Polars": pl.LazyFrame([BID]),
    "Arrow": pa.Table.from_pylist([BID]),
    "an Arrow batch": pa.RecordBatch.from_pylist([BID]),
    "pandas": pd.DataFrame([BID]),
    "zones": pl.DataFrame([BID]).with_columns(pl.col("at").dt.replace_time_zone("UTC")),
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path, host="local") as made:
        made.execute("CREATE STREAM bids (at TIMESTAMP, item INT, price DOUBLE) TIMESTAMP BY at FROM MEMORY")
        made.execute("CREATE QUERY all_bids AS SELECT at, item, price FROM bids INTO MEMORY")
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_this_kind_are_pushed(kind: str, session: Session) -> None:
    session.push("bids", KINDS[kind])
    session.drain()
    assert session.results("all_bids") == [BID]


def test_a_named_tuple_names_its_columns_and_others_are_null(session: Session) -> None:
    session.push("bids", [Pair(3, AT)])
    session.push("bids", pl.DataFrame({"at": [AT]}))
    session.push("bids", pl.DataFrame({"at": []}))
    session.drain()
    assert [(row["item"], row["price"]) for row in session.results("all_bids")] == [(3, None), (None, None)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(AT, 1)], "row 0 has 2 values, and the stream has 3 columns"),
        ([BID, 7], "row 1 is an int, which has no columns"),
        ({"at": AT, "item": 1}, "one row alone is pushed"),
        (pl.DataFrame({"at": [AT], "itm": [1]}), "stream bids has no column 'itm'"),
        (pl.DataFrame({"at": [AT], "item": ["one"]}), "column item is String, which is no INT"),
        (pl.DataFrame({"at": [AT, AT], "item": [1, 2**40]}), "row 1: column item: 1099511627776 is not an INT"),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_pushed(rows: Any, says: str, session: Session) -> None:
    with pytest.raises(HeadraceError, match=says):
        session.push("bids", rows)
    session.drain()
    assert session.results("all_bids") == []


def test_results_are_tables_of_other_libraries(session: Session) -> None:
    session.push("bids", [BID])
    session.drain()
    assert session.results("all_bids", "polars").rows(named=True) == [BID]
    assert session.results("all_bids", "arrow").to_pylist() == [BID]
    assert session.results("all_bids", "pandas").to_dict("records") == [BID]
    with pytest.raises(NameFault):
        session.results("no_bids", "polars")


def test_an_empty_table_has_columns(session: Session) -> None:
    session.drain()
    assert session.results("all_bids", "polars").schema == {
        "at": pl.Datetime("us"),
        "item": pl.Int32,
        "price": pl.Float64,
    }


def test_results_are_followed_as_they_come(session: Session) -> None:
    followed = session.follow("all_bids", timeout=30)
    session.push("bids", [BID])
    assert next(followed) == BID
    session.push("bids", [{**BID, "item": 2}])
    assert next(followed)["item"] == 2
    assert list(session.follow("all_bids", timeout=0)) == []


def test_results_are_followed_in_a_loop_of_asyncio(session: Session) -> None:
    async def first() -> dict[str, Any]:
        followed = session.follow_async("all_bids", timeout=30)
        session.push("bids", [BID])
        return await anext(followed)

    assert asyncio.run(first()) == BID


def test_a_function_gets_the_table_of_each_micro_batch(session: Session) -> None:
    tables: list[pl.DataFrame] = []
    session.for_each_batch("all_bids", lambda table, batch: tables.append(table.with_columns(batch=batch)))
    session.push("bids", [BID])
    session.drain()
    assert [table["item"].to_list() for table in tables] == [[1]]


def test_a_column_of_the_index_of_pandas_is_taken(session: Session) -> None:
    session.push("bids", pd.DataFrame([BID]).set_index("at"))
    session.drain()
    assert session.results("all_bids") == [BID]


def test_what_is_missing_in_pandas_is_null_and_scalars_of_numpy_are_values(session: Session) -> None:
    np: Any = importlib.import_module("numpy")
    session.push("bids", [{"at": np.datetime64("2026-01-01T12:00"), "item": pd.NA, "price": np.float32(9.5)}])
    session.push("bids", [{"at": AT, "item": pd.NaT}, {"at": pd.Timestamp(AT), "item": 1}])
    session.drain()
    assert [(row["at"], row["item"]) for row in session.results("all_bids")] == [(AT, None), (AT, None), (AT, 1)]


def test_nested_values_of_numpy_and_pandas_are_pushed() -> None:
    np: Any = importlib.import_module("numpy")
    rows: list[dict[str, Any]] = [
        {"xs": np.array([1, 2]), "s": {"n": np.int64(3), "d": AT}, "raw": bytearray(b"ab")},
        {"xs": (np.int8(4), None), "ts": np.array(["2026-01-01T12:00"], dtype="datetime64[ns]")},
        {"ts": [pd.NaT, pd.Timestamp("2026-01-01T13:00", tz="Europe/Paris")], "s": {"d": pd.NaT}},
    ]
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM m (xs ARRAY<INT>, s STRUCT<n: INT, d: DATE>, raw BINARY, ts ARRAY<TIMESTAMP>) FROM MEMORY;"
            "CREATE QUERY q AS SELECT * FROM m INTO MEMORY"
        )
        session.push("m", rows)
        with pytest.raises(SourceFault, match="row 0: column xs"):
            session.push("m", [{"xs": np.array([1.5])}])
        session.drain()
        assert [tuple(row.values()) for row in session.results("q")] == [
            ([1, 2], {"n": 3, "d": AT.date()}, b"ab", None),
            ([4, None], None, None, [AT]),
            (None, {"n": None, "d": None}, None, [None, AT]),
        ]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"at": pd.to_datetime(["2026-01-01T17:30:00+05:30"]), "item": [1]}),
        pa.table({"at": pa.array([AT]).cast(pa.timestamp("ms", "-03:00")), "item": [1]}),
        pa.table({"at": [AT], "item": pa.RunEndEncodedArray.from_arrays([1], [1])}),
        pa.table({"at": [AT], "item": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8()))}),
    ],
)
def test_tables_with_types_that_polars_does_not_read_are_pushed(table: Any, session: Session) -> None:
    session.push("bids", table)
    session.drain()
    assert [(row["at"], row["item"]) for row in session.results("all_bids")] == [(AT, 1)]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        7,
        pa.table([pa.array([1]), pa.array([2])], names=["item", "item"]),
        pa.chunked_array([[1, 2]]),
        pd.DataFrame([[1, 2]], columns=["item", "item"]),
        pd.DataFrame({"item": ["one", 2]}),
        pd.DataFrame({"item": [object()]}),
        pd.DataFrame({"price": [1j]}),
    ],
)
def test_what_is_no_table_is_refused_with_a_hint(rows: Any, session: Session) -> None:
    with pytest.raises(SourceFault) as refused:
        session.push("bids", rows)
    assert refused.value.hint
    session.drain()
    assert session.results("all_bids") == []


def test_a_batch_without_results_is_not_given_to_a_function(session: Session) -> None:
    given: list[int] = []
    session.for_each_batch("all_bids", lambda table, batch: given.append(table.height))
    session.push("bids", [BID])
    session.wait(0.1)
    session.drain()
    assert given == [1]
    assert session.statistics().queries["all_bids"].subscriber_errors == 0
