"""SELECT on tables alone: DuckDB's answers, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.errors import HeadraceError
from headrace.session import Listing, Session

FILES = {
    "people": ("id INT, city STRING, age INT", "id,city,age\n1,Bern,30\n2,Bern,\n3,Basel,40\n4,,20\n"),
    "lands": ("city STRING, land STRING", "city,land\nBern,BE\nGenf,GE\n"),
    "nobody": ("id INT", "id\n"),
}
STATEMENTS = [
    "SELECT * FROM people ORDER BY id",
    "SELECT id, age * 2 AS twice FROM people WHERE age IS NULL OR age > 25 ORDER BY twice DESC NULLS LAST, id LIMIT 2",
    "SELECT count(*) AS n, avg(age) AS mean, count(age) AS known FROM people",
    "SELECT count(*) AS n, max(id) AS most FROM nobody",
    "SELECT max(id) AS most FROM nobody HAVING count(*) > 0",
    "SELECT city, count(*) AS n FROM people GROUP BY city HAVING count(*) > 1 ORDER BY city",
    "SELECT p.id, l.land FROM people p FULL JOIN lands l ON p.city = l.city ORDER BY id NULLS FIRST",
    "SELECT p.id, l.land FROM people p RIGHT JOIN lands l ON p.city = l.city ORDER BY id NULLS FIRST, land",
    "SELECT DISTINCT city FROM people ORDER BY city NULLS FIRST",
    "SELECT id FROM people WHERE city IN (SELECT city FROM lands) ORDER BY id LIMIT 1 OFFSET 1",
    "SELECT id FROM people p WHERE NOT EXISTS (SELECT * FROM lands l WHERE l.city = p.city) ORDER BY id",
    "SELECT max(n) AS most FROM (SELECT city, count(*) AS n FROM people GROUP BY city) x",
    "SELECT city FROM people UNION ALL SELECT city FROM lands ORDER BY city NULLS FIRST",
    "WITH x AS (SELECT city, max(age) AS top FROM people GROUP BY city) "
    "SELECT p.id FROM people p JOIN x ON p.city = x.city AND p.age = x.top ORDER BY id",
    "SELECT city, count(*) AS n FROM people GROUP BY ROLLUP (city) ORDER BY n, city NULLS FIRST",
    "SELECT p.id, q.id AS other FROM people p, people q WHERE p.age < q.age ORDER BY id, other",
    "SELECT id FROM people ORDER BY age DESC NULLS LAST, id LIMIT 3",
    "SELECT p.id FROM people p ORDER BY p.age * -1 NULLS FIRST, p.id",
    "SELECT n FROM (SELECT count(*) AS n FROM people) x WHERE 1 = 2",
    "SELECT n, id FROM (SELECT count(*) AS n FROM nobody) x LEFT JOIN people p ON p.id = x.n WHERE 'a' = 'b'",
    "SELECT sum(id) AS s FROM (SELECT id, age FROM people ORDER BY age DESC NULLS LAST, id LIMIT 2) x",
    "SELECT id FROM (SELECT id FROM people ORDER BY id DESC LIMIT 1 OFFSET 1) x "
    "UNION SELECT n FROM (SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY n DESC, city LIMIT 1) y "
    "ORDER BY id",
    "SELECT id, NULL AS land FROM people WHERE id < 2 UNION ALL SELECT NULL, land FROM lands ORDER BY land NULLS FIRST",
    "SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY sum(age) DESC NULLS LAST, n + 1",
    "SELECT city FROM people UNION SELECT city FROM lands ORDER BY city NULLS FIRST",
    "SELECT city FROM people UNION SELECT city FROM lands UNION ALL SELECT 'x' FROM lands ORDER BY city NULLS FIRST",
    "SELECT count(*) AS n FROM (SELECT city FROM people UNION SELECT city FROM lands) x",
    "SELECT id, row_number() OVER (PARTITION BY city ORDER BY age DESC, id) AS place FROM people ORDER BY id",
    "SELECT id, sum(age) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM people ORDER BY id",
    "SELECT city, rank() OVER (ORDER BY count(*) DESC) AS r FROM people GROUP BY city ORDER BY r, city NULLS FIRST",
    "SELECT id FROM people QUALIFY row_number() OVER (PARTITION BY city ORDER BY id DESC) = 1 ORDER BY id",
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "checkpoint", host="local") as made:
        for name, (columns, text) in FILES.items():
            (tmp_path / f"{name}.csv").write_text(text)
            made.execute(f"CREATE TABLE {name} ({columns}) FROM FILES (path '{tmp_path}/{name}.csv')")
        made.execute("CREATE STREAM s (id INT) FROM MEMORY")
        yield made


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    (listing,) = session.execute(text)
    assert isinstance(listing, Listing)
    return list(listing.rows)


def test_it_gives_what_duckdb_gives(session: Session, tmp_path: Path) -> None:
    other = duckdb.connect()
    for name, (columns, _) in FILES.items():
        other.execute(f"CREATE TABLE {name} ({columns})")
        other.execute(f"INSERT INTO {name} SELECT * FROM read_csv('{tmp_path}/{name}.csv', header = true)")
    for text in STATEMENTS:
        assert rows(session, text) == other.execute(text).fetchall(), text


def test_a_table_is_read_again_each_time(session: Session, tmp_path: Path) -> None:
    assert rows(session, "SELECT count(*) AS n FROM lands") == [(2,)]
    (tmp_path / "lands.csv").write_text("city,land\nBern,BE\n")
    assert rows(session, "SELECT count(*) AS n FROM lands") == [(1,)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT rowtime FROM people", "a table has no rowtime"),
        ("SELECT DISTINCT id FROM people ORDER BY age", "ORDER BY of a UNION or of SELECT DISTINCT names columns"),
        ("SELECT id FROM people ORDER BY 2", "SELECT has no column 2"),
        ("SELECT id FROM people INTO MEMORY", "a SELECT on tables alone has no INTO"),
        ("SELECT id FROM people [RANGE 1 MINUTE]", "cannot have a window"),
        ("CREATE QUERY q AS SELECT id FROM people", "a continuous query cannot read only the stored table 'people'"),
        ("CREATE VIEW v AS SELECT id FROM people", "a continuous query cannot read only the stored table 'people'"),
    ],
)
def test_what_a_table_lacks_is_told(session: Session, text: str, says: str) -> None:
    with pytest.raises(HeadraceError, match=says):
        session.execute(text)


def test_rowtime_is_told_in_every_part(session: Session) -> None:
    with pytest.raises(HeadraceError, match="a table has no rowtime"):
        session.execute("SELECT id, age FROM people UNION SELECT id, extract(year FROM rowtime) FROM people")


def test_explain_shows_its_plan(session: Session) -> None:
    text = "SELECT city, count(*) AS n FROM people GROUP BY city ORDER BY n"
    (message,) = session.execute(f"EXPLAIN {text}")
    assert "Scan people (id, city, age)" in str(message)
    assert "answered at once" in session.explain(text)
