"""How large a statement may be: what is accepted runs, what is larger is refused when it is bound.

Every process that works on an expression or a plan walks it recursively, and Python's stack is limited. The depths
leave more than half of it to the callers. docs/reference/limits.md lists each limit and its error.
"""

from __future__ import annotations

from typing import Final

from headrace.model.time import MILLISECOND, MINUTE

#: Levels of operators and functions in an expression. Chains of AND, OR and || are one level.
EXPRESSION_DEPTH: Final = 100
#: Values, columns, operators and functions in one expression.
EXPRESSION_PARTS: Final = 200_000
#: Values of one IN list.
IN_VALUES: Final = 20_000
#: Columns of a stream, a table, or one SELECT.
COLUMNS: Final = 2_000
#: Joins of one FROM clause.
JOINS: Final = 32
#: Operators and parts of one event expression.
EVENT_OPERATORS: Final = 100
#: Levels of plan nodes, with the queries and views that are read.
PLAN_DEPTH: Final = 100
#: Plan nodes of one query. A view that is read twice counts twice.
PLAN_NODES: Final = 20_000
#: Windows that one tuple belongs to.
WINDOWS_PER_TUPLE: Final = 10_000
#: Characters to which lpad and rpad may fill a text.
PADDED_LENGTH: Final = 1_000_000
#: Values that sequence gives; of more it gives NULL.
SEQUENCE: Final = 100_000
#: Characters or elements, with those of elements, to which functions let a value grow; NULL takes its place.
GROWN_TEXT: Final = 10_000_000
GROWN_ARRAY: Final = 1_000_000
#: Rows that INSERT ... SELECT may leave in a table of an aggregate in SQL.
FOLD_ROWS: Final = 1_000_000
#: The shortest time between two occurrences of PERIODIC.
SHORTEST_PERIOD: Final = MILLISECOND
#: Tries of a call of a rule, and how long one may take: calls are made one after the other.
CALL_TRIES: Final = 100
CALL_TIMEOUT: Final = 10 * MINUTE
#: Bytes of one line that a SOCKET stream reads.
LINE_BYTES: Final = 1024 * 1024
