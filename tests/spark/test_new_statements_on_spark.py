"""INSERT INTO, statement sets, windows with an offset and sketches: over restarts, replacements and refreshes."""

import datetime as dt
import re

import polars as pl
import pytest

from headrace.errors import HostFault
from headrace.session import Message, Session
from headrace.testing.watching import until

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
SCRIPT = """
CREATE STREAM bids (at TIMESTAMP, item INT, price INT) TIMESTAMP BY at FROM FILES (path '{0}/bids', format 'parquet');
CREATE TABLE names (item INT, name STRING) FROM FILES (path '{0}/names.csv') REFRESH 1 HOUR;
CREATE TABLE counts (item INT, n BIGINT, until TIMESTAMP)
  WITH ('connector' = 'filesystem', 'path' = '{0}/counts', 'format' = 'parquet');
CREATE SINK named INTO FILES (path '{0}/named');
CREATE SINK totals INTO MEMORY (key 'item');
EXECUTE STATEMENT SET BEGIN
INSERT INTO counts SELECT item, count(*), window_end FROM bids [RANGE 10 MINUTES OFFSET 90 SECONDS] GROUP BY item;
INSERT INTO named SELECT b.price, n.name FROM bids b JOIN names n ON b.item = n.item WHERE b.price % 100 = 0;
INSERT INTO totals SELECT item, count(*) AS n, approx_count_distinct(price) AS kinds,
  percentile_approx(price, 0.5) AS mid FROM bids GROUP BY item EMIT CHANGES STATE TTL '1 day';
END;
CREATE QUERY sketches AS SELECT item, approx_count_distinct(price) AS kinds, percentile_approx(price, 0.5) AS mid,
  window_end FROM bids [RANGE 1 DAY OFFSET 8 HOURS] GROUP BY item INTO FILES (path '{0}/sketches');
"""
ITEMS, PART = 3, 6000


def write(path, part):
    """Write a second of the stream for each price."""
    first = part * PART
    rows = [(START + dt.timedelta(seconds=i), i % ITEMS, i) for i in range(first, first + PART)]
    (path / "bids").mkdir(exist_ok=True)
    pl.DataFrame(rows, schema=["at", "item", "price"], orient="row").with_columns(
        pl.col("item", "price").cast(pl.Int32)
    ).write_parquet(path / "bids" / f"{part}.parquet")


def read(path):
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in sorted(path.rglob("*.parquet"))])


def counted(session):
    return sum(row["n"] for row in session.results("into_totals"))


def test_new_statements_go_on_over_restarts_replacements_and_refreshes(spark, tmp_path):
    script = SCRIPT.format(tmp_path)
    first, _, last = script.partition("CREATE QUERY sketches AS SELECT item, ")
    changed = f"CREATE OR REPLACE QUERY sketches AS SELECT item + 1 AS next, item, {last}"
    (tmp_path / "names.csv").write_text("item,name\n0,old\n1,old\n2,old\n")
    write(tmp_path, 0)
    with Session(tmp_path / "state", buckets=2) as session:
        session.execute(script)
        until(lambda: counted(session) == PART - 1)  # the last second may go on
        with Session(tmp_path / "state") as second, pytest.raises(HostFault, match="in use"):
            second.execute("INSERT INTO totals SELECT item, count(*) AS n FROM bids [NOW] GROUP BY item")

    with Session(tmp_path / "state", buckets=2) as session:  # in the middle of all windows
        said = [outcome.text for outcome in session.execute(script) if isinstance(outcome, Message)]
        assert all(text.endswith("already exists") for text in said), said
        (tmp_path / "names.csv").write_text("item,name\n0,new\n1,new\n2,new\n")
        session.execute("REFRESH TABLE names")
        until(lambda: "new" in str(session.execute("SELECT name FROM names")))
        session.execute(
            f"DROP QUERY into_named; CREATE OR REPLACE SINK named INTO FILES (path '{tmp_path}/renamed');"
            + "".join(re.findall(r"INSERT INTO named [^;]+", script))
        )
        session.execute(changed)
        write(tmp_path, 1)
        until(lambda: counted(session) == 2 * PART - 1)
        session.drain(60)
        totals = {row["item"]: row for row in session.results("into_totals")}

    with Session(tmp_path / "state", buckets=2) as session:  # again, after all is done
        session.execute(first.replace(f"{tmp_path}/named", f"{tmp_path}/renamed") + changed)
        session.drain(60)

    counts = read(tmp_path / "counts")
    assert counts.height == counts.unique(["item", "until"]).height
    assert counts["n"].sum() == 2 * PART
    assert {(end - START).total_seconds() % 600 for end in counts["until"]} == {90.0}
    assert counts.filter(pl.col("until") == START + dt.timedelta(seconds=690))["n"].to_list() == [200] * ITEMS
    assert sorted(read(tmp_path / "named").rows()) == [(price, "old") for price in range(0, PART, 100)]
    assert sorted(read(tmp_path / "renamed").rows()) == [(price, "new") for price in range(PART, 2 * PART, 100)]
    sketches = read(tmp_path / "sketches").sort("item")
    assert sketches["window_end"].to_list() == [START + dt.timedelta(hours=8)] * ITEMS
    for item, kinds, middle in sketches.select("item", "kinds", "mid").rows():
        assert kinds == pytest.approx(2 * PART / ITEMS, rel=0.08)
        assert middle == pytest.approx(PART, rel=0.02)
        assert (totals[item]["kinds"], totals[item]["mid"]) == (kinds, middle)
