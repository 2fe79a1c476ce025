"""The plans of joins of several inputs: after each micro-batch, whether one of them changes, and how.

Reports are added up between looks. A look makes the join graph of what was counted, searches plans, and lets the policy
decide. Looks come every ten seconds, more often while much changes, and at once if memory runs short, tuples wait in
ever greater numbers, or a micro-batch finds far more or less than at the last look. Prices of the cost model are
corrected by the time that joins really take on this machine.

With `local_plans = 'auto'`, each bucket is looked at by itself, and changes alone. Buckets that change to the same tree
at the same time do so by one command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.analysis.joins.calibration import Calibration, parts_of
from headrace.analysis.joins.join_facts import FEW, Facts, Shape, Tally, facts_of
from headrace.analysis.joins.migration_price import Way, price_of, ways
from headrace.commands.command import Command, UseTree
from headrace.commands.running import Running
from headrace.control.decisions import BarPlan, ChangePlan, Decision
from headrace.control.policies.migration_choice import allowed_pause, allowed_portion, choose_way
from headrace.control.policies.plan_choice import Choice, ChoiceMemory, Look, decide, ended, signature_of
from headrace.control.policies.relief import SHARE_OF_PROMISE
from headrace.control.policies.triggers import Drift, Waiting, is_near
from headrace.control.sampling import Sampling
from headrace.control.situation import Situation, reading_work, work_in
from headrace.graph.graph import VertexId
from headrace.model.expressions.expression import columns
from headrace.model.join_tree import Tree, format_tree
from headrace.model.time import SECOND
from headrace.operators.multijoin.seen import BoxSeen
from headrace.operators.multijoin.spec import MultiJoin
from headrace.optimizer.joins.cost import Costs, Model, Plan
from headrace.optimizer.joins.front import Limits
from headrace.optimizer.joins.join_graph import port_set
from headrace.optimizer.joins.search import search

#: The price of what a join does, in seconds on one core, as measured without Spark. `Calibration` corrects them.
COSTS = Costs(
    store=180e-9,
    search=160e-9,
    candidate=20e-9,
    match=75e-9,
    step=300e-6,
    stored_byte=10e-9,
    derived_byte=3e-9,  # encoded, and written to a file
    row=24.0,
)
#: The shortest and longest time between two looks, and the first (microseconds).
_SHORTEST, _LONGEST, _FIRST = 2 * SECOND, 60 * SECOND, 10 * SECOND
#: The shortest time while the data drift; joins of more inputs take longer to search.
_SOONEST, _FEW_INPUTS = SECOND // 2, 6
#: A drift lasts at least so long: samples of keys follow it as old rows leave the windows.
_DRIFTING = 5 * SECOND


class View(Struct, frozen=True):
    """What the last look at a join found: for people who ask, too."""

    time: int
    facts: Facts
    costs: Costs
    limits: Limits
    running: Plan
    plans: tuple[Plan, ...]
    choice: Choice
    way: Way


class BoxMemory(Struct, frozen=True):
    """What is remembered of one join; `since` is the time of its last report, `changing` when a change began."""

    tally: Tally = Tally()
    since: int | None = None
    looked: int = 0
    sampling: Sampling = Sampling(_SHORTEST, _LONGEST, _FIRST)
    waiting: Waiting = Waiting()
    drift: Drift = Drift()
    drifted: int | None = None  # when a micro-batch last differed from the last look by far
    choice: ChoiceMemory = ChoiceMemory()
    calibration: Calibration = Calibration()
    learned: Mapping[int, float] = {}
    changing: int | None = None
    view: View | None = None

    def is_drifting(self, time: int) -> bool:
        """Return whether the data have differed from those of a look lately."""
        return self.drifted is not None and time - self.drifted < _DRIFTING


class PlanningMemory(Struct, frozen=True):
    """What is remembered of each join, and of the machine: a new join begins with what another has learned."""

    boxes: Mapping[VertexId, BoxMemory] = {}
    machine: Calibration = Calibration()
    local: Mapping[tuple[VertexId, int], BoxMemory] = {}  # the same by bucket, if each has its own plan


class Box(Struct, frozen=True):
    """A join of several inputs that runs: what it joins, the queries it works for, and the longest window (seconds)."""

    shape: Shape
    names: tuple[str, ...]
    queries: tuple[str, ...]
    window: float | None = None
    buckets: int = 1


class Part(Struct, frozen=True):
    """What is looked at: a join as a whole, or in one bucket; `whole` is what all its buckets did."""

    vertex: VertexId
    box: Box
    seen: BoxSeen
    whole: BoxSeen
    bucket: int | None = None

    def used(self, running: Running) -> UseTree | None:
        """Return the last change of plan."""
        return running.trees.get(self.vertex) if self.bucket is None else running.tree_in(self.vertex, self.bucket)

    def is_automatic(self, running: Running) -> bool:
        """Return whether the optimizer may change this: the plan of all buckets, or that of each."""
        is_local = running.local_plans == "auto" and self.box.buckets > 1
        return is_automatic(running, self.box) and is_local == (self.bucket is not None)

    def alone(self) -> Box:
        """Return the join with as many buckets as change together."""
        return self.box if self.bucket is None else replace(self.box, buckets=1)


def plan_joins(
    memory: PlanningMemory, situation: Situation, boxes: Mapping[VertexId, Box]
) -> tuple[PlanningMemory, list[Command], list[Decision]]:
    """Decide which joins change their plans."""
    kept, machine = {name: known for name, known in memory.boxes.items() if name in boxes}, memory.machine
    commands: list[Command] = []
    decisions: list[Decision] = []
    for name, box in boxes.items():
        seen = situation.observation.boxes.get(name)
        if seen is not None and len(seen.ports) == box.shape.ports:
            known = kept.get(name, BoxMemory(calibration=machine))
            known, change, reasons = _after(known, Part(name, box, seen, seen), situation)
            kept[name], machine = known, known.calibration
            commands, decisions = commands + ([] if change is None else [change]), decisions + reasons
    if situation.running.local_plans != "auto":
        return PlanningMemory(kept, machine), commands, decisions
    local, changes, reasons = _plan_buckets(memory, machine, situation, boxes)
    return PlanningMemory(kept, machine, local), [*commands, *changes], [*decisions, *reasons]


def _plan_buckets(
    memory: PlanningMemory, machine: Calibration, situation: Situation, boxes: Mapping[VertexId, Box]
) -> tuple[dict[tuple[VertexId, int], BoxMemory], list[UseTree], list[Decision]]:
    """Decide for each bucket by itself."""
    local: dict[tuple[VertexId, int], BoxMemory] = {}
    commands: list[UseTree] = []
    decisions: list[Decision] = []
    apart = situation.observation.apart
    for name, box in boxes.items():
        whole = situation.observation.boxes.get(name)
        trees = {bucket: seen[name].tree for bucket, seen in sorted(apart.items()) if name in seen}
        changes: list[tuple[UseTree, list[Decision]]] = []
        for bucket in trees if whole is not None and len(trees) > 1 else ():
            seen = apart[bucket][name]
            if whole is None or len(seen.ports) != box.shape.ports:
                continue
            known = memory.local.get((name, bucket), BoxMemory(calibration=machine))
            known, change, reasons = _after(known, Part(name, box, seen, whole, bucket), situation)
            local[name, bucket] = known
            if change is None:
                decisions += reasons
            else:
                changes.append((change, reasons))
        merged, reasons = _together(changes, trees, situation.running.tree_number(name))
        commands, decisions = commands + merged, decisions + reasons
    return local, commands, decisions


def _together(
    changes: Sequence[tuple[UseTree, list[Decision]]], trees: Mapping[int, Tree | None], number: int
) -> tuple[list[UseTree], list[Decision]]:
    """Return one command for buckets that change to the same tree in the same way; for all, if all run it then."""
    commands: list[UseTree] = []
    decisions: list[Decision] = []
    for first, _ in changes:
        alike = [entry for entry in changes if _same(entry[0], first)]
        if alike[0][0] is not first:
            continue
        buckets = tuple(bucket for change, _ in alike for bucket in change.buckets or ())
        others = {tree for bucket, tree in trees.items() if bucket not in buckets}
        is_common = others <= {first.tree}
        portion = max(change.portion for change, _ in alike)
        number += 1
        commands.append(replace(first, number=number, portion=portion, buckets=None if is_common else buckets))
        for reason in alike[0][1]:
            if isinstance(reason, ChangePlan):
                reason = replace(reason, buckets=[] if is_common else list(buckets))
            decisions.append(reason)
    return commands, decisions


def _same(one: UseTree, other: UseTree) -> bool:
    return (one.tree, one.how) == (other.tree, other.how)


def _after(memory: BoxMemory, part: Part, situation: Situation) -> tuple[BoxMemory, UseTree | None, list[Decision]]:
    """Take in one report of a join, and look at its plan if it is time to."""
    time, box, seen = situation.observation.time, part.box, part.seen
    if memory.since is None:
        return replace(memory, since=time, looked=time), None, []
    tally = memory.tally.after(seen, (time - memory.since) / SECOND)
    waiting = memory.waiting.after(_waits(box, situation), time)
    drifted = memory.drifted
    if memory.drift.is_over(seen):
        if not memory.is_drifting(time):  # what was counted before is of other data
            tally = memory.tally.begun_again(keeps_samples=True).after(seen, (time - memory.since) / SECOND)
        drifted = time
    drift = memory.drift.with_more(Drift.since(seen))
    memory = replace(memory, tally=tally, since=time, waiting=waiting, drift=drift, drifted=drifted)
    used = part.used(situation.running)
    if seen.migration is not None or (used is not None and seen.number < used.number):
        return replace(memory, changing=memory.changing or time), None, []
    if memory.changing is not None:  # the change is through; what was counted meanwhile belongs to no plan
        choice = ended(memory.choice, (time - memory.changing) / SECOND)
        tally = tally.begun_again(keeps_samples=False)
        return replace(memory, changing=None, choice=choice, tally=tally, looked=time), None, []
    limits = limits_of(box, situation, part.whole)
    is_auto = part.is_automatic(situation.running)
    is_short = is_near(_size(box, part.whole, situation), limits.memory)
    soonest = _SOONEST if memory.is_drifting(time) and box.shape.ports <= _FEW_INPUTS else _SHORTEST
    if not _is_due(memory, time, soonest if is_auto else _FIRST, is_short=is_short) or seen.tree is None:
        return memory, None, []
    if part.bucket is not None:  # its share of what the join may use
        limits = Limits(limits.cpu / box.buckets, limits.memory / box.buckets)
    found, change, decisions = _look(memory, part, seen.tree, limits, situation)
    return replace(found, drift=Drift.since(seen)), change, decisions


def _is_due(memory: BoxMemory, time: int, soonest: int, *, is_short: bool) -> bool:
    if sum(memory.tally.taken) < FEW or not memory.tally.samples:
        return False
    period = memory.sampling.period
    if memory.choice.confirming is not None and soonest < _FIRST:
        soonest = min(soonest, round(memory.choice.confirming * SECOND))
        period = min(period, round(memory.choice.confirming * SECOND))
    is_urgent = is_short or memory.waiting.is_ramp or memory.is_drifting(time)
    return time - memory.looked >= (soonest if is_urgent else max(period, soonest))


def _look(
    memory: BoxMemory, part: Part, tree: Tree, limits: Limits, situation: Situation
) -> tuple[BoxMemory, UseTree | None, list[Decision]]:
    tally, time, box = memory.tally, situation.observation.time, part.alone()
    facts = facts_of(box.shape, tally, memory.learned)
    calibration = memory.calibration.after(parts_of(tally, COSTS), tally.busy - tally.testing)
    costs = calibration.costs(COSTS)
    model = Model(facts.graph, costs)
    running, plans = model.plan(tree), search(model)
    latencies = _latencies(box, situation)
    portion = allowed_portion(latencies)

    def way_to(plan: Plan) -> Way:
        price = price_of(model, running.tree, plan.tree, buckets=box.buckets)
        found = ways(model, running.tree, plan.tree, price, buckets=box.buckets, window=box.window, portion=portion)
        return choose_way(found, allowed_pause(latencies))

    choice, outcome = decide(
        memory.choice,
        Look(
            time=time,
            running=running,
            plans=plans,
            limits=limits,
            price=lambda plan: way_to(plan).work,
            signature=signature_of(model.estimates),
            work=tally.busy / max(tally.seconds, 1e-9) + _stored(model, running),
            predicted=_predicted(memory, box, tally, tree),
            scarce_memory=is_near(running.memory, limits.memory),
            is_drifting=memory.is_drifting(time),
        ),
    )
    way = way_to(outcome.best)
    view = View(time, facts, costs, limits, running, plans, outcome, way)
    is_auto = part.is_automatic(situation.running)
    memory = replace(
        memory,
        tally=tally.begun_again(keeps_samples=True),
        looked=time,
        sampling=memory.sampling.after(running.cpu),
        choice=choice if is_auto or not outcome.changes else replace(choice, changed=memory.choice.changed, unproved=0),
        calibration=calibration,
        learned={**memory.learned, **facts.learned},
        view=view,
    )
    decisions: list[Decision] = []
    if outcome.wrong and is_auto:
        decisions.append(BarPlan(box.queries[0], format_tree(tree, box.names), outcome.wrong))
    if not (outcome.changes and is_auto):
        return memory, None, decisions
    number = situation.running.tree_number(part.vertex) + 1
    buckets = None if part.bucket is None else (part.bucket,)
    change = UseTree(part.vertex, number, outcome.best.tree, way.how, way.portion, buckets, auto=True)
    plan = format_tree(outcome.best.tree, box.names)
    decisions.append(ChangePlan(box.queries[0], plan, format_tree(tree, box.names), way.how, outcome.why))
    return memory, change, decisions


def is_automatic(running: Running, box: Box) -> bool:
    """Return whether the optimizer may change the plan of a join: nobody has turned it off, or set a plan."""
    return all(running.optimizer_of(query) == "auto" and query not in running.fixed_plans for query in box.queries)


def limits_of(box: Box, situation: Situation, seen: BoxSeen) -> Limits:
    """Return what a join may use: the processor that the rest leaves, and the memory.

    The memory is what its queries promise, and what other queries leave of the limit of the system.
    """
    observation, running = situation.observation, situation.running
    work = work_in(observation, running)
    own = seen.busy_ns  # what the join itself takes is no work of others
    others = reading_work(observation, running) + sum(work.values())
    others -= sum(seconds for vertex, seconds in work.items() if observation.boxes.get(vertex) is seen)
    latencies = _latencies(box, situation)
    machine = observation.machine
    if latencies and own:
        target = max(SHARE_OF_PROMISE * min(latencies), 2 * machine.fixed)
        speed = machine.room(target) / target
    else:
        speed = machine.speed
    memories = [
        qos.memory.curve.at(elapsed)
        for qos, elapsed in (situation.promises[query] for query in box.queries if query in situation.promises)
        if qos.memory is not None
    ]
    rest = running.memory_limit - sum(
        seen_query.memory or 0.0 for name, seen_query in observation.queries.items() if name not in box.queries
    )
    return Limits(max(0.1 * speed, speed - others), max(0.0, min([*memories, rest])))


def _size(box: Box, seen: BoxSeen, situation: Situation) -> float:
    """Return the bytes of state of a join and the queries that it works for."""
    known = [situation.observation.queries[name] for name in box.queries if name in situation.observation.queries]
    return max([float(sum(port.bytes for port in seen.ports)), *(query.memory or 0.0 for query in known)])


def _latencies(box: Box, situation: Situation) -> list[float]:
    """Return the latencies, in seconds, that the queries of a join promise."""
    promises = (situation.promises[query] for query in box.queries if query in situation.promises)
    return [qos.latency.curve.at(elapsed) / SECOND for qos, elapsed in promises if qos.latency is not None]


def _waits(box: Box, situation: Situation) -> float:
    """Return how many tuples wait before a join and in its sources."""
    observation = situation.observation
    streams = {
        stream.name for query in situation.running.queries if query.query in box.queries for stream in query.streams
    }
    waiting = sum(observation.queries[query].waiting for query in box.queries if query in observation.queries)
    rows = sum(observation.unread_rows.get(name, 0) for name in streams)
    return waiting + (rows or max((observation.behind.get(name, 0.0) for name in streams), default=0.0))


def _predicted(memory: BoxMemory, box: Box, tally: Tally, tree: Tree) -> float:
    """Return the work that samples alone, and the speed known so far, would let expect of a tree."""
    facts = facts_of(box.shape, replace(tally, steps={}), memory.learned)
    return Model(facts.graph, memory.calibration.costs(COSTS)).plan(tree).cpu


def _in_memory(model: Model, tree: Tree) -> float:
    """Return the work of a tree without that of the state store, which the join does not see."""
    return Model(model.graph, replace(model.costs, stored_byte=0.0, derived_byte=0.0)).plan(tree).cpu


def _stored(model: Model, plan: Plan) -> float:
    return plan.cpu - _in_memory(model, plan.tree)


def boxes_of(running: Running, buckets: int) -> dict[VertexId, Box]:
    """Return the joins of several inputs that run, with the queries that each works for."""
    found: dict[VertexId, Box] = {}
    for query in running.queries:
        for vertex in query.graph:
            spec = vertex.spec
            if isinstance(spec, MultiJoin):
                known = found.get(vertex.id)
                queries = (*(known.queries if known else ()), query.query)
                cells = running.cells(vertex.id, buckets)
                found[vertex.id] = Box(shape_of(spec, cells), labels_of(spec), queries, window_of(spec), cells)
    return found


def shape_of(spec: MultiJoin, buckets: int = 1) -> Shape:
    """Return what a join joins, as port numbers; in a grid, of so many buckets."""
    classes = tuple(tuple(port for port, expr in enumerate(members) if expr is not None) for members in spec.classes)
    owners = {name: port for port, names in enumerate(spec.names) for name in names}
    terms = (port_set({owners[name] for name in columns(term) if name in owners}) for term in spec.terms)
    between = tuple(ports for ports in terms if ports & (ports - 1))
    grid = () if spec.cells is None else spec.cells.sizes(buckets)
    return Shape(len(spec.inputs), classes, between, tuple(sorted(spec.conditions)), grid)


def labels_of(spec: MultiJoin) -> tuple[str, ...]:
    """Return the names of the inputs, for people."""
    return spec.labels or tuple(f"input{port}" for port in range(len(spec.inputs)))


def window_of(spec: MultiJoin) -> float | None:
    """Return the longest window, in seconds; None if one has no end."""
    spans = [None if extent is None else extent.span for extent in spec.extents]
    known = [span for span in spans if span is not None]
    return max(known) / SECOND if len(known) == len(spans) else None
