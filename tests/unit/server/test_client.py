"""A session in this process and one on a server: the same methods, outcomes and errors."""

from __future__ import annotations

import datetime
import math
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from tests.unit.server.conftest import SQL, Client, end, serve
from tests.unit.server.test_statements import ROWS
from typer.testing import CliRunner

import headrace
from headrace.cli.main import app
from headrace.client import RemoteSession
from headrace.errors import HeadraceError, HostFault, NameFault, NotSupported, SourceFault, SyntaxFault
from headrace.session import Listing, Message, Session, Started

TABLES = ("table", "source", "refresh", "problem")  # the columns of SHOW TABLES


class Local(Session):
    """A session whose deployment works whenever a test waits."""


@pytest.fixture(params=["in process", "on a server"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session | RemoteSession]:
    if request.param == "in process":
        with Local(tmp_path / "state", host="local") as local:
            local.execute(SQL)
            yield local
        return
    server = serve(tmp_path / "state")
    with headrace.connect(checkpoint=tmp_path / "state") as remote:
        yield remote
    end(server)


def settle(session: Session | RemoteSession, is_so: Callable[[], Any]) -> None:
    for _ in range(400):
        if is_so():
            return
        if isinstance(session, Session):
            session.wait(0.01)
        else:
            threading.Event().wait(0.02)
    raise AssertionError("it has not happened")


def test_outcomes_are_the_same(session: Session | RemoteSession) -> None:
    outcomes = session.execute(
        "CREATE VIEW v AS SELECT item FROM bids; CREATE QUERY q AS SELECT item FROM v; SHOW TABLES"
    )
    assert outcomes == [Message("view v created"), Started("q"), Listing(TABLES, ())]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT '😀' AS smile, prise FROM bids", NameFault),
        ("SHOW STREAMS;\nSELEC item", SyntaxFault),
        ("CREATE QUERY best AS SELECT item FROM bids", NameFault),
        ("CREATE TABLE t FROM FILES (path 'none.csv', format 'csv')", HeadraceError),
    ],
)
def test_errors_draw_the_same_caret(
    session: Session | RemoteSession, text: str, kind: type[HeadraceError], tmp_path: Path
) -> None:
    with pytest.raises(kind) as found:
        session.execute(text)
    with Session(tmp_path / "other", host="local") as other:
        other.execute(SQL, start=False)
        with pytest.raises(kind) as expected:
            other.execute(text)
    assert found.value.render(text) == expected.value.render(text)


def test_pushed_rows_become_results(session: Session | RemoteSession) -> None:
    session.push("bids", ROWS)
    session.push("bids", [{"item": 9, "price": 500.0, "at": datetime.datetime.fromisoformat("2026-01-01T00:01:00")}])
    settle(
        session, lambda: session.statistics().streams.get("bids") and session.statistics().streams["bids"].tuples == 4
    )
    settle(session, lambda: session.results("best"))
    assert [row["item"] for row in session.results("best")] == [1, 2, 3]
    assert session.results("best")[0]["window_end"] == datetime.datetime.fromisoformat("2026-01-01T00:00:10")
    assert session.statistics().queries["dear"].results == 3


def test_a_wrong_row_is_refused(session: Session | RemoteSession) -> None:
    with pytest.raises(NameFault, match="prise"):
        session.push("bids", [{"prise": 1}])
    with pytest.raises(SourceFault, match="row 0"):
        session.push("bids", [{"price": "much"}])


TYPED = """
CREATE STREAM typed (n INT, x DOUBLE, f FLOAT, b BINARY, i INTERVAL, d DECIMAL(10, 2), big BIGINT, at TIMESTAMP,
  day DATE, xs ARRAY<DOUBLE>, m MAP<INT, DOUBLE>, s STRUCT<x: DOUBLE, at: TIMESTAMP, d: DECIMAL(5, 1),
  many: ARRAY<BIGINT>>) TIMESTAMP INTERNAL FROM MEMORY;
CREATE QUERY same AS SELECT * FROM typed INTO MEMORY;
"""
NAN, AT = float("nan"), datetime.datetime(2026, 1, 2, 3, 4, 5, 600)  # noqa: DTZ001
TYPED_ROWS: list[dict[str, Any]] = [
    {
        "n": 1, "x": NAN, "f": float("-inf"), "b": b"\x00\xff", "i": datetime.timedelta(seconds=1.5),
        "d": Decimal("1.50"), "big": 2**62, "at": AT, "day": AT.date(), "xs": [NAN, None, math.inf, 1.5],
        "m": {1: NAN, 2: -math.inf}, "s": {"x": NAN, "at": AT, "d": Decimal("2.5"), "many": [2**62, None]},
    },
    {"n": 2, "x": math.inf, "f": 1.5, "xs": [], "m": {}, "s": {"x": None, "at": None, "d": None, "many": None}},
    {"n": 3, "x": 0.5},
]  # fmt: skip


