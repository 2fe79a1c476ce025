"""Words that users of other systems write, with the hint that says what to write here instead.

One table for each place where such a word can stand. A word in a table is never a word of Headrace in that place.
"""

from headrace.language.other_systems.functions import BUCKETS, FUNCTIONS
from headrace.language.other_systems.queries import (
    CLAUSE_WORDS,
    CLAUSES,
    COLUMNS,
    EVENTS,
    EXPRESSIONS,
    JOINS,
    NUMBER,
    PHRASES,
    SOURCES,
    WINDOWS,
    WRITTEN,
    find_misspelled,
    find_phrase,
)
from headrace.language.other_systems.statements import (
    ALTERED,
    COLUMN_CLAUSES,
    CREATED,
    DESCRIBED,
    DROPPED,
    ENDINGS,
    INSERTED,
    SHOWN,
    STATEMENTS,
    STREAM_CLAUSES,
    TYPES,
)

__all__ = [
    "ALTERED", "BUCKETS", "CLAUSES", "CLAUSE_WORDS", "COLUMNS", "COLUMN_CLAUSES", "CREATED", "DESCRIBED", "DROPPED",
    "ENDINGS", "EVENTS", "EXPRESSIONS", "FUNCTIONS", "INSERTED", "JOINS", "NUMBER", "PHRASES", "SHOWN", "SOURCES",
    "STATEMENTS", "STREAM_CLAUSES", "TYPES", "WINDOWS", "WRITTEN", "find_misspelled", "find_phrase",
]  # fmt: skip
