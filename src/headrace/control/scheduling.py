"""Which scheduler chooses the operators that run first, and the costs that it calculates with."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.commands.command import AddQuery, Command, Cost, Set, UseCosts
from headrace.commands.running import Running
from headrace.commands.settings import Fairness, Scheduler
from headrace.control.decisions import Decision, UseScheduler
from headrace.control.limits import WorkLimits
from headrace.control.observation import Observation, VertexCost
from headrace.control.policies.budget import differ
from headrace.control.policies.strategy import Keep, Past, UseStrategy, judge
from headrace.control.promise_checks import promise_phase
from headrace.control.sampling import Sampling
from headrace.control.situation import Situation
from headrace.engine.scheduling.schedulers import NONE
from headrace.graph.graph import VertexId
from headrace.model.time import SECOND

#: How often a query is judged: every two seconds at first, later between every half second and every eight.
FIRST_SAMPLING = Sampling(SECOND // 2, 8 * SECOND, 2 * SECOND)
#: Costs are sent at most so often (microseconds), and when one has changed by this share.
COSTS_INTERVAL, COSTS_CHANGE = 2 * SECOND, 0.3
#: The work of pages of so many tuples is compared.
SMALL_PAGE, LARGE_PAGE = 10, 10_000
#: The scheduler for a work budget.
BY_DEADLINE = "edf"


class Judged(Struct, frozen=True):
    """What is remembered of a query: changes of its strategy, how often it is judged, and when next."""

    past: Past = Past()
    sampling: Sampling = FIRST_SAMPLING
    due: int = 0


class SchedulingMemory(Struct, frozen=True):
    """What is remembered of each query, and the costs that were sent last, with their time."""

    judged: Mapping[str, Judged] = {}
    costs: Mapping[VertexId, Cost] = {}
    costs_at: int = -COSTS_INTERVAL


def schedule(
    memory: SchedulingMemory, situation: Situation, limits: WorkLimits | None
) -> tuple[SchedulingMemory, list[Command], list[Decision]]:
    """Choose schedulers unless users have: by deadline, or for queries with broken promises.

    Without a budget all work of a micro-batch is done in it, in whatever order: then no scheduler is chosen.
    """
    observation, running = situation.observation, situation.running
    if any(not chosen.auto for chosen in running.schedulers.values()):
        memory, commands = send_costs(memory, observation)
        return memory, commands, []
    decisions: list[UseScheduler] = []
    has_budget = limits is not None and limits.budget is not None
    by_deadline = has_budget and differ(running.promises().values())
    if by_deadline:
        decisions += _changed(running, UseScheduler(None, BY_DEADLINE, budget=True))
    elif _scheduler(running, None) == BY_DEADLINE:
        decisions.append(UseScheduler(None, NONE))
    elif not has_budget:
        decisions += [UseScheduler(name, NONE) for name, chosen in running.schedulers.items() if chosen.name != NONE]
    else:
        for query in running.queries:
            memory, changes = _judge(memory, query, situation)
            decisions += changes
    commands = [Set(change.query, Scheduler(change.scheduler, auto=True)) for change in decisions]
    commands += _fairness(running, limits, by_deadline=by_deadline)
    if commands or has_budget or any(chosen.name != NONE for chosen in running.schedulers.values()):
        memory, costs = send_costs(memory, observation)
        commands += costs
    return memory, commands, [*decisions]


def send_costs(memory: SchedulingMemory, observation: Observation) -> tuple[SchedulingMemory, list[Command]]:
    """Send what operators cost, if it differs much from what was sent."""
    costs = {name: _cost(cost) for name, cost in observation.costs.items()}
    if observation.time - memory.costs_at < COSTS_INTERVAL:
        return memory, []
    if not any(_differs(memory.costs.get(name), cost) for name, cost in costs.items()):
        return memory, []
    return replace(memory, costs=costs, costs_at=observation.time), [UseCosts(costs)]


def _judge(
    memory: SchedulingMemory, query: AddQuery, situation: Situation
) -> tuple[SchedulingMemory, list[UseScheduler]]:
    """Choose another strategy for a query with broken promises, if one would serve it better."""
    name, now = query.query, situation.observation.time
    judged = memory.judged.get(name, Judged())
    if now < judged.due:
        return memory, []
    checks = situation.checks[name]
    sampling = judged.sampling.after(checks[0].observed) if checks else judged.sampling
    past = judged.past.at(promise_phase(query.qos, situation.elapsed[name]))
    changes: list[UseScheduler] = []
    kept_past = judged.past
    match judge(checks, _scheduler(situation.running, name), past):
        case UseStrategy(strategy=strategy, past=kept_past, scores=scores, in_circles=in_circles):
            broken = tuple(check for check in checks if not check.is_kept)
            changes = _changed(situation.running, UseScheduler(name, strategy, broken, scores, in_circles))
        case Keep():
            pass
    judged = Judged(kept_past, sampling, now + sampling.period)
    return replace(memory, judged={**memory.judged, name: judged}), changes


def _changed(running: Running, decision: UseScheduler) -> list[UseScheduler]:
    """Return the decision, unless that scheduler is in force."""
    return [] if _scheduler(running, decision.query) == decision.scheduler else [decision]


def _fairness(running: Running, limits: WorkLimits | None, *, by_deadline: bool) -> list[Command]:
    """Give queries that may wait no turn before urgent ones while there is a budget, unless a user chose a fairness."""
    if limits is None:
        return []
    if by_deadline:
        return [Set(None, Fairness("none", auto=True))] if running.fairness == Fairness() else []
    return [Set(None, Fairness())] if running.fairness.auto else []


def _scheduler(running: Running, query: str | None) -> str:
    chosen = running.schedulers.get(query)
    return NONE if chosen is None else chosen.name


def _cost(cost: VertexCost) -> Cost:
    per_page, per_tuple = cost.parts
    return Cost(per_tuple * 1e9, cost.selectivity, cost.size_in, cost.size_out, per_page * 1e9)


def _differs(before: Cost | None, now: Cost) -> bool:
    if before is None:
        return True
    pairs = (
        (before.of(SMALL_PAGE), now.of(SMALL_PAGE)),
        (before.of(LARGE_PAGE), now.of(LARGE_PAGE)),
        (before.selectivity, now.selectivity),
        (before.size_in, now.size_in),
        (before.size_out, now.size_out),
    )
    return any(abs(after - value) > COSTS_CHANGE * value for value, after in pairs)
