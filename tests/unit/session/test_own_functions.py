"""CREATE FUNCTION: scalar functions in Python, their life, and what happens if their code is missing or fails."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import NameFault, OperatorFault
from headrace.session import Session

STREAM = "CREATE STREAM s (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at FROM MEMORY"
ROWS = [{"at": f"1970-01-01 00:00:0{i}", "k": i if i != 2 else None, "v": i / 2} for i in range(4)]
CODE = """
import datetime
import polars as pl
import pyarrow as pa

def half(x: int) -> float | None:
    return x / 2

def halves(x: pl.Series) -> pl.Series:
    return x / 2

def short(x: pl.Series) -> pl.Series:
    return x[:1]

def text(x: int) -> str:
    return "text"

def bad(x: int) -> int:
    raise ValueError(f"no {x}")

def leave(x: int) -> int:
    raise SystemExit(3)

def texts(x: pl.Series) -> pl.Series:
    return x.cast(pl.String)

def nothing(x: pl.Series) -> pl.Series:
    return pl.Series([None] * len(x))

def lists(x: pl.Series) -> pl.Series:
    return pl.select(pl.concat_list(x)).to_series()

def span(x: int) -> datetime.timedelta:
    return datetime.timedelta(days=1)

def zoned(x: datetime.datetime) -> datetime.datetime:
    return x.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))

def two(x: int, y: int) -> int:
    return x

async def later(x: int) -> int:
    return x

def several(x: int):
    yield x

def odd(x: "Nothing") -> int:
    return x

