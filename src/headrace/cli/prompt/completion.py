"""Which words can follow at the prompt: streams after FROM, what SHOW lists, commands after a backslash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from headrace.cli.prompt.split_statements import take
from headrace.connectors.kinds import SINKS
from headrace.language.parser import DROPPED, SHOWN, STATEMENTS
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS

COMMANDS = ("\\help", "\\run", "\\stats", "\\q")
CREATED = ("STREAM", "TABLE", "QUERY", "VIEW", "EVENT", "RULE", "SINK", "AGGREGATE", "FUNCTION")
SOURCES = ("FILES", "GENERATOR", "KAFKA", "SOCKET", "MEMORY", "SPARK")
WINDOWS = ("RANGE", "ROWS", "SESSION", "LANDMARK", "NOW", "UNBOUNDED", "PARTITION BY", "WHILE")
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "AS", "JOIN", "LEFT", "RIGHT", "FULL", "ON", "UNION", "ALL",
    "DISTINCT", "LIMIT", "INTO", "WITH", "TIMESTAMP", "SKEW", "AHEAD", "UNLIMITED", "INTERNAL", "SLIDE", "TUPLE",
    "BEHIND", "CLOCK", "FOLLOWING", "CONSUMING", "RESET", "FRONTIER",
    "RECENT", "CHRONICLE", "SEQUENCE", "WITHIN", "CONTEXT", "PARTITION", "AND", "OR", "NOT", "IN", "IS", "NULL",
    "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "SET", "DO", "INSERT", "CALL", "RAISE", "SECONDS",
    "MINUTES", "HOURS", "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DATE", "window_start", "window_end", "rowtime",
)  # fmt: skip
#: What follows a word that stands alone.
_AFTER = {
    "SHOW": SHOWN,
    "CREATE": CREATED,
    "DROP": (*DROPPED, "VIEW", "EVENT"),
    "START": ("QUERY",),
    "STOP": ("QUERY",),
    "ALTER": ("SYSTEM", "QUERY"),
    "ENABLE": ("RULE",),
    "DISABLE": ("RULE",),
    "[": WINDOWS,
    "INTO": tuple(SINKS),
}
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|'(?:[^']|'')*'?|\S")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that exist, by kind, and a function from a name to its columns."""

    streams: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    columns: Callable[[str], tuple[str, ...]] = lambda name: ()

    @property
    def relations(self) -> tuple[str, ...]:
        """Return everything that FROM can name."""
        return (*self.streams, *self.queries, *self.tables)


class StatementCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        word = _word(text)
        for candidate in candidates(text, self._names()):
            yield Completion(candidate, start_position=-len(word))


def candidates(text: str, names: Names) -> list[str]:
    """Return the words that the last word of a text, perhaps empty, may become."""
    word = _word(text)
    before = take(text[: len(text) - len(word)])[1]
    return [each for each in _possible(word, _TOKEN.findall(before), names) if each.lower().startswith(word.lower())]


def _word(text: str) -> str:
    match = re.search(r"\\?[\w.]*$", text)
    return match[0] if match else ""


def _possible(word: str, before: list[str], names: Names) -> Iterable[str]:
    if before and re.fullmatch(r"'(?:[^']|'')*", before[-1]):
        return ()  # inside a string
    upper = [token.upper() for token in before]
    last, second = (["", "", *upper])[-1], (["", "", *upper])[-2]
    if word.startswith("\\"):
        return COMMANDS if not before else ()
    if not before:
        return (*STATEMENTS, "help", "quit", "exit")
    if last in ("FROM", "JOIN"):
        return _read_from(upper, names)
    if second in ("DROP", "START", "STOP", "ALTER", "ENABLE", "DISABLE") and len(before) == 2:
        by_kind = {"STREAM": names.streams, "TABLE": names.tables, "RULE": names.rules, "SYSTEM": ("SET",)}
        return by_kind.get(last, names.queries if last in ("QUERY", "VIEW", "EVENT") else ())
    inspected = _inspected(last, upper, names)
    if inspected is not None:
        return inspected
    if last in _AFTER and (last == "[" or last == "INTO" or len(before) == 1):
        return () if upper[0] == "SPLIT" else _AFTER[last]
    return _expression_words(before, names)


def _inspected(last: str, upper: list[str], names: Names) -> Iterable[str] | None:
    """Return the names that a statement about a query or relation takes next; None if it is no such statement."""
    if last == "DESCRIBE":
        return (*names.relations, *names.rules)
    if last in ("ASSUME", "DESIRE", "DEMAND"):
        return names.queries
    if last in ("EXPLAIN", "ANALYZE", "CAPACITY", "JSON") and upper[0] == "EXPLAIN":
        return (*(("ANALYZE", "CAPACITY", "JSON") if last == "EXPLAIN" else ()), "SELECT", *names.queries)
    return None


def _read_from(upper: list[str], names: Names) -> tuple[str, ...]:
    """Return what follows FROM: relations in a SELECT, the kinds of sources in a definition."""
    if upper[0] == "CREATE" and "SELECT" not in upper:
        return ("PYTHON",) if {"AGGREGATE", "FUNCTION"} & set(upper[:4]) else SOURCES
    return names.relations


def _expression_words(before: list[str], names: Names) -> list[str]:
    """Return keywords, functions, and the columns of the relations that are named so far."""
    known = set(names.relations)
    columns = [column for token in before if token in known for column in names.columns(token)]
    functions = [name for name in (*FUNCTIONS, *AGGREGATES) if name.isidentifier()]
    return sorted({*KEYWORDS, *functions, *(name for name in columns if name.isidentifier())})
