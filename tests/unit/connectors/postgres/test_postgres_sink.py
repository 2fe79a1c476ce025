"""POSTGRES sinks: each result is in the table once, and with a key the table is what the changes make of it."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.catalog.definitions import Connector
from headrace.connectors.kinds import check_sink
from headrace.connectors.postgres.sink import PostgresSink
from headrace.errors import HeadraceError, SinkFault
from headrace.model.page import Page, page_of
from headrace.model.schema import Schema
from headrace.model.types import ArrayType, DecimalType, StructType, Type

psycopg = pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed: tests/postgres/setup")

PAIRS = Schema.of(k=Type.STRING, v=Type.BIGINT)
LOG = Schema.of(k=Type.STRING, v=Type.BIGINT, change=Type.STRING)


def connector(database: str, **options: str) -> Connector:
    return Connector("POSTGRES", {"url": database, "table": "results", "timeout": "5 seconds", **options})


def asked(database: str, query: str = "SELECT * FROM results ORDER BY 1, 2") -> list[tuple[Any, ...]]:
    with psycopg.connect(database, autocommit=True) as connection:
        cursor = connection.execute(query)
        return list(cursor) if cursor.description else []


def pages(*rows: tuple[Any, ...], schema: Schema = PAIRS) -> list[Page]:
    return [page_of(schema, [dict(zip(schema.names, row, strict=True)) for row in rows], range(len(rows)))]


@pytest.fixture
def sink(database: str, tmp_path: Path) -> Iterator[Callable[..., PostgresSink]]:
    opened = []

    def make(schema: Schema = PAIRS, **options: str) -> PostgresSink:
        opened.append(PostgresSink("q", connector(database, **options), schema, tmp_path))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_values_of_every_type_come_back(database: str, sink: Callable[..., PostgresSink]) -> None:
    schema = Schema.of(
        a=Type.INT,
        b=Type.BIGINT,
        c=Type.FLOAT,
        d=Type.DOUBLE,
        e=Type.STRING,
        f=Type.DATE,
        g=Type.TIMESTAMP,
        h=Type.INTERVAL,
        i=Type.BINARY,
        j=Type.BOOLEAN,
        k=DecimalType(20, 4),
        l=ArrayType(Type.INT),
        m=StructType((("x", Type.STRING), ("y", Type.DOUBLE))),
    )
    first = {
        "a": -(2**31), "b": 2**63 - 1, "c": 0.5, "d": -1e300, "e": 'a,"b"\r\n\\N\\.', "f": dt.date(1, 1, 1),
        "g": dt.datetime(9999, 12, 31, 23, 59, 59, 999999), "h": dt.timedelta(days=-3, microseconds=7),  # noqa: DTZ001
        "i": b"\x00\xff", "j": True, "k": Decimal("-1234567890123456.7891"), "l": [1, None, 3],
        "m": {"x": 'a "quote"', "y": 2.5},
    }  # fmt: skip
    second = dict.fromkeys(schema.names) | {"e": "", "d": float("inf")}
    frame = pl.DataFrame([first, second], schema=schema.polars()).with_columns(pl.lit(0).alias("__ts"))
    sink(schema).write(0, [Page(frame)])
    full, empty = asked(database, "SELECT * FROM results ORDER BY a NULLS LAST")
    utc = first["g"].replace(tzinfo=dt.UTC)  # type: ignore[attr-defined]
    assert full == tuple((first | {"g": utc}).values())
    assert empty == tuple(second.values())


def test_a_micro_batch_that_is_written_again_is_there_once(database: str, sink: Callable[..., PostgresSink]) -> None:
    first = sink()
    first.write(3, pages(("a", 1)))
    first.write(3, pages(("a", 1)))
    first.close()
    again = sink()  # as after a crash
    again.write(3, pages(("a", 1)))
    again.write(5, pages(("b", 2), ("b", 2)))
    assert asked(database) == [("a", 1), ("b", 2), ("b", 2)]


def test_another_checkpoint_counts_for_itself(database: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        opened = PostgresSink("q", connector(database), PAIRS, tmp_path / name)
        opened.write(0, pages((name, 1)))
        opened.close()
    assert asked(database) == [("one", 1), ("other", 1)]


@pytest.mark.parametrize("seed", range(3))
def test_a_table_by_key_is_what_its_changes_make_of_it(
    seed: int, database: str, sink: Callable[..., PostgresSink]
) -> None:
    draw, table, log = random.Random(seed), {}, []
    for _ in range(300):
        key = draw.choice("abcdefg") if draw.random() < 0.9 else ""
        value: Any = None if draw.random() < 0.1 else draw.randrange(-5, 5)
        if key not in table:
            log.append((key, value, "insert"))
        elif draw.random() < 0.3:
            log.append((key, table.pop(key), "delete"))
            continue
        else:
            log += [(key, table[key], "update_before"), (key, value, "update_after")]
        table[key] = value
    batch = 0
    while log:
        size = draw.randrange(1, 60)
        opened = sink(LOG, key="k")
        for _ in range(draw.choice((1, 1, 2))):
            opened.write(batch, pages(*log[:size], schema=LOG))
        log, batch = log[size:], batch + 1
        opened.close()
    assert dict(asked(database)) == table


def test_of_results_without_changes_the_newest_of_a_key_stays(database: str, sink: Callable[..., PostgresSink]) -> None:
    opened = sink(key="k")
    opened.write(0, pages(("a", 1), ("b", 2), ("a", 3)))
    opened.write(1, pages(("b", 4)))
    assert asked(database) == [("a", 3), ("b", 4)]


def test_a_key_of_all_columns_is_a_set(database: str, sink: Callable[..., PostgresSink]) -> None:
    opened = sink(key="v, k")
    opened.write(0, pages(("a", 1), ("a", 1), ("b", 2)))
    opened.write(1, pages(("a", 1)))
    assert asked(database) == [("a", 1), ("b", 2)]


def test_what_the_table_cannot_hold_is_named(database: str, sink: Callable[..., PostgresSink]) -> None:
    opened = sink(LOG, key="k")
    rows = [
        ("a", 1, "insert"),
        (None, 1, "insert"),
        ("b\0", 1, "insert"),
        ("c", 1, "removed"),
        ("d" * 2001, 1, "delete"),
    ]
    (page,) = pages(*rows, schema=LOG)
    why = opened.refused(page.visible())
    assert why is not None
    assert why.to_list() == [
        None,
        "column 'k' is NULL, and the table holds none there",
        "column 'k' has a NUL character",
        "column 'change' is 'removed', none of insert, update_before, update_after, delete",
        "the key has more than 2,000 bytes",
    ]
    (fine,) = pages(("a", 1, "insert"), ("é" * 1000, None, "delete"), schema=LOG)
    assert opened.refused(fine.visible()) is None
    opened.write(0, [fine])


def test_a_key_that_nothing_can_shorten_fits_into_the_index(database: str, sink: Callable[..., PostgresSink]) -> None:
    draw = random.Random(5)
    key = "".join(chr(draw.randrange(33, 126)) for _ in range(2000))
    opened = sink(key="k")
    opened.write(0, pages((key, 1)))
    assert asked(database) == [(key, 1)]


def test_a_connection_that_breaks_is_made_again(database: str, sink: Callable[..., PostgresSink]) -> None:
    opened = sink()
    opened.write(0, pages(("a", 1)))
    asked(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace'")
    opened.write(1, pages(("b", 2)))
    assert asked(database) == [("a", 1), ("b", 2)]


def test_a_locked_table_is_a_fault_in_bounded_time_and_nothing_is_lost(
    database: str, sink: Callable[..., PostgresSink]
) -> None:
    opened = sink(timeout="300 ms")
    opened.write(0, pages(("a", 1)))
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE results IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SinkFault, match="lock timeout"):
            opened.write(1, pages(("b", 2)))
    opened.write(1, pages(("b", 2)))
    assert asked(database) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("made", "key", "message"),
    [
        ("CREATE TABLE results (k text)", None, "has no column v"),
        ("CREATE TABLE results (k text, v integer)", None, "column v is integer, which does not hold every BIGINT"),
        (
            "CREATE TABLE results (k varchar(9), v bigint)",
            None,
            "character varying(9), which does not hold every",
        ),
        ("CREATE TABLE results (k text, v bigint, w int NOT NULL)", None, "column w must not be NULL"),
        ("CREATE TABLE results (k text, v bigint CHECK (v > 0))", None, "has the constraint results_v_check"),
        ("CREATE TABLE results (k text PRIMARY KEY, v bigint)", None, "has the unique index results_pkey"),
        ("CREATE TABLE results (k text, v bigint)", "k", "has no unique index on its key (k)"),
        ("CREATE VIEW results AS SELECT 'a' AS k, 1::bigint AS v", None, "is no table"),
    ],
)
def test_a_table_that_may_refuse_results_is_refused_before_there_are_any(
    made: str, key: str | None, message: str, database: str
) -> None:
    asked(database, made)
    with pytest.raises(SinkFault) as caught:
        check_sink("q", connector(database, **({} if key is None else {"key": key})), PAIRS)
    assert message in str(caught.value)


def test_a_table_of_somebody_else_that_holds_every_result_is_taken(
    database: str, sink: Callable[..., PostgresSink]
) -> None:
    asked(
        database,
        "CREATE TABLE results (id bigserial PRIMARY KEY, v numeric NOT NULL, k varchar, at timestamptz DEFAULT now())",
    )
    check_sink("q", connector(database), PAIRS)
    opened = sink()
    (page,) = pages(("a", 1), ("b", None))
    why = opened.refused(page.visible())
    assert why is not None
    assert why.to_list() == [None, "column 'v' is NULL, and the table holds none there"]
    opened.write(0, pages(("a", 1), (None, 2)))
    assert asked(database, "SELECT id, k, v FROM results ORDER BY 1") == [(1, "a", 1), (2, None, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "mysql://localhost/x"}, "must begin with postgresql://"),
        ({"url": "postgresql://127.0.0.1:1/x"}, "results cannot be written to the table results"),
        ({"table": "a.b.c"}, "is not a name"),
        ({"key": "w"}, "the query has no column 'w'"),
        ({"key": "k, k"}, "names a column twice"),
        ({"keys": "k"}, "has no option 'keys'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str, database: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        check_sink("q", connector(database, **options), PAIRS)
    assert message in str(caught.value)


def test_a_check_leaves_nothing_behind(database: str) -> None:
    check_sink("q", connector(database, key="k"), LOG)
    assert asked(database, "SELECT to_regclass('results'), to_regclass('headrace_deliveries')") == [(None, None)]
