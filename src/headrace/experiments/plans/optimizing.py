"""The run-time optimizer of Headrace on a simulated join: the same estimates, search and policy as in a deployment."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.analysis.joins.join_facts import Shape, Tally, facts_of
from headrace.analysis.joins.migration_price import price_of
from headrace.control.policies.plan_choice import ChoiceMemory, Look, decide, signature_of
from headrace.model.join_tree import Tree
from headrace.model.time import SECOND
from headrace.operators.multijoin.seen import BoxSeen, How
from headrace.optimizer.joins.cost import Costs, Model
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import JoinGraph, Term, port_set
from headrace.optimizer.joins.search import search
from headrace.testing.simulation.box import price


def nested_loops(graph: JoinGraph) -> JoinGraph:
    """Return a join graph without keys: every pair is compared, as the published model has it."""
    keys = tuple(Term(port_set(known.ports), known.selectivity(port_set(known.ports))) for known in graph.classes)
    return JoinGraph(graph.streams, terms=(*keys, *graph.terms))


class Optimizer:
    """Looks at a join at intervals, and changes its plan at once; `changes` are the times of changes."""

    def __init__(self, shape: Shape, costs: Costs, *, every: float = 10.0) -> None:
        self._shape, self._costs, self._every = shape, costs, every
        self._tally, self._looked, self._memory = Tally(), 0.0, ChoiceMemory()
        self.changes: list[float] = []
        self.looks = 0

    def __call__(self, time: float, seen: BoxSeen, tick: float) -> tuple[Tree, How, int] | None:
        """Take in a report, and decide if it is time to."""
        self._tally = self._tally.after(seen, tick)
        if time - self._looked < self._every or seen.tree is None:
            return None
        self._looked, tally = time, self._tally
        self._tally = Tally(widths=tally.widths)
        self.looks += 1
        facts = facts_of(self._shape, tally)
        model = Model(nested_loops(facts.graph), self._costs)
        unmeasured = facts_of(self._shape, replace(tally, steps={}))
        steps = BoxSeen(ports=seen.ports, rows=seen.rows, steps=seen.steps, stored=seen.stored)
        self._memory, choice = decide(
            self._memory,
            Look(
                time=round(time * SECOND),
                running=model.plan(seen.tree),
                plans=search(model),
                limits=Limits(),
                price=lambda plan: price_of(model, seen.tree or 0, plan.tree).build,
                signature=signature_of(model.estimates),
                work=price(steps, self._costs) / tick,
                predicted=Model(nested_loops(unmeasured.graph), self._costs).plan(seen.tree).cpu,
            ),
        )
        if not choice.changes:
            return None
        self.changes.append(time)
        return choice.best.tree, "moving", 0
