"""Rewrites for queries of which tuples may be shed.

They are not among the optimizer's RULES: they change what the plan computes once tuples are shed, and apply only if the
query allows an error. They run after the optimizer, so that no rule undoes them.
"""

from __future__ import annotations

from headrace.model.qos import Qos
from headrace.optimizer.shedding.carry_column import carry_column
from headrace.optimizer.shedding.weigh_aggregates import weigh_aggregates
from headrace.plan.nodes import Node


def prepare_for_shedding(plan: Node, qos: Qos) -> Node:
    """Make aggregates correct for random shedding, or keep the column by which tuples are shed.

    Return the plan itself if the query allows no error.
    """
    if not qos.error:
        return plan
    if qos.shed is None or qos.shed.attribute is None:
        return weigh_aggregates(plan)
    return carry_column(plan, qos.shed.attribute)
