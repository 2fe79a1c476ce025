"""All operators that a graph may hold: the closed union of their specs, in one literal."""

from __future__ import annotations

from typing import TypeAlias

from headrace.operators.endpoints import Exchange, Output, Receive, Scan
from headrace.operators.events.detect import Detect
from headrace.operators.joins.join import Join
from headrace.operators.joins.join_changes import JoinChanges
from headrace.operators.joins.membership import Membership
from headrace.operators.joins.ordered_join import OrderedJoin
from headrace.operators.joins.rows_join import RowsJoin
from headrace.operators.joins.sequence_join import SequenceJoin
from headrace.operators.joins.table_join import TableJoin
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.order.hold import Hold
from headrace.operators.order.leading import Leading
from headrace.operators.order.limit import Limit
from headrace.operators.order.ordered_union import OrderedUnion
from headrace.operators.order.pace import Pace
from headrace.operators.order.rank import Rank
from headrace.operators.order.reorder import Reorder
from headrace.operators.repeats.deduplicate import Deduplicate
from headrace.operators.repeats.distinct import Distinct
from headrace.operators.repeats.suppress import Suppress
from headrace.operators.rows.match import MatchRows
from headrace.operators.tuples.condense import Condense
from headrace.operators.tuples.filter import Filter
from headrace.operators.tuples.impute import Impute
from headrace.operators.tuples.project import Project
from headrace.operators.tuples.punctuate import Punctuate
from headrace.operators.tuples.union import Union
from headrace.operators.tuples.unnest import Unnest
from headrace.operators.windows.changes import Changes
from headrace.operators.windows.over import Over
from headrace.operators.windows.panes import PaneAggregate, PartialAggregate
from headrace.operators.windows.rows_window import RowsAggregate
from headrace.operators.windows.session_window import SessionAggregate
from headrace.operators.windows.sliding import SlidingAggregate
from headrace.operators.windows.while_window import WhileAggregate
from headrace.operators.windows.window_over import WindowOver

Spec: TypeAlias = (
    Changes
    | Deduplicate
    | Detect
    | Distinct
    | Exchange
    | Filter
    | Hold
    | Impute
    | Join
    | JoinChanges
    | Leading
    | Limit
    | MatchRows
    | Membership
    | MultiJoin
    | OrderedJoin
    | OrderedUnion
    | Output
    | Over
    | Pace
    | PaneAggregate
    | PartialAggregate
    | Project
    | Punctuate
    | Receive
    | Reorder
    | RowsAggregate
    | RowsJoin
    | Scan
    | SequenceJoin
    | SessionAggregate
    | SlidingAggregate
    | Rank
    | Suppress
    | TableJoin
    | Union
    | Condense
    | Unnest
    | WhileAggregate
    | WindowOver
)
