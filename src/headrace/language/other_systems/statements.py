"""Words of other systems in statements: the first, those after CREATE, DROP or SHOW, and those of columns and types."""

from __future__ import annotations

from headrace.language.other_systems.hints import SPREAD

_NO_CHANGES = (
    "rows are not changed by statements; the source of a stream or table brings them, and a query with INTO POSTGRES "
    "(..., key 'id') keeps a table up to date"
)
_FIELDS = "write its fields: STRUCT<id: INT, name: STRING>"
_JSON_TYPE = "keep it as STRING and read it with get_json_object or from_json, or declare ARRAY, MAP or STRUCT"
_NO_TRANSACTION = "leave it out: the statements of a script take effect together, or none does"
_ONE_CATALOG = "leave it out: all names are in one catalog"
_AS_QUERY = "write CREATE QUERY name AS SELECT ..., or CREATE VIEW name AS SELECT ... to only name it"
_SOURCE = "write FROM KIND (options), such as FROM FILES (path 'data', format 'parquet')"
_NOT_NEEDED = "leave it out: nothing has to be maintained by hand"
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
    "PARTITION BY": SPREAD,
    "PARTITION": SPREAD,
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
    "TABLE": "leave TABLE out",
    "STREAM": "leave STREAM out",
    "QUERY": "leave QUERY out",
    "VERBOSE": "leave VERBOSE out; EXPLAIN ANALYZE shows what was measured",
    "CODEGEN": "leave CODEGEN out",
    "LOGICAL": "leave LOGICAL out",
    "PHYSICAL": "leave PHYSICAL out",
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
    "METADATA": "FROM KAFKA reads METADATA FROM 'timestamp', 'partition' and 'offset'; the option key 'id' names the "
    "column that is the key of a record",
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