def arrows(x: pa.Array) -> pa.Array:
    return pa.compute.divide(pa.compute.cast(x, pa.float64()), 2)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write a module of functions that statements may use."""
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "own_code.py"
    path.write_text(CODE.replace("import pyarrow as pa", "import pyarrow as pa\nimport pyarrow.compute"))
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setenv("HEADRACE_ALLOW_PYTHON", "own_code")
    yield path
    sys.modules.pop("own_code", None)


def run(session: Session, select: str) -> list[object]:
    session.execute(f"CREATE OR REPLACE QUERY q AS SELECT {select} AS x FROM s INTO MEMORY")
    session.push("s", ROWS)
    session.drain()
    return [row["x"] for row in session.results("q")]


@pytest.mark.parametrize(
    "target", ["half'", "halves' VECTORIZED", "halves' VECTORIZED POLARS", "arrows' VECTORIZED ARROW"]
)
def test_a_function_gives_a_value_for_each_row_and_null_for_null(target: str) -> None:
    with Session(host="local", page=2) as session:
        session.execute(f"{STREAM}; CREATE FUNCTION half(INT) RETURNS DOUBLE FROM PYTHON 'own_code:{target}")
        assert sorted(run(session, "coalesce(half(k), -1.0)")) == [-1.0, 0.0, 0.5, 1.5]  # type: ignore[type-var]
        assert session.execute("SHOW FUNCTIONS")[0].rows == (
            ("half", "INT", "DOUBLE", f"own_code:{target.partition(chr(39))[0]}"),
        )


def test_a_function_of_a_program_is_declared_by_its_annotations() -> None:
    import own_code  # type: ignore[import-not-found]

    with Session(host="local") as session:
        session.execute(STREAM)
        assert session.function(own_code.half) is own_code.half
        session.function(own_code.halves, name="vector", args=["INT"], returns="DOUBLE", vectorized="polars")
        assert sorted(run(session, "half(k) + vector(k)"), key=str) == [0.0, 1.0, 3.0, None]
        with pytest.raises(NameFault, match="workers cannot import"):
            session.function(lambda x: x)
        with pytest.raises(NameFault, match="does not say the types"):
            session.function(own_code.halves)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("bad' ", "'own_code:bad' failed: ValueError: no 0$"),
        ("text'", r'gave a value that is no INT: value of type String: "text"$'),
        ("short' VECTORIZED", "gave 1 values for 4 rows"),
        ("halves' VECTORIZED", r"gave a value that is no INT: 0.5$"),
        ("texts' VECTORIZED", r"gave a value that is no INT: '0'$"),
        ("leave'", "'own_code:leave' failed: SystemExit: 3$"),
    ],
)
def test_what_a_function_does_wrong_is_told_with_its_name(function: str, message: str) -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION f(INT) RETURNS INT FROM PYTHON 'own_code:{function}")
        with pytest.raises(OperatorFault) as failed:
            run(session, "f(k)")
        assert re.search(message, failed.value.message)


@pytest.mark.parametrize(
    ("returned", "function", "shown"),
    [
        ("DOUBLE", "texts' VECTORIZED", "'0'"),
        ("DECIMAL(5, 2)", "texts' VECTORIZED", "'0'"),
        ("STRING", "halves' VECTORIZED", "0.0"),
        ("BOOLEAN", "halves' VECTORIZED", "0.0"),
        ("TIMESTAMP", "halves' VECTORIZED", "0.0"),
        ("TIMESTAMP", "span'", "datetime.timedelta(days=1)"),
        ("DATE", "span'", "datetime.timedelta(days=1)"),
        ("STRUCT<a: INT>", "texts' VECTORIZED", "'0'"),
        ("ARRAY<INT>", "halves' VECTORIZED", "0.0"),
    ],
)
def test_a_value_of_another_kind_is_not_converted(returned: str, function: str, shown: str) -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION f(INT) RETURNS {returned} FROM PYTHON 'own_code:{function}")
        with pytest.raises(OperatorFault) as failed:
            run(session, "f(k)")
        assert failed.value.message.endswith(f"gave a value that is no {returned.replace(', ', ',')}: {shown}")


@pytest.mark.parametrize("returned", ["INT", "BIGINT", "DOUBLE", "STRING", "ARRAY<INT>", "STRUCT<a INT>"])
def test_a_column_of_nothing_is_null_in_each_type(returned: str) -> None:
    with Session(host="local") as session:
        session.execute(
            f"{STREAM}; CREATE FUNCTION f(INT) RETURNS {returned} FROM PYTHON 'own_code:nothing' VECTORIZED"
        )
        assert run(session, "f(k)") == [None] * 4


def test_integers_in_lists_may_have_another_width() -> None:
    with Session(host="local") as session:
        session.execute(
            f"{STREAM}; CREATE FUNCTION f(INT) RETURNS ARRAY<BIGINT> FROM PYTHON 'own_code:lists' VECTORIZED"
        )
        assert run(session, "coalesce(f(k)[0] = k, k IS NULL)") == [True] * 4


def test_a_module_that_ends_the_process_when_it_is_imported_cannot_be_loaded(module: Path) -> None:
    module.write_text("import sys; sys.exit(3)")
    with Session(host="local") as session, pytest.raises(NameFault, match=r"cannot load .* SystemExit: 3"):
        session.execute("CREATE FUNCTION f(INT) RETURNS INT FROM PYTHON 'own_code:half'")


def test_a_time_with_a_zone_is_one_in_utc() -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION f(TIMESTAMP) RETURNS TIMESTAMP FROM PYTHON 'own_code:zoned'")
        assert run(session, "hour(f(at))") == [22, 22, 22, 22]


@pytest.mark.parametrize(
    ("function", "message"),
    [("two", "cannot be called with 1 argument"), ("later", "is async"), ("several", "is async or a generator")],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(function: str, message: str) -> None:
    with Session(host="local") as session, pytest.raises(NameFault, match=message) as refused:
        session.execute(f"CREATE FUNCTION f(INT) RETURNS INT FROM PYTHON 'own_code:{function}'")
    assert refused.value.hint


@pytest.mark.parametrize("wrong", [{"args": "INT", "returns": "INT"}, {"vectorized": "numpy"}, {}])
def test_a_declaration_that_cannot_be_read_is_refused_with_a_hint(wrong: dict[str, Any]) -> None:
    import own_code

    with Session(host="local") as session, pytest.raises(NameFault) as refused:
        session.function(own_code.half if wrong else own_code.odd, **wrong)
    assert refused.value.hint


def test_a_function_can_be_replaced_and_dropped_when_no_query_calls_it() -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION f(INT) RETURNS DOUBLE FROM PYTHON 'own_code:half'")
        session.execute("CREATE QUERY q AS SELECT f(k) AS x FROM s INTO MEMORY")
        session.execute("CREATE OR REPLACE FUNCTION f(INT) RETURNS DOUBLE FROM PYTHON 'own_code:halves' VECTORIZED")
        with pytest.raises(NameFault, match="it is called by q"):
            session.execute("CREATE OR REPLACE FUNCTION f(BIGINT) RETURNS DOUBLE FROM PYTHON 'own_code:half'")
        with pytest.raises(NameFault, match="used by q"):
            session.execute("DROP FUNCTION f")
        session.execute("DROP QUERY q; DROP FUNCTION f")
        session.execute("DROP FUNCTION IF EXISTS f")
        with pytest.raises(NameFault, match="'f' does not exist"):
            session.execute("SELECT f(k) FROM s")
        session.execute("CREATE FUNCTION f(BIGINT) RETURNS DOUBLE FROM PYTHON 'own_code:half'")


def test_a_module_that_is_not_allowed_is_refused() -> None:
    with Session(host="local") as session, pytest.raises(NameFault, match="may not use the module subprocess"):
        session.execute("CREATE FUNCTION f(STRING) RETURNS STRING FROM PYTHON 'subprocess:getoutput'")


def test_code_that_is_missing_after_a_restart_fails_only_its_queries(tmp_path: Path, module: Path) -> None:
    state = tmp_path / "state"
    with Session(state, host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION f(INT) RETURNS DOUBLE FROM PYTHON 'own_code:half'")
        session.execute("CREATE QUERY q AS SELECT f(k) AS x FROM s INTO MEMORY")
        session.execute("CREATE QUERY plain AS SELECT k AS x FROM s INTO MEMORY")
    module.rename(module.with_suffix(".gone"))
    sys.modules.pop("own_code")
    with Session(state, host="local") as session:
        session.start()
        assert "own_code" in session.failed()["q"]
        session.push("s", ROWS)
        session.drain()
        assert len(session.results("plain")) == 4
    module.with_suffix(".gone").rename(module)
    with Session(state, host="local") as session:
        session.execute("START QUERY q")
        assert session.failed() == {}


def test_the_condition_of_a_rule_calls_a_function() -> None:
    with Session(host="local") as session:
        session.execute(f"{STREAM}; CREATE FUNCTION half(INT) RETURNS DOUBLE FROM PYTHON 'own_code:half'")
        session.execute("CREATE RULE r ON s WHEN half(s.k) >= 1 DO INSERT INTO MEMORY")
        session.push("s", ROWS)
        session.drain()
        assert [row["k"] for row in session.results("r")] == [3]
