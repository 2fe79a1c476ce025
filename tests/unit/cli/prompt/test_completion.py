"""The words that the prompt offers, by what stands before the cursor."""

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from headrace.cli.prompt.completion import SOURCES, Names, StatementCompleter, candidates
from headrace.connectors import kinds
from headrace.language.parser import SHOWN, STATEMENTS

NAMES = Names(
    streams=("bids", "asks"),
    tables=("items",),
    queries=("best", "spread"),
    rules=("alarm",),
    columns=lambda name: {"bids": ("item", "price"), "items": ("item", "name", "WITH latency")}[name],
)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM ", ["bids", "asks", "best", "spread", "items"]),
        ("SELECT * FROM b", ["bids", "best"]),
        ("select * from bids [RANGE 1 MINUTE] join it", ["items"]),
        ("SHOW ", [*SHOWN]),
        ("show st", ["STREAMS", "STATISTICS", "STORES"]),
        ("SHOW STREAMS; SHOW qu", ["QUERIES"]),
        ("\\", ["\\help", "\\run", "\\stats", "\\q"]),
        ("\\s", ["\\stats"]),
        ("DE", ["DESIRE", "DEMAND", "DESCRIBE"]),
        ("qui", ["quit"]),
        ("CREATE ", ["STREAM", "TABLE", "QUERY", "VIEW", "EVENT", "RULE", "SINK", "AGGREGATE", "FUNCTION"]),
        ("CREATE STREAM x (a INT) FROM ", [*SOURCES]),
        ("CREATE QUERY x AS SELECT a FROM a", ["asks"]),
        ("CREATE AGGREGATE m(INT) RETURNS INT FROM ", ["PYTHON"]),
        ("CREATE QUERY x AS SELECT item FROM bids INTO C", ["CONSOLE"]),
        ("DROP QUERY ", ["best", "spread"]),
        ("DROP STREAM ", ["bids", "asks"]),
        ("DROP T", ["TABLE"]),
        ("DISABLE ", ["RULE"]),
        ("DISABLE RULE ", ["alarm"]),
        ("STOP QUERY s", ["spread"]),
        ("ASSUME ", ["best", "spread"]),
        ("EXPLAIN CAPACITY b", ["best"]),
        ("DESCRIBE a", ["asks", "alarm"]),
        ("SELECT * FROM bids [RA", ["RANGE"]),
        ("SELECT * FROM bids WHERE pri", ["price"]),
        ("SELECT name FROM items WHERE latenc", []),
        ("SELECT '; FROM ", []),
    ],
)
def test_what_is_offered_depends_on_what_stands_before(text: str, offered: list[str]) -> None:
    assert candidates(text, NAMES) == offered


def test_an_empty_prompt_offers_the_statements() -> None:
    assert candidates("", NAMES) == [*STATEMENTS, "help", "quit", "exit"]


def test_the_word_before_the_cursor_is_replaced() -> None:
    completions = StatementCompleter(lambda: NAMES).get_completions(Document("SHOW dec"), CompleteEvent())
    assert [(each.text, each.start_position) for each in completions] == [("DECISIONS", -3)]


def test_only_sources_that_exist_are_offered() -> None:
    assert set(SOURCES) <= set(kinds.SOURCES)
