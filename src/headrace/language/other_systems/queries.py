"""Words and phrases of other systems in SELECT, in windows and in events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from headrace.language.names import near
from headrace.language.other_systems.hints import SPREAD, TUMBLING

_AS_AN_EVENT = (
    "write the pattern as an event: CREATE EVENT e AS SELECT COUNT(b) AS n FROM a SEQUENCE b+ SEQUENCE c "
    "WITHIN 10 MINUTES WHERE a.id = b.id AND b.id = c.id"
)
_NO_EMIT = "leave EMIT out: the result of a window comes when the window is complete, every other result at once"
_SEQUENCE = "write a SEQUENCE b for 'a, then b'"
_WHERE = "conditions stand at the end: a SEQUENCE b WITHIN 10 MINUTES WHERE a.speed > 30"
_HOPPING = "write the window after the stream: FROM stream [RANGE 5 MINUTES SLIDE 1 MINUTE]"
_SLIDING_TUPLE = "write the window after the stream: FROM stream [RANGE 5 MINUTES SLIDE TUPLE]"
_NO_PAST = (
    "a query reads a stream from where it starts; JOIN table FOR SYSTEM_TIME AS OF stream.at AS t ON ... finds the row "
    "that a key had at the time of a tuple"
)
_AS_OF = (
    "write JOIN table FOR SYSTEM_TIME AS OF stream.at AS t ON stream.id = t.id, with CREATE TABLE t (..., PRIMARY KEY "
    "(id)) FROM other_stream"
)
_ROWS = "write the window after the stream: FROM stream [ROWS 100]"
_SESSION = "write the window after the stream: FROM stream [SESSION 30 SECONDS]"
_OUTPUT_RATE = "say it in the window: [RANGE 1 MINUTE SLIDE 5 SECONDS] gives a result every 5 seconds"
_ALL_RESULTS = "leave it out: a query gives each result once, when it is final"
_WATERMARK = "write it where the stream is created: CREATE STREAM name (...) TIMESTAMP BY at SKEW 5 SECONDS FROM ..."

#: By a name in FROM that is none of the user's.
SOURCES = {
    "STREAM": "leave STREAM out: FROM name reads a stream as it comes",
    "ONLY": "leave ONLY out",
    "KAFKA": "write CREATE STREAM name (column TYPE, ...) FROM KAFKA (...), and FROM name",
    "READ_KAFKA": "write CREATE STREAM name (column TYPE, ...) FROM KAFKA (...), and FROM name",
    "READ_FILES": "write CREATE STREAM name (...) FROM FILES (path 'data'), or CREATE TABLE, and FROM name",
    "READ_CSV": "write CREATE STREAM name (...) FROM FILES (path 'data.csv'), or CREATE TABLE, and FROM name",
    "READ_PARQUET": "write CREATE STREAM name (...) FROM FILES (path 'data.parquet'), or CREATE TABLE, and FROM name",
    "RANGE": "FROM GENERATOR (rate 10, ...) makes a stream of numbers",
    "WITHWATERMARK": _WATERMARK,
}

#: By a name in SELECT or WHERE that is no column.
COLUMNS = {
    "STREAM": "leave STREAM out: every SELECT is continuous",
    "ROWNUM": "write LIMIT 10 at the end of the query",
    "_METADATA": "write it into the records; a query does not see which file a record comes from",
    "$ROWTIME": "write rowtime",
    "LOCALTIMESTAMP": "a continuous query has no single current time; write rowtime, the timestamp of the tuple",
    "LOCALTIME": "a continuous query has no single current time; write rowtime, the timestamp of the tuple",
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
    "CUMULATE": "write [RANGE 1 DAY STEP 1 HOUR]",
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
    "EVERY": "write a SEQUENCE b; CONTEXT says whether each a is used, as EVERY does: CONTEXT CONTINUOUS",
    "FOLLOWEDBY": _SEQUENCE,
    "NOTFOLLOWEDBY": "write NOT (b) [a, '1 minute']: a, and no b within a minute",
    "KLEENE": "write a SEQUENCE b+ SEQUENCE c, or TIMES (3, b) for a number of them",
}

#: Stands for any number in a phrase.
NUMBER = "0"

#: By two tokens that follow each other in a SELECT; looked up only if the SELECT cannot be parsed.
PHRASES = {
    ("WITH", "WATERMARK"): _WATERMARK,
    ("WATERMARK", "FOR"): _WATERMARK,
    ("SAMPLE", "BY"): TUMBLING,
    ("SAMPLE", NUMBER): "filter the stream, for example WHERE id % 10 = 0",
    ("TIMESTAMP", "BY"): _WATERMARK,
    ("MATCH_CONDITION", "("): _AS_OF,
    ("*", "*"): "write pow(x, 2)",
    ("/", "/"): "write x DIV y for the whole part of a quotient",
    ("R", ""): "leave r out: a text has no escapes",
    ("E", ""): "leave E out: a text has no escapes; chr(10) is a line feed",
    ("SEPARATOR", ""): "write group_concat(x, ';' ORDER BY y)",
    ("READ_FILES", "("): "write CREATE STREAM name (...) FROM FILES (path 'data'), or CREATE TABLE, and FROM name",
    ("READ_KAFKA", "("): "write CREATE STREAM name (column TYPE, ...) FROM KAFKA (...), and FROM name",
    ("EMIT", "CHANGES"): _NO_EMIT,
    ("EMIT", "FINAL"): _NO_EMIT,
    ("EMIT", "STREAM"): _NO_EMIT,
    ("EMIT", "ON"): _NO_EMIT,
    ("EMIT", "AFTER"): _NO_EMIT,
    ("WINDOW", "TUMBLING"): TUMBLING,
    ("WINDOW", "HOPPING"): _HOPPING,
    ("WINDOW", "SESSION"): _SESSION,
    (
        "LATERAL",
        "(",
    ): "write a JOIN with ON; of an aggregate: JOIN (SELECT id, max(x) AS x FROM s [RANGE 1 MINUTE] GROUP "
    "BY id) AS m ON m.id = a.id",
    ("LATERAL", "TABLE"): "write a JOIN with ON",
    ("CROSS", "APPLY"): "write a JOIN with ON, or CROSS JOIN UNNEST(xs) AS u(x) for the elements of an array",
    ("OUTER", "APPLY"): "write a LEFT JOIN with ON, or LEFT JOIN UNNEST(xs) AS u(x) ON TRUE",
    (
        "MINUS",
        "SELECT",
    ): "write WHERE x NOT IN (SELECT y FROM table), or LEFT JOIN a stream and test that its key IS NULL",
    ("AS", "OF"): _NO_PAST,
    ("FOR", "SYSTEM_TIME"): "write JOIN table FOR SYSTEM_TIME AS OF stream.at AS t ON stream.id = t.id",
    ("TOP", NUMBER): "write LIMIT 10 at the end of the query",
    ("HOPPING", "("): _HOPPING,
    ("PIVOT", "("): "write an aggregate for each column: sum(x) FILTER (WHERE kind = 'a') AS a",
    ("UNPIVOT", "("): "write a UNION ALL of one SELECT for each column",
    ("ISTREAM", "*"): _ALL_RESULTS,
    ("RSTREAM", "*"): "tuples that leave a window are not reported; leave RSTREAM out",
    ("IRSTREAM", "*"): "tuples that leave a window are not reported; leave IRSTREAM out",
    ("OUTPUT", "EVERY"): _OUTPUT_RATE,
    ("OUTPUT", "LAST"): _OUTPUT_RATE,
    ("OUTPUT", "FIRST"): _OUTPUT_RATE,
    ("OUTPUT", "ALL"): _OUTPUT_RATE,
    ("OUTPUT", "SNAPSHOT"): _OUTPUT_RATE,
    ("PATTERN", "["): _AS_AN_EVENT,
    ("TIMER", ":"): "write the time after the event: a SEQUENCE b WITHIN 10 SECONDS",
    ("XOR", "("): "write (a OR b) AND NOT (a AND b), or a <> b of two conditions",
    ("~", ""): "write regexp_like(x, 'pattern')",
    ("WIN", ":"): TUMBLING,
    ("STD", ":"): "write SELECT DISTINCT, or last(x) with GROUP BY",
    ("#", "TIME"): _SLIDING_TUPLE,
    ("#", "TIME_BATCH"): TUMBLING,
    ("#", "EXT_TIMED"): _SLIDING_TUPLE,
    ("#", "LENGTH"): _ROWS,
    ("#", "LENGTH_BATCH"): _ROWS,
    ("#", "KEEPALL"): "write [UNBOUNDED] after the stream",
    ("#", "LASTEVENT"): "write [NOW] after the stream",
    ("#", "UNIQUE"): "write last(x) with GROUP BY",
    ("#", "GROUPWIN"): "write GROUP BY",
    ("WITHIN", "("): "bound the time in ON: FROM a JOIN b ON a.id = b.id AND b.at BETWEEN a.at - INTERVAL 1 HOUR "
    "AND a.at + INTERVAL 2 HOURS",
    ("WITHIN", NUMBER): "give both streams a window: FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.id = b.id",
}

#: By the name of a clause of SELECT that can be parsed but not run.
CLAUSES = {
    "OFFSET": "leave OFFSET out: LIMIT 10 delivers the first 10 results and then nothing more; "
    "ORDER BY n DESC LIMIT 10 OFFSET 10 gives places 11 to 20 of each window",
    "TABLESAMPLE": "filter the stream, for example WHERE id % 10 = 0",
    "BY NAME": "name the columns in the same order in both parts",
    "FOR UPDATE": "leave FOR UPDATE out: results are not rows that others change",
    "CLUSTER": SPREAD,
    "DISTRIBUTE": SPREAD,
    "SORT": SPREAD,
}

#: By the word before JOIN.
JOINS = {"ASOF": _AS_OF}

#: By the name of an expression that sqlglot knows and we do not.
EXPRESSIONS = {
    "SIMILARTO": "write RLIKE with a regular expression",
    "LAMBDA": "functions that take one are transform, filter, exists, forall, aggregate, zip_with, map_filter, "
    "transform_keys and transform_values: transform(xs, x -> x + 1)",
    "PLACEHOLDER": "statements have no parameters: write the value, such as 'pen' or 3",
    "PARAMETER": "statements have no parameters: write the value, such as 'pen' or 3",
    "TUPLE": "compare the columns one by one: a > 1 OR (a = 1 AND b > 2); IN takes several at once",
    "GLOB": "write LIKE 'p%', or RLIKE with a regular expression",
    "ATTIMEZONE": "write from_utc_timestamp(t, 'Europe/Paris') for what a clock shows there, to_utc_timestamp for the "
    "reverse",
    "JSONEXTRACT": "write from_json(s, 'a INT').a, or get_json_object(s, '$.a')",
    "JSONEXTRACTSCALAR": "write get_json_object(s, '$.a')",
    "JSONBEXTRACT": "write get_json_object(s, '$.a.b')",
    "JSONBEXTRACTSCALAR": "write get_json_object(s, '$.a.b')",
    "ORDER": "ORDER BY is for aggregates: string_agg(x, ',' ORDER BY y), array_agg(x ORDER BY y)",
    "ALIASES": "several names in SELECT are for explode, posexplode and inline alone: explode(m) AS (k, v)",
    "PROPERTYEQ": "write named_struct('a', x, 'b', y); arguments of functions have no names",
    "COMPREHENSION": "write transform(filter(xs, x -> x > 1), x -> x + 1)",
    "VALUES": "put the rows into a file: CREATE TABLE t (id INT, name STRING) FROM FILES (path 'rows.csv')",
    "INTERSECT": "write WHERE x IN (SELECT y FROM table), or join the streams: a [RANGE 1 HOUR] JOIN b ...",
    "EXCEPT": "write WHERE x NOT IN (SELECT y FROM table), or LEFT JOIN a stream and test that its key IS NULL",
}

#: Expressions of sqlglot as they are written.
WRITTEN = {
    "PROPERTYEQ": ":=",
    "COMPREHENSION": "[... for x in ...]",
    "ATTIMEZONE": "AT TIME ZONE", "JSONEXTRACT": "->", "JSONEXTRACTSCALAR": "->>", "JSONBEXTRACT": "#>",
    "JSONBEXTRACTSCALAR": "#>>", "SIMILARTO": "SIMILAR TO", "ORDER": "ORDER BY",
}  # fmt: skip


def find_phrase(tokens: Sequence[Token]) -> tuple[str, Token, str] | None:
    """Return the first phrase of another system among the tokens of a SELECT: its words, its start, and the hint."""
    words = [_WORDS.get(token.token_type, token.text.upper()) for token in tokens]
    for token, phrase in zip(tokens, pairwise(words), strict=False):
        if phrase in PHRASES:
            are_words = [word[:1].isalpha() for word in phrase]
            shown = " ".join(phrase) if all(are_words) else token.text.upper() if any(are_words) else "".join(phrase)
            return shown, token, PHRASES[phrase]
    return None


def find_misspelled(tokens: Sequence[Token], stop: int) -> tuple[Token, str] | None:
    """Return a word that is nearly a keyword of SELECT, and that keyword: where parsing stopped, or just before."""
    for token in [token for token in tokens if token.start <= stop][:-3:-1]:
        keyword = near(token.text, CLAUSE_WORDS) if token.token_type == TokenType.VAR else None
        if keyword is not None:
            return token, keyword
    return None


#: The keywords of SELECT that a misspelled word is compared with.
CLAUSE_WORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "JOIN", "UNION", "ORDER", "DISTINCT", "BETWEEN", "INTO")
_WORDS = {TokenType.STRING: "", TokenType.NUMBER: NUMBER}
