"""Words that users of other systems write, with the hint that says what to write here instead.

One table for each place where such a word can stand. A word in a table is never a word of Headrace in that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from headrace.language.names import near

_AS_AN_EVENT = (
    "write the pattern as an event: CREATE EVENT e AS SELECT COUNT(b) AS n FROM a SEQUENCE b+ SEQUENCE c "
    "WITHIN 10 MINUTES WHERE a.id = b.id AND b.id = c.id"
)
_NO_CHANGES = (
    "rows are not changed by statements; the source of a stream or table brings them, and a query with INTO POSTGRES "
    "(..., key 'id') keeps a table up to date"
)
_NO_EMIT = "leave EMIT out: the result of a window comes when the window is complete, every other result at once"
_FIELDS = "write its fields: STRUCT<id: INT, name: STRING>"
_JSON_TYPE = "keep it as STRING and read it with get_json_object or from_json, or declare ARRAY, MAP or STRUCT"
_UNNEST = "write it alone in SELECT, or in FROM: FROM s CROSS JOIN UNNEST(xs) AS u(x)"
_NO_TRANSACTION = "leave it out: the statements of a script take effect together, or none does"
_SEQUENCE = "write a SEQUENCE b for 'a, then b'"
_WHERE = "conditions stand at the end: a SEQUENCE b WITHIN 10 MINUTES WHERE a.speed > 30"
_TUMBLING = "write the window after the stream: FROM stream [RANGE 5 MINUTES]"
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
_IN_GROUP_BY = "write the window in GROUP BY, or after the stream: FROM stream [RANGE 5 MINUTES]"
_WINDOW_ENDS = "write the window in GROUP BY as well, or FROM stream [RANGE 5 MINUTES] with window_start and window_end"
_PREVIOUS = "write LAG(x) OVER (PARTITION BY id ORDER BY rowtime), the value of the tuple before"
_RANK = "write ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) as a column, or in QUALIFY"
_ONE_CATALOG = "leave it out: all names are in one catalog"
_JSON_COLUMNS = "write get_json_object(s, '$.name'); a source reads JSON records as columns with format 'json'"
_AS_QUERY = "write CREATE QUERY name AS SELECT ..., or CREATE VIEW name AS SELECT ... to only name it"
_SOURCE = "write FROM KIND (options), such as FROM FILES (path 'data', format 'parquet')"
_OUTPUT_RATE = "say it in the window: [RANGE 1 MINUTE SLIDE 5 SECONDS] gives a result every 5 seconds"
_ALL_RESULTS = "leave it out: a query gives each result once, when it is final"
_NOT_NEEDED = "leave it out: nothing has to be maintained by hand"
_FORMAT = "write concat(a, ': ', b), with format_number(x, 2), lpad(s, 5, '0') or date_format(t, 'HH:mm')"
_OWN_FUNCTION = "write CREATE FUNCTION name(STRING) RETURNS STRING FROM PYTHON 'module:function'"
_SPREAD = "leave it out: tuples are spread by the keys of joins and groups; ORDER BY rowtime orders results"
_WATERMARK = "write it where the stream is created: CREATE STREAM name (...) TIMESTAMP BY at SKEW 5 SECONDS FROM ..."
_PYTHON_PATH = "functions are Python code: put the module on PYTHONPATH, or beside the script that headrace run reads"

#: By the first word of a statement.
STATEMENTS = {
    "UPDATE": _NO_CHANGES,
    "DELETE": _NO_CHANGES,
    "MERGE": _NO_CHANGES,
    "TRUNCATE": _NO_CHANGES,
    "SET": "write ALTER SYSTEM SET name = value, or ALTER QUERY query SET name = value; leave settings of Flink and "
    "Spark out, but write EMIT CHANGES STATE TTL '1 h' for table.exec.state.ttl",
    "USE": "leave it out: all names are in one catalog",
    "BEGIN": _NO_TRANSACTION,
    "COMMIT": _NO_TRANSACTION,
    "PAUSE": "write STOP QUERY name",
    "RESUME": "write START QUERY name",
    "KILL": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "CANCEL": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "TERMINATE": "write DROP QUERY name, or STOP QUERY name to start it again later",
    "LIST": "write SHOW QUERIES, SHOW STREAMS, ...",
    "DISPLAY": "write SHOW QUERIES, SHOW STREAMS, ...",
    "EXECUTE": "write EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END; or the statements alone, in one text",
    "END": _NO_TRANSACTION,
    "ROLLBACK": _NO_TRANSACTION,
    "ADD": _PYTHON_PATH,
    "GRANT": "there are no users and roles; whoever can read the checkpoint and the script can do everything",
    "REVOKE": "there are no users and roles; whoever can read the checkpoint and the script can do everything",
    "COPY": "write CREATE STREAM name (column TYPE, ...) FROM FILES (path 'data', format 'csv')",
    "LOAD": "write CREATE STREAM name (column TYPE, ...) FROM FILES (path 'data', format 'csv')",
    "ANALYZE": "write EXPLAIN ANALYZE query; nothing has to be analyzed beforehand",
    "VACUUM": _NOT_NEEDED,
    "OPTIMIZE": _NOT_NEEDED,
    "CACHE": "leave it out: equal parts of queries run once",
    "RESET": "write ALTER SYSTEM SET name = value",
    "LISTEN": "write CREATE RULE name ON event DO CALL ..., or in Python session.subscribe(query, function)",
    "PRINT": "write SELECT * FROM stream, with CREATE STREAM ... FROM KAFKA (...) before it",
    "DEFINE": "variables are not supported; write the value",
    "DECLARE": "variables are not supported; write the value",
    "RUN": "in a terminal: headrace run script.sql",
    "SOURCE": "in a terminal: headrace run script.sql",
    "ON": "write CREATE RULE name ON event DO action",
    "EVERY": "write CREATE EVENT name AS a SEQUENCE b WITHIN 10 MINUTES",
    "PATTERN": "write CREATE EVENT name AS a SEQUENCE b WITHIN 10 MINUTES",
    "VALUES": "push rows from Python with session.push(stream, rows), or read them FROM FILES (path 'data')",
    "TABLE": "write SELECT * FROM name",
    "HELP": "at the prompt, \\help lists all statements",
    "COMMENT": "write -- comment in the script",
    "FROM": "write SELECT first: SELECT item FROM bids; for several sinks, one CREATE QUERY each: equal parts run once",
    "CALL": "write CREATE RULE name ON event DO CALL PYTHON 'module:function', or call a function in SELECT",
    "SUBSCRIBE": "write SELECT * FROM name, which is continuous; in Python session.subscribe(query, function)",
    "TAIL": "write SELECT * FROM name, which is continuous; in Python session.subscribe(query, function)",
    "UPSERT": _NO_CHANGES,
    "REPLACE": _NO_CHANGES,
    "UNSET": "write ALTER SYSTEM SET name = value",
    "MSCK": _NOT_NEEDED,
    "UNCACHE": "leave it out: equal parts of queries run once",
    "CLEAR": "leave it out: equal parts of queries run once",
    "WITH": "write WITH before SELECT: WITH name AS (SELECT ...) SELECT ...",
}

#: By the word after INSERT, or after the sink.
INSERTED = {
    "OVERWRITE": "write INSERT INTO: results are added; INTO POSTGRES (..., key 'id') keeps one row for each key",
    "VALUES": "push rows from Python with session.push(stream, rows), or read them FROM FILES (path 'data')",
    "PARTITION": "leave it out: PARTITIONED BY of the sink names the folders after values",
    "FROM": "write INSERT INTO sink SELECT ... FROM ...",
    "IGNORE": "leave IGNORE out",
}

#: By the word after CREATE.
CREATED = {
    "MATERIALIZED": "write CREATE MATERIALIZED VIEW name AS SELECT ..., or CREATE QUERY name AS SELECT ...",
    "SOURCE": "write CREATE STREAM name (column TYPE, ...) FROM KIND (options)",
    "CONNECTOR": "write FROM KIND (options) in CREATE STREAM, or INTO KIND (options) in CREATE QUERY",
    "TRIGGER": "write CREATE RULE name ON event DO action",
    "TEMPORARY": "leave TEMPORARY out",
    "GLOBAL": "leave GLOBAL TEMPORARY out",
    "TEMP": "leave TEMP out",
    "DATABASE": _ONE_CATALOG,
    "CATALOG": _ONE_CATALOG,
    "SCHEMA": "write CREATE STREAM name (column TYPE, ...) FROM KIND (options); all names are in one catalog",
    "STREAMING": _AS_QUERY,
    "DYNAMIC": _AS_QUERY,
    "LIVE": _AS_QUERY,
    "EXTERNAL": "leave EXTERNAL out",
    "CONTEXT": "a window with GROUP BY id divides tuples by id; the CONTEXT of an event chooses what is paired",
    "WINDOW": "write the window where the stream is read: FROM stream [RANGE 5 MINUTES]",
    "VARIABLE": "variables are not supported; write the value, or read it from a table with JOIN",
    "EXPRESSION": "write CREATE VIEW name AS SELECT ..., and read the view",
    "DATAFLOW": "write CREATE STREAM ... FROM KIND (options) and CREATE QUERY ... INTO KIND (options)",
    "MODEL": "call a model from a user-defined aggregate or a rule: DO CALL PYTHON 'module:function'",
    "TYPE": "columns have simple types; write them in CREATE STREAM name (column TYPE, ...)",
    "PROCEDURE": "write CREATE RULE name ON event DO CALL PYTHON 'module:function'",
    "USER": "there are no users and roles; whoever can read the checkpoint and the script can do everything",
    "CONNECTION": "write FROM KIND (options) in CREATE STREAM, or INTO KIND (options) in CREATE QUERY",
    "SECRET": "write password '${env:NAME}' where it is used; docs/reference/connectors.md has the references",
    "CLUSTER": "leave it out: all queries run in one Spark query; SHOW BUCKETS says where each part of them runs",
    "PIPELINE": _AS_QUERY,
    "TASK": _AS_QUERY,
    "ALERT": "write CREATE RULE name ON event DO action",
    "RECURSIVE": "a view cannot read itself; write CREATE VIEW name AS SELECT ...",
    "INDEX": "leave it out: Headrace keeps the state of joins and groups by key by itself",
}

#: By the word after DROP.
DROPPED = {
    "SOURCE": "write DROP STREAM name",
    "CONNECTOR": "write DROP STREAM name, or DROP QUERY name, which has its own connector",
    "CONNECTION": "write DROP STREAM name, or DROP QUERY name, which has its own connector",
    "TEMPORARY": "leave TEMPORARY out",
    "TEMP": "leave TEMP out",
    "DATABASE": _ONE_CATALOG,
    "SCHEMA": _ONE_CATALOG,
    "CATALOG": _ONE_CATALOG,
    "INDEX": "leave it out: there are no indexes",
    "TRIGGER": "write DROP RULE name",
    "JOB": "write DROP QUERY name",
}

#: By the word at which a statement should have ended.
ENDINGS = {
    "CASCADE": "drop what reads it before; the error of DROP without CASCADE lists it",
    "RESTRICT": "leave it out: what is read is never dropped",
    "PURGE": "leave it out: the data of a source is not touched",
    "DELETE": "leave it out: the data of a source is not touched",
    "PARTITION BY": _SPREAD,
    "PARTITION": _SPREAD,
    ",": "write a statement for each",
    "PUNCTUATED": "write it before FROM: PUNCTUATED BY done ON (segment) FROM KIND (options)",
    "TIMESTAMP": "write it before FROM: TIMESTAMP BY at SKEW 2 SECONDS FROM KIND (options)",
}

#: By the word after SHOW.
SHOWN = {
    "DATABASES": _ONE_CATALOG,
    "CATALOGS": _ONE_CATALOG,
    "SCHEMAS": _ONE_CATALOG,
    "JOBS": "write SHOW QUERIES",
    "QUERY": "write SHOW QUERIES",
    "VIEWS": "write SHOW QUERIES, which also lists views",
    "MATERIALIZED": "write SHOW QUERIES",
    "SOURCES": "write SHOW STREAMS",
    "TOPICS": "write SHOW STREAMS, which lists each stream with its source",
    "CONNECTORS": "write SHOW STREAMS, which lists each stream with its source",
    "COLUMNS": "write DESCRIBE name",
    "CREATE": "write DESCRIBE name",
    "PROCESSLIST": "write SHOW QUERIES, or SHOW STATISTICS for what each operator does",
    "ALL": "docs/reference/settings.md lists the settings",
    "PARTITIONS": "write SHOW BUCKETS, which lists the parts of the state of queries",
    "CLUSTERS": "write SHOW BUCKETS, which says where each part of a query runs",
    "INDEXES": "leave it out: there are no indexes",
    "PROPERTIES": "docs/reference/settings.md lists the settings",
    "VARIABLES": "docs/reference/settings.md lists the settings",
}

#: By the word after ALTER.
ALTERED = {
    "TABLE": "create it again: CREATE OR REPLACE TABLE name (column TYPE, ...) FROM KIND (options)",
    "VIEW": "create it again: CREATE OR REPLACE VIEW name AS SELECT ...",
    "DATABASE": _ONE_CATALOG,
    "FUNCTION": "create it again: DROP FUNCTION name; CREATE FUNCTION name(INT) RETURNS INT FROM PYTHON ...",
    "MATERIALIZED": "write CREATE OR REPLACE QUERY name AS SELECT ...",
}

#: By the word after DESCRIBE or EXPLAIN, if something follows it.
DESCRIBED = {
    "EXTENDED": "leave EXTENDED out",
    "FORMATTED": "leave FORMATTED out",
    "TABLE": "leave TABLE out",
    "STREAM": "leave STREAM out",
    "QUERY": "leave QUERY out",
    "PLAN": "leave PLAN FOR out",
    "VERBOSE": "leave VERBOSE out; EXPLAIN ANALYZE shows what was measured",
    "CODEGEN": "leave CODEGEN out",
    "LOGICAL": "leave LOGICAL out",
    "PHYSICAL": "leave PHYSICAL out",
    "OPTIMIZED": "leave OPTIMIZED PLAN FOR out",
    "ESTIMATED_COST": "write EXPLAIN CAPACITY for the predicted load",
    "CHANGELOG_MODE": "leave CHANGELOG_MODE out",
    "HISTORY": "leave HISTORY out: a table has no versions but those that JOIN table FOR SYSTEM_TIME AS OF finds",
    "DETAIL": "leave DETAIL out",
    "FUNCTION": "write SHOW FUNCTIONS",
    "COST": "write EXPLAIN CAPACITY for the predicted load",
}

#: By the word after the type of a column.
COLUMN_CLAUSES = {
    "PRIMARY KEY": "CREATE TABLE t (..., PRIMARY KEY (id)) FROM stream has the newest tuple of each key",
    "PRIMARY": "CREATE TABLE t (..., PRIMARY KEY (id)) FROM stream has the newest tuple of each key",
    "KEY": "leave it out: a stream or table has no key; GROUP BY, JOIN and DISTINCT name theirs",
    "NOT": "leave it out: every column may be NULL; a record that cannot be read is in <stream>.bad",
    "NULL": "leave it out: every column may be NULL",
    "DEFAULT": "leave it out: write coalesce(column, value) where the column is read",
    "METADATA": "FROM KAFKA (..., record_time 'at', key 'id') reads the time and the key of the records into these "
    "columns; the time is also METADATA FROM 'timestamp', partition and offset cannot be read",
    "COMMENT": "leave COMMENT out, or write -- comment",
    "GENERATED": "leave it out, or write GENERATED ALWAYS AS (expression) in CREATE STREAM",
    "REFERENCES": "leave it out: a join names both columns",
    "UNIQUE": "leave it out: SELECT DISTINCT over a window removes duplicates",
}

#: By the word after the columns of CREATE STREAM or CREATE TABLE.
STREAM_CLAUSES = {
    "LIKE": "write the columns, or FROM KIND (options), which finds them in a file",
    "AS": _AS_QUERY,
    "USING": _SOURCE,
    "STORED": _SOURCE,
    "LOCATION": _SOURCE,
    "PARTITIONED": "leave it out: Headrace spreads tuples over buckets by the keys that queries need",
    "WATERMARK": "write TIMESTAMP BY column SKEW 5 SECONDS, or WATERMARK FOR among the columns",
    "WITH": "write FROM KIND (options), such as FROM KAFKA (bootstrap 'host:9092', topic 'bids', format 'json')",
}

#: By the name of a type, without its arguments.
TYPES = {
    "ARRAY": "write the type of its elements: ARRAY<INT>",
    "MAP": "write the types of its keys and values: MAP<STRING, INT>",
    "STRUCT": _FIELDS,
    "ROW": _FIELDS,
    "JSON": _JSON_TYPE,
    "JSONB": _JSON_TYPE,
    "VARIANT": _JSON_TYPE,
    "UUID": "write STRING",
    "TIME": "a time of day is not supported yet; keep it as STRING",
    "HUGEINT": "write BIGINT, which holds 64 bits",
    "UBIGINT": "write BIGINT, which holds 64 bits and a sign",
    "DATETIME": "write TIMESTAMP",
    "SERIAL": "write INT or BIGINT; numbers are not generated",
    "BIGSERIAL": "write BIGINT; numbers are not generated",
    "MONEY": "write DECIMAL(18, 2)",
    "MULTISET": "write ARRAY<INT>",
}

#: By the name of a function.
FUNCTIONS = {
    "iif": "write if(condition, a, b)",
    "row_number": _RANK,
    "rank": _RANK,
    "dense_rank": _RANK,
    "ntile": _RANK,
    "lag": _PREVIOUS,
    "lead": _PREVIOUS,
    "tumble": _IN_GROUP_BY,
    "hop": _IN_GROUP_BY,
    "session": _IN_GROUP_BY,
    "session_window": _IN_GROUP_BY,
    "tumble_start": _WINDOW_ENDS,
    "tumble_end": _WINDOW_ENDS,
    "hop_start": _WINDOW_ENDS,
    "hop_end": _WINDOW_ENDS,
    "session_start": _WINDOW_ENDS,
    "session_end": _WINDOW_ENDS,
    "mz_now": "write rowtime, the timestamp of the tuple",
    "mz_logical_timestamp": "write rowtime, the timestamp of the tuple",
    "current_watermark": "a query cannot read the watermark; late tuples are in a side stream such as bids.late",
    "proctime": "write rowtime; a stream with TIMESTAMP INTERNAL is stamped when its tuples arrive",
    "explode": _UNNEST,
    "explode_outer": _UNNEST,
    "posexplode": _UNNEST,
    "posexplode_outer": _UNNEST,
    "inline": _UNNEST,
    "unnest": _UNNEST,
    "json_extract": _JSON_COLUMNS,
    "to_char": "write date_format(t, 'yyyy-MM-dd HH:mm')",
    "timestamptostring": "write date_format(t, 'yyyy-MM-dd HH:mm')",
    "stringtotimestamp": "write to_timestamp(s, 'yyyy-MM-dd HH:mm')",
    "extractjsonfield": _JSON_COLUMNS,
    "json_query": _JSON_COLUMNS,
    "jsonb_extract_path": _JSON_COLUMNS,
    "topk": _RANK,
    "topkdistinct": _RANK,
    "percent_rank": _RANK,
    "latest_by_offset": "write last(x)",
    "earliest_by_offset": "write first(x)",
    "lastever": "write last(x)",
    "firstever": "write first(x)",
    "prev": _PREVIOUS,
    "prior": _PREVIOUS,
    "histogram_numeric": "write histogram(width_bucket(x, 0, 100, 10)), or count(*) with GROUP BY",
    "arrays_zip": "write zip_with(xs, ys, (x, y) -> struct(x, y))",
    "map_entries": "write transform(map_keys(m), k -> struct(k AS key, m[k] AS value))",
    "map_from_entries": "write map_from_arrays(transform(es, e -> e.key), transform(es, e -> e.value))",
    "array_compact": "write filter(xs, x -> x IS NOT NULL)",
    "array_repeat": "write transform(sequence(1, 3), i -> x)",
    "array_insert": "write flatten(array(slice(xs, 1, 2), array(x), slice(xs, 3, size(xs))))",
    "array_prepend": "write flatten(array(array(x), xs))",
    "arrayjoin": _UNNEST,
    "json_tuple": _JSON_COLUMNS,
    "parse_json": _JSON_COLUMNS,
    "schema_of_json": "write the schema: from_json(s, 'a INT, b STRING')",
    "regexp_matches": "write regexp_like(s, 'pattern'), or regexp_extract_all(s, '(pattern)')",
    "offset": "write xs[0], which is the first element, or element_at(xs, 1)",
    "safe_cast": "write TRY_CAST(x AS INT)",
    "strftime": "write date_format(t, 'yyyy-MM-dd HH:mm')",
    "formatdatetime": "write date_format(t, 'yyyy-MM-dd HH:mm')",
    "date_parse": "write to_timestamp(s, 'yyyy-MM-dd HH:mm')",
    "strptime": "write to_timestamp(s, 'yyyy-MM-dd HH:mm')",
    "convert_timezone": "write from_utc_timestamp(to_utc_timestamp(t, 'Europe/Paris'), 'Asia/Tokyo')",
    "convert_tz": "write from_utc_timestamp(to_utc_timestamp(t, 'Europe/Paris'), 'Asia/Tokyo')",
    "timestamp_diff": "write timestampdiff(SECOND, b, a) for a - b",
    "timestamp_add": "write t + INTERVAL 5 MINUTES",
    "timestamp_sub": "write t - INTERVAL 5 MINUTES",
    "make_interval": "write INTERVAL 5 MINUTES",
    "format_string": _FORMAT,
    "printf": _FORMAT,
    "hash": "write xxhash64(x), or md5(x)",
    "to_number": "write CAST(s AS DOUBLE), or AS DECIMAL(10, 2)",
    "str_to_map": _OWN_FUNCTION,
    "soundex": _OWN_FUNCTION,
    "conv": _OWN_FUNCTION,
    "url_extract_host": "write parse_url(url, 'HOST')",
    "url_extract_path": "write parse_url(url, 'PATH')",
    "url_extract_query": "write parse_url(url, 'QUERY')",
    "url_extract_parameter": "write parse_url(url, 'QUERY', 'name')",
    "countif": "write count(*) FILTER (WHERE x > 3)",
    "sumif": "write sum(x) FILTER (WHERE x > 3)",
    "uniq": "write approx_count_distinct(x)",
    "uniqexact": "write count(DISTINCT x)",
    "quantile": "write percentile(x, 0.9)",
    "argmax": "write max_by(x, y)",
    "argmin": "write min_by(x, y)",
    "grouparray": "write collect_list(x)",
    "generate_series": "FROM GENERATOR (rate 10, ...) makes a stream of numbers",
    "uuid": "values are not generated in queries: results must be the same after a restart",
    "gen_random_uuid": "values are not generated in queries: results must be the same after a restart",
    "window": _IN_GROUP_BY,
    "json_exists": "write get_json_object(s, '$.name') IS NOT NULL",
    "json_object": "write to_json(named_struct('name', x))",
    "json_array": "write to_json(array(x, y))",
    "json_objectagg": "write to_json(struct(collect_list(key), collect_list(value)))",
    "truncate": "write trunc(d, 'month') for a day, floor(x) or CAST(x AS BIGINT) for a number",
    "array_reverse": "write transform(sequence(size(xs), 1, -1), i -> element_at(xs, i))",
    "array_slice": "write slice(xs, 2, 3): three elements from the second one on",
    "from_base64": "write decode(unbase64(s), 'UTF-8')",
    "regexp_split_to_array": "write split(s, 'pattern')",
    "string_to_array": "write split(s, 'pattern'), or split_part(s, ',', 1)",
    "regexp_instr": "write position(regexp_substr(s, 'pattern'), s)",
    "regexp_match": "write regexp_extract(s, '(pattern)', 1)",
    "try_sum": "write sum(x)",
    "try_avg": "write avg(x)",
    "try_add": "write a + b",
    "try_subtract": "write a - b",
    "try_multiply": "write a * b",
    "try_mod": "write a % b: by zero it is NULL",
    "stack": "write a UNION ALL of one SELECT for each row",
    "assert_true": "write WHERE NOT (condition) into a query of its own, with a rule or an alert on its results",
    "raise_error": "write CASE WHEN ... THEN ... ELSE CAST(NULL AS STRING) END, and test for NULL",
    "current_user": "there are no users and roles",
    "cumulate": "write it in FROM: TABLE(CUMULATE(TABLE s, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '1' DAY))",
    "nth_value": "write LAG(x, n) OVER (PARTITION BY id ORDER BY rowtime), the value n tuples before",
    "cume_dist": _RANK,
    "monotonically_increasing_id": "values are not generated in queries: results must be the same after a restart",
    "input_file_name": "write it into the records; a query does not see which file a record comes from",
    "mask": "write 'xxx' in its place, or substring(x, 1, 2) || 'xxx'",
}

#: Functions of other systems that name a window in GROUP BY.
BUCKETS = {
    "time_bucket", "date_bin", "tostartofinterval", "tostartofminute", "tostartofhour", "tumblingwindow",
    "hoppingwindow", "slidingwindow", "sessionwindow", "time_window",
}  # fmt: skip
FUNCTIONS |= dict.fromkeys(BUCKETS, "write window(at, '10 seconds') in GROUP BY; " + _TUMBLING.replace("write ", "or "))

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
    ("SAMPLE", "BY"): _TUMBLING,
    ("SAMPLE", NUMBER): "filter the stream, for example WHERE id % 10 = 0",
    ("TIMESTAMP", "BY"): _WATERMARK,
    ("MATCH_CONDITION", "("): _AS_OF,
    ("*", "*"): "write pow(x, 2)",
    ("READ_FILES", "("): "write CREATE STREAM name (...) FROM FILES (path 'data'), or CREATE TABLE, and FROM name",
    ("READ_KAFKA", "("): "write CREATE STREAM name (column TYPE, ...) FROM KAFKA (...), and FROM name",
    ("EMIT", "CHANGES"): _NO_EMIT,
    ("EMIT", "FINAL"): _NO_EMIT,
    ("EMIT", "STREAM"): _NO_EMIT,
    ("EMIT", "ON"): _NO_EMIT,
    ("EMIT", "AFTER"): _NO_EMIT,
    ("WINDOW", "TUMBLING"): _TUMBLING,
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
    ("WIN", ":"): _TUMBLING,
    ("STD", ":"): "write SELECT DISTINCT, or last(x) with GROUP BY",
    ("#", "TIME"): _SLIDING_TUPLE,
    ("#", "TIME_BATCH"): _TUMBLING,
    ("#", "EXT_TIMED"): _SLIDING_TUPLE,
    ("#", "LENGTH"): _ROWS,
    ("#", "LENGTH_BATCH"): _ROWS,
    ("#", "KEEPALL"): "write [UNBOUNDED] after the stream",
    ("#", "LASTEVENT"): "write [NOW] after the stream",
    ("#", "UNIQUE"): "write last(x) with GROUP BY",
    ("#", "GROUPWIN"): "write GROUP BY",
    ("WITHIN", NUMBER): "give both streams a window: FROM a [RANGE 5 MINUTES] JOIN b [RANGE 5 MINUTES] ON a.id = b.id",
}

#: By the name of a clause of SELECT that can be parsed but not run.
CLAUSES = {
    "OFFSET": "leave OFFSET out: LIMIT 10 delivers the first 10 results and then nothing more; "
    "ORDER BY n DESC LIMIT 10 OFFSET 10 gives places 11 to 20 of each window",
    "TABLESAMPLE": "filter the stream, for example WHERE id % 10 = 0",
    "HINT": "leave the hint out: tables are sent to all tasks, and the plans of joins change with the data",
    "FOR UPDATE": "leave FOR UPDATE out: results are not rows that others change",
    "CLUSTER": _SPREAD,
    "DISTRIBUTE": _SPREAD,
    "SORT": _SPREAD,
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
    "VALUES": "put the rows into a file: CREATE TABLE t (id INT, name STRING) FROM FILES (path 'rows.csv')",
    "INTERSECT": "write WHERE x IN (SELECT y FROM table), or join the streams: a [RANGE 1 HOUR] JOIN b ...",
    "EXCEPT": "write WHERE x NOT IN (SELECT y FROM table), or LEFT JOIN a stream and test that its key IS NULL",
}


#: Expressions of sqlglot as they are written.
WRITTEN = {
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
