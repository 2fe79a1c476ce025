"""All operators that a graph may hold: the closed union of their specs, in one literal."""

from __future__ import annotations

from typing import TypeAlias

from headrace.operators.distinct import Distinct
from headrace.operators.edges import Exchange, Output, Receive, Scan
from headrace.operators.events.detect import Detect
from headrace.operators.filter import Filter
from headrace.operators.impute import Impute
from headrace.operators.join import Join
from headrace.operators.ordered_join import OrderedJoin
from headrace.operators.ordered_union import OrderedUnion
from headrace.operators.pace import Pace
from headrace.operators.panes import PaneAggregate, PartialAggregate
from headrace.operators.project import Project
from headrace.operators.reorder import Reorder
from headrace.operators.rows_join import RowsJoin
from headrace.operators.rows_window import RowsAggregate
from headrace.operators.sequence_join import SequenceJoin
from headrace.operators.session_window import SessionAggregate
from headrace.operators.sliding import SlidingAggregate
from headrace.operators.suppress import Suppress
from headrace.operators.table_join import TableJoin
from headrace.operators.union import Union
from headrace.operators.while_window import WhileAggregate

Spec: TypeAlias = (
    Detect
    | Distinct
    | Exchange
    | Filter
    | Impute
    | Join
    | OrderedJoin
    | OrderedUnion
    | Output
    | Pace
    | PaneAggregate
    | PartialAggregate
    | Project
    | Receive
    | Reorder
    | RowsAggregate
    | RowsJoin
    | Scan
    | SequenceJoin
    | SessionAggregate
    | SlidingAggregate
    | Suppress
    | TableJoin
    | Union
    | WhileAggregate
)

__all__ = [
    "Detect",
    "Distinct",
    "Exchange",
    "Filter",
    "Impute",
    "Join",
    "OrderedJoin",
    "OrderedUnion",
    "Output",
    "Pace",
    "PaneAggregate",
    "PartialAggregate",
    "Project",
    "Receive",
    "Reorder",
    "RowsAggregate",
    "RowsJoin",
    "Scan",
    "SequenceJoin",
    "SessionAggregate",
    "SlidingAggregate",
    "Spec",
    "Suppress",
    "TableJoin",
    "Union",
    "WhileAggregate",
]