class Bid(NamedTuple):
    item: int
    price: float


@dataclass(frozen=True)
class Offer:
    price: float
    item: int | None = None


PLAIN = """
CREATE STREAM plain (item INT, price DOUBLE) FROM MEMORY;
CREATE QUERY seen AS SELECT item, price FROM plain INTO MEMORY;
"""
SHAPES: dict[str, Any] = {
    "tuples": [(1, 2.5), (2, None)],
    "lists": [[1, 2.5], [2, None]],
    "named tuples": [Bid(1, 2.5), Bid(2, None)],  # type: ignore[arg-type]
    "data classes": [Offer(2.5, 1), Offer(None, 2)],  # type: ignore[arg-type]
    "generator": lambda: ({"item": item, "price": price} for item, price in ((1, 2.5), (2, None))),
    "polars": pl.DataFrame({"item": [1, 2], "price": [2.5, None]}),
    "lazy": pl.LazyFrame({"item": [1, 2], "price": [2.5, None]}),
    "arrow": pa.table({"item": [1, 2], "price": [2.5, None]}),
    "pandas": pd.DataFrame({"item": [1, 2], "price": [2.5, float("nan")]}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_and_tables_of_every_shape_are_pushed(session: Session | RemoteSession, shape: str) -> None:
    session.execute(PLAIN)
    session.push("plain", SHAPES[shape]() if shape == "generator" else SHAPES[shape])
    settle(session, lambda: len(session.results("seen")) == 2)
    assert session.results("seen") == [{"item": 1, "price": 2.5}, {"item": 2, "price": None}]


@pytest.mark.parametrize("rows", [{"item": 1, "price": 2.5}, [(1, 2.5), (1,)], [(1, 2.5), 7], ["ab"]])
def test_what_is_no_row_is_refused_and_nothing_is_pushed(session: Session | RemoteSession, rows: Any) -> None:
    session.execute(PLAIN)
    with pytest.raises(SourceFault) as found:
        session.push("plain", rows)
    assert found.value.hint
    session.push("plain", [(3, 1.0)])
    settle(session, lambda: session.results("seen"))
    assert session.results("seen") == [{"item": 3, "price": 1.0}]


def test_lists_in_a_table_of_pandas_are_lists(session: Session | RemoteSession) -> None:
    session.execute(
        "CREATE STREAM many (xs ARRAY<DOUBLE>) FROM MEMORY; CREATE QUERY seen AS SELECT xs FROM many INTO MEMORY"
    )
    session.push("many", pl.DataFrame({"xs": [[1.5, 2.5], None]}).to_pandas())
    settle(session, lambda: len(session.results("seen")) == 2)
    assert repr(session.results("seen")) == "[{'xs': [1.5, 2.5]}, {'xs': None}]"


def test_values_of_every_type_come_back_as_they_were_pushed(session: Session | RemoteSession) -> None:
    session.execute(TYPED)
    session.push("typed", TYPED_ROWS)
    settle(session, lambda: len(session.results("same")) == 3)
    names = list(TYPED_ROWS[0])
    expected = repr([{name: row.get(name) for name in names} for row in TYPED_ROWS])
    assert repr(sorted(session.results("same"), key=lambda row: row["n"])) == expected
    if isinstance(session, RemoteSession):
        followed = session.follow("same", after="first")
        assert repr(sorted(next(followed).rows, key=lambda row: row["n"])) == expected
        followed.close()  # type: ignore[attr-defined]


def test_a_text_is_no_number_unless_it_is_one_that_json_lacks(session: Session | RemoteSession) -> None:
    for wrong in ("nan", "1.5", "inf"):
        with pytest.raises(SourceFault):
            session.push("bids", [{"price": wrong}])
    with pytest.raises(SourceFault):
        session.push("bids", [{"item": "NaN"}])


def test_a_query_is_stopped_and_started(session: Session | RemoteSession) -> None:
    def state() -> str:
        [listing] = session.execute("SHOW QUERIES")
        assert isinstance(listing, Listing)
        return str({row[0]: row[5] for row in listing.rows}["dear"])

    session.stop_query("dear")
    assert state() == "off"
    session.start_query("dear")
    assert state() == "on"
    with pytest.raises(NameFault):
        session.stop_query("nothing")


def test_texts_are_checked_and_explained(session: Session | RemoteSession) -> None:
    assert session.check("DROP QUERY best") is True
    assert session.check("SHOW QUERIES") is False
    with pytest.raises(SyntaxFault):
        session.check("SELEC")
    assert "scan bids" in session.explain("SELECT item FROM bids")


def test_subscribers_take_results(session: Session | RemoteSession) -> None:
    taken: list[tuple[int, list[dict[str, Any]]]] = []
    session.subscribe("dear", lambda batch, rows: taken.append((batch, rows)))
    if isinstance(session, RemoteSession):
        settle(session, lambda: session.deployment()["beat"]["batch"] >= -1)
        threading.Event().wait(0.3)
    session.push("bids", ROWS)
    settle(session, lambda: taken)
    assert [row for _, rows in taken for row in rows] == [{"item": 2, "price": 110.0}, {"item": 3, "price": 120.0}]


def test_what_only_one_process_can_do_is_refused(tmp_path: Path) -> None:
    server = serve(tmp_path / "state")
    try:
        with headrace.connect(checkpoint=tmp_path / "state") as remote:
            with pytest.raises(NotSupported):
                remote.register("f", print)
            with pytest.raises(NotSupported):
                remote.drain()
        with pytest.raises(HostFault, match="opens nothing"):
            headrace.connect(server.url, "wrong").execute("SHOW QUERIES")
        with (
            Session(tmp_path / "state", host="local") as second,
            pytest.raises(HostFault, match="is served at") as found,
        ):
            second.execute("DROP QUERY best")
        assert "headrace sql" in (found.value.hint or "")
    finally:
        end(server)
    with pytest.raises(HostFault, match="does not answer"):
        headrace.connect(server.url, "x").execute("SHOW QUERIES")
    with pytest.raises(HostFault, match="no server"):
        headrace.connect(checkpoint=tmp_path / "state")


def test_the_client_imports_neither_spark_nor_polars() -> None:
    code = "import sys, headrace.client; print([m for m in ('pyspark', 'polars', 'sqlglot') if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(app, list(arguments))
    return result.exit_code, result.output


def test_commands_find_the_server_of_a_checkpoint(client: Client) -> None:
    state = str(client.server.service.directory)
    code, output = command("status", "--checkpoint", state)
    assert code == 0, output
    assert client.server.url in output
    assert "state: running" in output
    code, output = command("token", "new", "--name", "dash", "--checkpoint", state)
    token = max(output.split(), key=len)
    assert (code, len(token)) == (0, 43)
    assert RemoteSession(client.server.url, token).execute("SHOW TABLES") == [Listing(TABLES, ())]
    assert "dash" in command("token", "list", "--checkpoint", state)[1]
    assert command("token", "revoke", "--name", "dash", "--checkpoint", state)[0] == 0
    code, output = command("token", "revoke", "--name", "dash", "--checkpoint", state)
    assert code == 1
    assert "no token was made yet" in output
    result = CliRunner(env={"TERM": "dumb"}).invoke(app, ["sql", "--checkpoint", state], input="SHOW QUERIES;\n")
    assert "best" in result.output
    wrong = CliRunner(env={"TERM": "dumb"}).invoke(
        app, ["sql", "--checkpoint", state], input="SELECT prise FROM bids;\n"
    )
    assert (wrong.exit_code, "^^^^^" in wrong.output) == (2, True)
    assert "best" in command("top", "--once", "--checkpoint", state)[1]


def test_status_without_a_server(tmp_path: Path) -> None:
    code, output = command("status", "--checkpoint", str(tmp_path / "none"))
    assert (code, "is not served" in output) == (1, True)
    assert command("stop", "--checkpoint", str(tmp_path / "none"))[0] == 1


def test_a_follower_goes_on_when_the_server_dies_within_a_message() -> None:
    event = b'id: %d\nevent: results\ndata: {"batch":%d,"columns":[],"rows":[],"skipped":0}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    asked: list[str] = []

    def answer(listener: socket.socket) -> None:
        for number in (1, 2, 3):
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(65536).split()[1].decode())
                whole, cut = event % (number, number), event % (number + 1, number + 1)
                if "results" not in asked[-1]:  # whether the query is still there
                    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
                else:
                    connection.sendall(head + b"%x\r\n%s\r\n" % (len(whole), whole))
                    connection.sendall(b"%x\r\n%s" % (len(cut), cut[:20]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with RemoteSession(url, "token") as remote:
            batches = remote.follow("q", after=0, complete=True)
            assert [next(batches).number for _ in range(2)] == [1, 3]
            del batches  # closes the connection
    assert [path.rpartition("after=")[2] for path in asked if "after=" in path] == ["0", "1"]
