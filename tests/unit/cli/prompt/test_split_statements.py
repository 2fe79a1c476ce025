import pytest

from headrace.cli.prompt.split_statements import is_blank, take


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], " SELECT 2"),
        ("SELECT ';' ; x", ["SELECT ';'"], " x"),
        ("SELECT 'it''s; fine';", ["SELECT 'it''s; fine'"], ""),
        ("-- no; not yet\nSELECT 1", [], "-- no; not yet\nSELECT 1"),
        ("/* ; */ SELECT `a;b`;", ["/* ; */ SELECT `a;b`"], ""),
        ("SELECT 'open; ;", [], "SELECT 'open; ;"),
        (" ; ;; ", [], " "),
        ("", [], ""),
    ],
)
def test_semicolons_end_statements_outside_strings_and_comments(text: str, statements: list[str], rest: str) -> None:
    assert take(text) == (statements, rest)


def test_comments_are_blank() -> None:
    assert is_blank(" -- word\n /* more */ ")
    assert not is_blank("-- word\nSELECT")
