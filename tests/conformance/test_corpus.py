"""Every statement of the corpus gives over a finite stream what DuckDB gives over the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.expected import SEED, answers
from tests.conformance.grammar import Grammar
from tests.conformance.logic_test import STREAM, TABLE, Record, read, shown, stream_rows, table_rows

from headrace.session import Session

FILES = sorted((Path(__file__).parent / "corpus").glob("*.test"))


def differences(records: list[Record], folder: Path) -> list[str]:
    """Run statements in one deployment on this process; return those whose values are others than expected."""
    (folder / "u.json").write_text("".join(json.dumps(row) + "\n" for row in table_rows()))
    with Session(host="local", buckets=2) as session:
        session.execute(
            f"CREATE STREAM s ({STREAM}) TIMESTAMP BY at AHEAD UNLIMITED FROM MEMORY; "
            f"CREATE TABLE u ({TABLE}) FROM FILES (path '{folder / 'u.json'}', format 'json')"
        )
        names = [f"q{number}" for number in range(len(records))]
        session.execute(
            ";\n".join(f"CREATE QUERY {n} AS {r.sql} INTO MEMORY" for n, r in zip(names, records, strict=True))
        )
        session.push("s", stream_rows(SEED))
        session.drain(300)
        found = [
            shown((list(row.values()) for row in session.results(n)), r.kinds)
            for n, r in zip(names, records, strict=True)
        ]
    return [
        f"{record.sql}\n  expected {record.expected}\n  found    {values}"
        for record, values in zip(records, found, strict=True)
        if values != record.expected
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements_give_what_duckdb_gives(path: Path, tmp_path: Path) -> None:
    wrong = differences(read(path), tmp_path)
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:5])


def test_there_are_two_thousand_statements() -> None:
    assert len({record.sql for path in FILES for record in read(path)}) >= 2000


def test_the_same_seed_gives_the_same_statements() -> None:
    first, second = Grammar(3), Grammar(3)
    assert [first.statement() for _ in range(20)] == [second.statement() for _ in range(20)]


def test_a_wrong_answer_is_noticed(tmp_path: Path) -> None:
    sql = "SELECT count(*) AS n FROM s [RANGE 1 DAY]"
    (right,) = answers({sql: "I"})
    assert right is not None
    assert not differences([Record("I", sql, right)], tmp_path)
    assert differences([Record("I", sql, ("0",))], tmp_path)
