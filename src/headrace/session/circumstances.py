"""What statements need to know of the deployment: its buckets, its grids, and what was measured in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from headrace.analysis.forecast.facts import Facts
from headrace.catalog.definitions import Query
from headrace.catalog.references import references, references_of
from headrace.driver.deployed import Deployments
from headrace.engine.statistics import Statistics
from headrace.graph.graph import VertexId
from headrace.hosts.host import Deployment
from headrace.language.syntax import statements
from headrace.language.syntax.names import Name
from headrace.session.forecast import measured
from headrace.session.grids import GridChoice
from headrace.session.transaction import Transaction


class Circumstances:
    """A deployment as statements see it."""

    def __init__(self, deployment: Deployment, deployments: Deployments) -> None:
        self.deployment, self.deployments = deployment, deployments

    @property
    def statistics(self) -> Statistics:
        """What was counted up to the last micro-batch."""
        return self.deployment.delivery.statistics

    def count_of_buckets(self, transaction: Transaction) -> int:
        """Return among how many buckets keys are divided, or will be."""
        return len(transaction.deployed.in_use(self.deployment.buckets)) or self.deployment.expected_buckets()

    def cells(self, transaction: Transaction) -> Callable[[VertexId], int]:
        """Return a function that says among how many buckets a vertex is divided, or would be."""
        return partial(transaction.deployed.cells, buckets=self.count_of_buckets(transaction))

    def choose_grid(self, transaction: Transaction, name: str, reads: Iterable[str]) -> GridChoice:
        """Return which joins of a query run in a grid; it has those of the query of its name and of those it reads."""
        others = (transaction.running.get(other) for other in (name, *transaction.catalog.queries_in(reads)))
        return GridChoice(
            transaction.deployed.grid,
            self.count_of_buckets(transaction),
            lambda: self.measured(transaction).rates,
            [query.graph for query in others if query is not None],
        )

    def grid_of(self, statement: statements.Explain, transaction: Transaction) -> GridChoice:
        """Return the same for the target of an EXPLAIN."""
        if not isinstance(statement.target, Name):
            return self.choose_grid(transaction, "", references_of(statement.target).relations)
        known = transaction.catalog.get(statement.target.text)
        reads = references(known.text).relations if isinstance(known, Query) else ()
        return self.choose_grid(transaction, statement.target.text, reads)

    def speed(self) -> float:
        """Return the busy seconds per second of a micro-batch: the number of cores, until it is measured."""
        latest = self.deployment.control.latest
        return float(self.deployment.cores) if latest is None else latest.machine.speed

    def measured(self, transaction: Transaction) -> Facts:
        """Return what was measured in the deployment."""
        return measured(
            self.statistics,
            self.deployment.control.latest,
            transaction.catalog.streams(),
            overhead=self.deployment.overhead,
        )
