"""Going on without the queries that make a micro-batch fail, while the others lose nothing.

A micro-batch that failed is repeated with the same offset. If the failure is due to certain queries, they are left out
of the repetition by a repair, and a command says for all later micro-batches that they have failed, and why. The
command comes first: a crash between the two only means that the micro-batch fails once more.
"""

from __future__ import annotations

import logging

from headrace.commands.command import FailQuery
from headrace.commands.repairs import Repair, add_repairs
from headrace.driver.deployed import Deployments
from headrace.errors import HeadraceError

_LOG = logging.getLogger(__name__)

#: A micro-batch is tried so often before the queries that make it fail are left out; Spark tries its tasks as often.
TRIES = 4


def exclude(deployments: Deployments, fault: HeadraceError, now: int) -> bool:
    """Leave the queries that a fault is due to out of the micro-batch that is repeated; return False if it must not be.

    It must not if the fault is due to no query, or if no other query would be left: then nothing need be lost, since
    the deployment can stop and continue once the cause is removed.
    """
    if not fault.culprits:
        return False
    running = deployments.newest()
    failing = [query for query in running.known if (query.query, query.incarnation) in fault.culprits]
    others = [query for query in running.known if query not in failing]
    if failing and not others:
        return False
    names = {query.query for query in failing}
    # a query may have been dropped, replaced or left out since the micro-batch was planned
    later = {query.query: query.incarnation - 1 for query in others}
    repairs = [Repair(name, later.get(name, running.commands)) for name in dict(fault.culprits)]
    if not failing and set(repairs) <= set(deployments.repairs()):
        return False  # they are left out already
    deployments.log.append(*(FailQuery(query, fault.message, now) for query in failing))
    add_repairs(deployments.log.directory, repairs)
    for name in sorted(names):
        _LOG.error(
            "query %s has failed and does not run any more: %s. The other queries go on. START QUERY %s tries it again",
            name,
            fault.message,
            name,
        )
    return True
