"""DECIMAL columns are read and written exactly."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from headrace.errors import SourceFault
from headrace.session import Session

ROWS = [{"at": f"2026-01-01 00:00:0{i}", "price": price} for i, price in enumerate(["0.10", "-19.99", "99999999.99"])]
COPY = """
CREATE STREAM s (at TIMESTAMP, price DECIMAL(10, 2)) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY q AS SELECT at, price, price * price AS squared FROM s INTO FILES (path '{path}', format '{form}');
"""


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_decimal_passes_through_files_without_loss(form: str, tmp_path: Path) -> None:
    with Session(host="local") as session:
        session.execute(COPY.format(path=tmp_path / "out", form=form))
        session.push("s", ROWS)
        session.drain()
    (written,) = sorted((tmp_path / "out").glob("part-*"))
    if form == "parquet":
        assert str(pq.read_schema(written).field("squared").type) == "decimal128(21, 4)"
    if form == "json":
        assert '"price":-19.99,"squared":399.6001' in written.read_text()
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, price DECIMAL(10, 2), squared DECIMAL(21, 4)) TIMESTAMP BY at "
            f"FROM FILES (path '{tmp_path / 'out'}/part-*', format '{form}');"
            "CREATE QUERY q AS SELECT price, squared FROM s INTO MEMORY"
        )
        session.drain()
        assert session.results("q") == [
            {"price": Decimal(row["price"]), "squared": Decimal(row["price"]) ** 2} for row in ROWS
        ]


def test_records_are_rounded_and_those_that_do_not_fit_are_bad(tmp_path: Path) -> None:
    lines = ['{"at": "2026-01-01", "p": 1.005}', '{"at": "2026-01-01", "p": "2.5"}', '{"at": "2026-01-01", "p": 1e9}']
    (tmp_path / "in.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "in.csv").write_text("at,p\n2026-01-01,1.005\n2026-01-01, 2.5\n2026-01-01,1e9\n2026-01-01,x\n")
    for form, bad in (("json", 1), ("csv", 2)):
        with Session(host="local") as session:
            session.execute(
                f"CREATE STREAM s (at TIMESTAMP, p DECIMAL(5, 2)) TIMESTAMP BY at FROM FILES "
                f"(path '{tmp_path}/in.{form}', format '{form}');"
                "CREATE QUERY q AS SELECT p FROM s INTO MEMORY; CREATE QUERY b AS SELECT reason FROM s.bad INTO MEMORY"
            )
            session.drain()
            assert [row["p"] for row in session.results("q")] == [Decimal("1.01"), Decimal("2.50")]
            reasons = [row["reason"] for row in session.results("b")]
            assert len(reasons) == bad
            assert all("is not a DECIMAL(5,2)" in reason for reason in reasons)


def test_a_decimal_of_another_scale_or_a_double_is_converted(tmp_path: Path) -> None:
    frame = pl.DataFrame({"p": [1.005, 2.0], "d": [Decimal("1.2345"), Decimal("-9.9995")]})
    frame.with_columns(at=pl.lit(0).cast(pl.Datetime("us"))).write_parquet(tmp_path / "x.parquet")
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, p DECIMAL(5, 2), d DECIMAL(6, 3)) TIMESTAMP BY at "
            f"FROM FILES (path '{tmp_path}/x.parquet', format 'parquet'); "
            "CREATE QUERY q AS SELECT p, d FROM s INTO MEMORY"
        )
        session.drain()
        assert session.results("q") == [
            {"p": Decimal("1.01"), "d": Decimal("1.235")},
            {"p": Decimal("2.00"), "d": Decimal("-10.000")},
        ]


def test_pushed_values_may_be_numbers_or_texts_and_others_are_refused() -> None:
    with Session(host="local") as session:
        session.execute(
            "CREATE STREAM s (at TIMESTAMP, p DECIMAL(5, 2)) TIMESTAMP BY at FROM MEMORY; "
            "CREATE QUERY q AS SELECT p FROM s INTO MEMORY"
        )
        values = [Decimal("1.5"), "2.675", 3, 4.125, None]
        session.push("s", [{"at": "2026-01-01", "p": value} for value in values])
        for wrong in (True, "x", 1000, float("nan")):
            with pytest.raises(SourceFault, match=r"is not a DECIMAL\(5,2\)"):
                session.push("s", [{"at": "2026-01-01", "p": wrong}])
        session.drain()
        assert [row["p"] for row in session.results("q")] == [
            Decimal("1.50"), Decimal("2.68"), Decimal("3.00"), Decimal("4.13"), None
        ]  # fmt: skip
