"""Sources, sinks and stored relations."""

from headrace.connectors.files.rolling_sink import finish_dropped
from headrace.connectors.files.tables import check_table, infer_schema, read_table
from headrace.connectors.kinds import (
    SINKS,
    SOURCES,
    STAGING_SINKS,
    check_sink,
    check_source,
    is_by_key,
    key_of,
    make_sink,
    make_source,
    make_staging_sink,
)
from headrace.connectors.memory import push

__all__ = [
    "SINKS",
    "SOURCES",
    "STAGING_SINKS",
    "check_sink",
    "check_source",
    "check_table",
    "finish_dropped",
    "infer_schema",
    "is_by_key",
    "key_of",
    "make_sink",
    "make_source",
    "make_staging_sink",
    "push",
    "read_table",
]
