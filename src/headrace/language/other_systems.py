"""Words that users of other systems write, with the hint that says what to write here instead.

One table for each place where such a word can stand. A word in a table is never a word of Headrace in that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

_AS_AN_EVENT = "write the pattern as an event: CREATE EVENT e AS a SEQUENCE b WITHIN 10 MINUTES WHERE a.id = b.id"
_NO_CHANGES = "rows are not changed by statements; the source of a stream or table brings them"
_NO_EMIT = "leave EMIT out: the result of a window comes when the window is complete, every other result at once"
_NO_NESTING = "arrays, maps and structs are not supported yet; keep the value as STRING"
_NO_TRANSACTION = "leave it out: the statements of a script take effect together, or none does"
_OWN_AGGREGATE = "define it with CREATE AGGREGATE name(TYPE) RETURNS TYPE FROM PYTHON 'module:Class'"
_SEQUENCE = "write a SEQUENCE b for 'a, then b'"
_WHERE = "conditions stand at the end: a SEQUENCE b WITHIN 10 MINUTES WHERE a.speed > 30"
_TUMBLING = "write the window after the stream: FROM stream [RANGE 5 MINUTES]"
_HOPPING = "write the window after the stream: FROM stream [RANGE 5 MINUTES SLIDE 1 MINUTE]"
_SESSION = "write the window after the stream: FROM stream [SESSION 30 SECONDS]"
_WINDOW_ENDS = "write the window after the stream, FROM stream [RANGE 5 MINUTES], and select window_start or window_end"
_PREVIOUS = "DIFF(x) OVER (PARTITION BY id) compares a tuple with the one before it"
_RANK = "ranks are not supported yet; max(x) or min(x) over a window such as [RANGE 1 MINUTE] gives the first one"

#: By the first word of a statement.
STATEMENTS = {
    "INSERT": "write CREATE QUERY name AS SELECT ... INTO KIND (options)",
    "UPDATE": _NO_CHANGES,
    "DELETE": _NO_CHANGES,
    "MERGE": _NO_CHANGES,
    "TRUNCATE": _NO_CHANGES,
    "SET": "write ALTER SYSTEM SET name = value, or ALTER QUERY query SET name = value",
    "USE": "leave it out: all names are in one catalog",
    "BEGIN": _NO_TRANSACTION,
    "COMMIT": _NO_TRANSACTION,
    "PAUSE": "write STOP QUERY name",
    "RESUME": "write START QUERY name",
    "KILL": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "CANCEL": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "TERMINATE": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "LIST": "write SHOW QUERIES, SHOW STREAMS, ...",
}

#: By the word after CREATE.
CREATED = {
    "MATERIALIZED": "write CREATE QUERY name AS SELECT ..., which runs and can be read by other queries",
    "SOURCE": "write CREATE STREAM name (column TYPE, ...) FROM KIND (options)",
    "CONNECTOR": "write FROM KIND (options) in CREATE STREAM, or INTO KIND (options) in CREATE QUERY",
    "FUNCTION": "scalar functions of your own are not supported yet; CREATE AGGREGATE defines an aggregate",
    "TRIGGER": "write CREATE RULE name ON event DO action",
    "TEMPORARY": "leave TEMPORARY out",
    "TEMP": "leave TEMP out",
    "DATABASE": "leave it out: all names are in one catalog",
    "SCHEMA": "leave it out: all names are in one catalog",
    "INDEX": "leave it out: Headrace keeps the state of joins and groups by key by itself",
}

#: By the word after the columns of CREATE STREAM.
STREAM_CLAUSES = {
    "WATERMARK": "write TIMESTAMP BY column SKEW 5 SECONDS: tuples may come up to 5 seconds out of order",
    "WITH": "write FROM KIND (options), such as FROM KAFKA (bootstrap 'host:9092', topic 'bids', format 'json')",
}

#: By the name of a type, without its arguments.
TYPES = {
    "DECIMAL": "DECIMAL is not supported yet; BIGINT holds whole units such as cents, DOUBLE about 15 digits",
    "NUMERIC": "NUMERIC is not supported yet; BIGINT holds whole units such as cents, DOUBLE about 15 digits",
    "ARRAY": _NO_NESTING,
    "MAP": _NO_NESTING,
    "STRUCT": _NO_NESTING,
    "ROW": _NO_NESTING,
    "JSON": _NO_NESTING,
    "JSONB": _NO_NESTING,
    "VARIANT": _NO_NESTING,
    "UUID": "write STRING",
    "TIME": "a time of day is not supported yet; keep it as STRING",
    "HUGEINT": "write BIGINT, which holds 64 bits",
    "UBIGINT": "write BIGINT, which holds 64 bits and a sign",
    "DATETIME": "write TIMESTAMP",
}

#: By the name of a function.
FUNCTIONS = {
    "string_agg": _OWN_AGGREGATE,
    "listagg": _OWN_AGGREGATE,
    "group_concat": _OWN_AGGREGATE,
    "array_agg": _OWN_AGGREGATE,
    "collect_list": _OWN_AGGREGATE,
    "collect_set": _OWN_AGGREGATE,
    "median": _OWN_AGGREGATE,
    "mode": _OWN_AGGREGATE,
    "percentile": _OWN_AGGREGATE,
    "percentile_cont": _OWN_AGGREGATE,
    "percentile_disc": _OWN_AGGREGATE,
    "approx_percentile": _OWN_AGGREGATE,
    "approx_count_distinct": "write count(DISTINCT x)",
    "approx_distinct": "write count(DISTINCT x)",
    "row_number": _RANK,
    "rank": _RANK,
    "dense_rank": _RANK,
    "ntile": _RANK,
    "lag": _PREVIOUS,
    "lead": _PREVIOUS,
    "tumble": _TUMBLING,
    "hop": _HOPPING,
    "session_window": _SESSION,
    "tumble_start": _WINDOW_ENDS,
    "tumble_end": _WINDOW_ENDS,
    "hop_start": _WINDOW_ENDS,
    "hop_end": _WINDOW_ENDS,
    "session_start": _WINDOW_ENDS,
    "session_end": _WINDOW_ENDS,
    "current_watermark": "a query cannot read the watermark; late tuples are in a side stream such as bids.late",
    "proctime": "write rowtime; a stream with TIMESTAMP INTERNAL is stamped when its tuples arrive",
    "explode": _NO_NESTING,
    "unnest": _NO_NESTING,
    "flatten": _NO_NESTING,
    "json_value": "a source reads the fields of JSON records as columns with format 'json'",
    "json_extract": "a source reads the fields of JSON records as columns with format 'json'",
    "get_json_object": "a source reads the fields of JSON records as columns with format 'json'",
    "date_format": "write year(t), month(t), hour(t), ... or CAST(t AS STRING)",
    "to_char": "write year(t), month(t), hour(t), ... or CAST(t AS STRING)",
}

#: By the first word between the brackets of a window.
WINDOWS = {
    "TUMBLE": "write [RANGE 5 MINUTES]",
    "TUMBLING": "write [RANGE 5 MINUTES]",
    "SIZE": "write [RANGE 5 MINUTES]",
    "HOP": "write [RANGE 5 MINUTES SLIDE 1 MINUTE]",
    "HOPPING": "write [RANGE 5 MINUTES SLIDE 1 MINUTE]",
    "SLIDING": "write [RANGE 5 MINUTES SLIDE 1 MINUTE], or SLIDE TUPLE for a result with every tuple",
    "COUNT": "write [ROWS 100]",
    "LAST": "write [ROWS 100] or [RANGE 5 MINUTES]",
}

#: By a word of an event expression.
EVENTS = {
    "THEN": _SEQUENCE,
    "FOLLOWED": _SEQUENCE,
    "NEXT": _SEQUENCE,
    "SEQ": _SEQUENCE,
    "->": _SEQUENCE,
    "PATTERN": _SEQUENCE,
    "MATCH_RECOGNIZE": _SEQUENCE,
    "MASK": _WHERE,
    "IF": _WHERE,
    "WHEN": _WHERE,
    "FILTER": _WHERE,
}

#: By two tokens that follow each other in a SELECT, # being a number; looked up only if the SELECT cannot be parsed.
PHRASES = {
    ("MATCH_RECOGNIZE", "("): _AS_AN_EVENT,
    ("EMIT", "CHANGES"): _NO_EMIT,
    ("EMIT", "FINAL"): _NO_EMIT,
    ("EMIT", "STREAM"): _NO_EMIT,
    ("EMIT", "ON"): _NO_EMIT,
    ("EMIT", "AFTER"): _NO_EMIT,
    ("WINDOW", "TUMBLING"): _TUMBLING,
    ("WINDOW", "HOPPING"): _HOPPING,
    ("WINDOW", "SESSION"): _SESSION,
    ("WINDOW", "("): _TUMBLING,
    ("TUMBLE", "("): _TUMBLING,
    ("HOP", "("): _HOPPING,
    ("TABLE", "("): _TUMBLING,
    ("LATERAL", "("): "write a JOIN with ON",
    ("LATERAL", "TABLE"): "write a JOIN with ON",
    ("FOR", "SYSTEM_TIME"): "leave FOR SYSTEM_TIME out: JOIN table ON ... looks up each tuple when it comes",
    ("TOP", "#"): "write LIMIT 10 at the end of the query",
    ("WITHIN", "#"): "give both streams a window: FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.id = b.id",
}

#: By the name of a clause of SELECT that can be parsed but not run.
CLAUSES = {
    "OFFSET": "leave OFFSET out: LIMIT 10 delivers the first 10 results and then nothing more",
    "QUALIFY": "filter in an outer query: SELECT * FROM (SELECT ...) AS x WHERE ...",
    "SAMPLE": "filter the stream, for example WHERE id % 10 = 0",
}


def find_phrase(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    """Return where the first phrase of another system starts among the tokens of a SELECT, and the hint for it."""
    words = [_WORDS.get(token.token_type, token.text.upper()) for token in tokens]
    for token, phrase in zip(tokens, pairwise(words), strict=False):
        if phrase in PHRASES:
            return token, PHRASES[phrase]
    return None


_WORDS = {TokenType.STRING: "", TokenType.NUMBER: "#"}
