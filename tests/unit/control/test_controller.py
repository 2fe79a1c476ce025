"""The loop closed over a machine that is simulated: rounds that take longer the more work they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.commands.command import Set
from headrace.commands.settings import Budget, Scheduler
from headrace.control.controller import Memory, control
from headrace.control.policies.budget import MIN_BUDGET_NS
from headrace.driver.deployed import Deployments
from headrace.engine.statistics import VertexCounts
from headrace.session import Session
from headrace.testing.simulation.micro_batches import Machine, SimulatedDeployment

SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE QUERY dear {promise} AS SELECT auction, count(*) AS n FROM bids [RANGE 1 SECOND] WHERE price > 10
      GROUP BY auction INTO MEMORY;
"""
MUST = "WITH (force, latency '2 s' MUST, error 0.35)"
FIXED, SERVICE, CORES = Machine().fixed, Machine().service, Machine().cores


def simulated(directory: Path, promise: str, machine: Machine | None = None) -> SimulatedDeployment:
    with Session(directory, host="local") as session:
        session.execute(SCRIPT.format(promise=promise))
    deployments = Deployments(directory)
    return SimulatedDeployment(deployments.at(deployments.count()).running, directory, machine)


@pytest.mark.parametrize("overload", [1.2, 1.35])
def test_what_must_hold_holds_in_an_overload_and_nothing_is_shed_after_it(tmp_path: Path, overload: float) -> None:
    capacity = (1 - FIXED / 0.84) * CORES / SERVICE  # in rounds that are short enough
    run = simulated(tmp_path, MUST)
    run.run({"bids": 0.5 * capacity}, 20)
    assert not any(run.shares)
    before = len(run.latencies)
    run.run({"bids": overload * capacity}, 60)
    settled = list(range(before, len(run.latencies)))[12:]
    assert max(run.latencies[at] for at in settled) <= 2.0
    assert 0.0 < max(run.shares) <= 0.35
    run.run({"bids": 0.5 * capacity}, 30)
    assert run.shares[-1] == 0.0
    assert {decision.query for decision in run.control.decisions.all()} >= {"dear"}


def test_no_more_is_shed_than_may_be_lost_and_that_it_is_not_enough_is_said(tmp_path: Path) -> None:
    run = simulated(tmp_path, "WITH (force, latency '2 s' MUST, error 0.1)")
    run.run({"bids": 2.0 * CORES / SERVICE}, 10)
    assert max(run.shares) <= 0.1
    assert any("missing" in decision.reason for decision in run.control.decisions.all())


@pytest.mark.parametrize("latency", ["", "latency '5 s' MUST, "])
def test_memory_that_must_suffice_does_so_while_more_comes_and_nothing_is_shed_after_it(
    tmp_path: Path, latency: str
) -> None:
    machine = Machine(held=5.0, size=100)
    run = simulated(tmp_path, f"WITH (force, {latency}memory '1 MB' MUST, error 0.5)", machine)
    run.run({"bids": 1000}, 60)
    assert not any(run.shares)
    run.run({"bids": 3000}, 60)  # 1.5 MB without shedding
    settled = len(run.memory) - len(run.memory) // 10
    assert max(run.memory[settled:]) <= 2**20
    assert 0.2 < run.shares[-1] <= 0.5
    assert any("shed" in entry.action and "memory is" in entry.reason for entry in run.control.decisions.all())
    run.run({"bids": 1000}, 60)
    assert run.shares[-1] == 0.0


def test_no_more_is_shed_for_memory_than_may_be_lost(tmp_path: Path) -> None:
    run = simulated(tmp_path, "WITH (force, memory '1 MB' MUST, error 0.1)", Machine(held=5.0, size=100))
    run.run({"bids": 10_000}, 60)
    assert max(run.shares) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "promise", ["", "WITH (force, latency '2 s' BEST EFFORT, error 0.35)", "WITH (force, latency '2 s' MUST)"]
)
def test_without_a_must_and_an_error_nothing_is_shed(tmp_path: Path, promise: str) -> None:
    run = simulated(tmp_path, promise)
    run.run({"bids": 1.5 * CORES / SERVICE}, 10)
    assert not any(run.shares)


def test_a_broken_promise_changes_the_scheduler_unless_a_user_has_chosen_one(tmp_path: Path) -> None:
    for pinned in (False, True):
        run = _with_broken_memory(tmp_path / str(pinned))
        run.running = run.running.after(Set(None, Budget("fixed", 10**9)))
        if pinned:
            run.running = run.running.after(Set(None, Scheduler("fifo")))
        run.run({"bids": 0.1 * CORES / SERVICE}, 5)
        assert _schedulers(run) == ({None: "fifo"} if pinned else {"dear": "segment"})
        assert run.running.costs


def test_without_a_budget_no_scheduler_is_chosen_since_it_would_change_nothing(tmp_path: Path) -> None:
    run = _with_broken_memory(tmp_path)
    load = {"bids": 0.1 * CORES / SERVICE}
    run.run(load, 5)
    assert _schedulers(run) == {}
    run.running = run.running.after(Set(None, Budget("fixed", 10**9)))
    run.run(load, 5)
    assert _schedulers(run) == {"dear": "segment"}
    run.running = run.running.after(Set(None, Budget("off")))
    run.run(load, 5)
    assert _schedulers(run) == {"dear": "none"}


def _with_broken_memory(folder: Path) -> SimulatedDeployment:
    """Return a deployment whose query breaks a promise about memory."""
    run = simulated(folder, "WITH (force, memory '1 kB' BEST EFFORT)")
    (vertex,) = (vertex.id for vertex in run.running.queries[0].graph if vertex.id.startswith("paneaggregate"))
    run.vertices[vertex] = VertexCounts(state_bytes=5000)
    return run


def _schedulers(run: SimulatedDeployment) -> dict[str | None, str]:
    return {query: choice.name for query, choice in run.running.schedulers.items()}


@pytest.mark.parametrize("scheduler", [None, "fifo"])
def test_queries_that_differ_in_strictness_get_a_budget_and_the_quick_one_comes_first(
    tmp_path: Path, scheduler: str | None
) -> None:
    lazy = (
        "CREATE QUERY lazy AS SELECT auction, max(price) AS most FROM bids [RANGE 1 MINUTE] GROUP BY auction "
        "INTO MEMORY;"
    )
    with Session(tmp_path, host="local") as session:
        session.execute(SCRIPT.format(promise="WITH (force, latency '1 s' MUST)") + lazy)
    deployments = Deployments(tmp_path)
    run = SimulatedDeployment(deployments.at(deployments.count()).running, tmp_path)
    if scheduler is not None:
        run.running = run.running.after(Set(None, Scheduler(scheduler)))
    run.run({"bids": 0.3 * CORES / SERVICE}, 10)
    assert run.limits is not None
    assert (run.limits.budget or 0) > MIN_BUDGET_NS
    assert {choice.name for choice in run.running.schedulers.values()} == {scheduler or "edf"}
    assert any("limit the work" in decision.action for decision in run.control.decisions.all())


def test_the_controller_decides_the_same_from_the_same_memory_and_observation(tmp_path: Path) -> None:
    run = simulated(tmp_path, MUST)
    run.run({"bids": 1.5 * CORES / SERVICE}, 5)
    seen = run.control.latest
    assert seen is not None
    memory = Memory({"dear": 0})
    first = control(memory, seen, run.running)
    assert first.decisions
    assert control(memory, seen, run.running) == first
    assert memory == Memory({"dear": 0})
