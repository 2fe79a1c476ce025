"""Which columns of a plan are its tuples' timestamps."""

from __future__ import annotations

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Stream
from headrace.elements.expression import Column
from headrace.plan.nodes import Aggregate, Distinct, Filter, Join, Node, Order, Pace, Project, Scan, SequenceJoin, TableJoin, Union
from headrace.plan.scope import ROWTIME


def time_columns(node: Node, catalog: Catalog) -> frozenset[str]:
    """The columns that always equal the timestamp of their tuple."""
    match node:
        case Scan(name=name):
            stream = catalog.get(name)
            return frozenset({stream.time_column} if isinstance(stream, Stream) and stream.time_column is not None else ())
        case Project(input=below, columns=columns):
            known = time_columns(below, catalog)
            return frozenset(name for name, expr in columns if expr == ROWTIME or (isinstance(expr, Column) and expr.name in known))
        case Filter() | TableJoin() | Distinct() | Order():
            return time_columns(node.input, catalog)
        case Union(inputs=nodes) | Pace(inputs=nodes):
            return frozenset.intersection(*(time_columns(each, catalog) for each in nodes))
        case SequenceJoin(right=right, right_names=names):
            known = time_columns(right, catalog)
            return frozenset(name for name, own in zip(names, right.schema.names, strict=True) if own in known)
        case Aggregate():
            return frozenset({"window_end"})
        case Join():
            return frozenset()
