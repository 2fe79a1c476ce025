"""Sources, sinks and stored relations."""

from headrace.connectors.memory import push
from headrace.connectors.relation import check_table, infer_schema, read_table
from headrace.connectors.table import SINKS, SOURCES, check_sink, check_source

__all__ = ["SINKS", "SOURCES", "check_sink", "check_source", "check_table", "infer_schema", "push", "read_table"]
