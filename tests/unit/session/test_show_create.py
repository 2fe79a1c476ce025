"""SHOW CREATE gives the statement that defined something."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.session import Listing, Session

STATEMENTS = {
    "STREAM bids": "CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at FROM MEMORY",
    "VIEW dear": "CREATE VIEW dear AS SELECT item FROM bids WHERE item > 3",
    "QUERY counts": "CREATE QUERY counts AS SELECT count(*) AS n FROM bids [RANGE 1 MINUTE] INTO MEMORY",
    "SINK bids": "CREATE SINK bids INTO MEMORY",
    "RULE watch": "CREATE RULE watch ON dear DO INSERT INTO MEMORY",
    "SINK kept": "CREATE SINK kept INTO POSTGRES (dsn 'postgresql://ann:opensesame@localhost/db', table 'kept')",
}


def shown(session: Session, text: str) -> str:
    (listing,) = session.execute(text)
    assert isinstance(listing, Listing)
    assert listing.columns == ("statement",)
    ((statement,),) = listing.rows
    return str(statement)


def test_it_gives_what_was_written_without_secrets(tmp_path: Path) -> None:
    with Session(tmp_path / "state", host="local") as session:
        session.execute(";\n".join(STATEMENTS.values()))
    with Session(tmp_path / "state", host="local") as session:
        for named, statement in STATEMENTS.items():
            assert shown(session, f"SHOW CREATE {named}") == statement.replace("opensesame", "***")
        assert shown(session, "show create bids") == STATEMENTS["STREAM bids"]
        assert shown(session, "SHOW CREATE kept") == STATEMENTS["SINK kept"].replace("opensesame", "***")
        session.execute("CREATE OR REPLACE VIEW dear AS SELECT item FROM bids WHERE item > 9")
        assert shown(session, "SHOW CREATE TABLE dear").endswith("item > 9")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SHOW CREATE bids.late", "'bids.late' has no statement of its own"),
        ("SHOW CREATE SINK dear", "'dear' does not exist"),
        ("SHOW CREATE VIEW nothing", "'nothing' does not exist"),
        ("SHOW CREATE", "expected a name"),
    ],
)
def test_what_has_no_statement_is_told(text: str, says: str) -> None:
    with Session(host="local") as session:
        session.execute(f"{STATEMENTS['STREAM bids']}; {STATEMENTS['VIEW dear']}; DROP VIEW dear")
        with pytest.raises(HeadraceError, match=says):
            session.execute(text)
