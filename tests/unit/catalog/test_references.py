"""What a SELECT mentions is found in its text once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from headrace.catalog.references import references, references_in
from headrace.errors import HeadraceError
from headrace.language import dialect, parser
from headrace.language.parser import parse
from headrace.session import Session
from headrace.testing import fuzz

GOLDEN = Path(__file__).parents[2] / "golden"


def test_a_statement_with_a_long_list_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def count(tokens: object, text: str) -> object:
        parsed.append(text)
        return dialect.parse_select(tokens, text)  # type: ignore[arg-type]

    values = ", ".join(map(str, range(50)))
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (v INT, w INT) FROM MEMORY")
        monkeypatch.setattr(parser, "parse_select", count)
        session.execute(f"CREATE QUERY q AS SELECT v FROM s WHERE v IN ({values}) INTO MEMORY", start=False)
        session.execute(f"CREATE VIEW x AS SELECT w FROM s WHERE w IN ({values})", start=False)
        session.execute(f"SELECT v + w AS x FROM s WHERE v IN ({values})", start=False)
    assert len(parsed) == 3


@pytest.mark.slow
def test_what_a_parsed_select_mentions_is_what_its_text_mentions() -> None:
    definitions, statements = fuzz.corpus(GOLDEN)
    with fuzz.prepare(definitions) as session:
        for number, statement in enumerate(dict.fromkeys(statements)):
            if statement.startswith("SELECT"):
                with suppress(HeadraceError):
                    session.execute(f"CREATE VIEW v{number} AS {statement}", start=False)
        texts = [query.text for query in session.catalog.queries()]
    assert len(texts) > 50
    for text in texts:
        assert references(text) == references_in(parse(text))
