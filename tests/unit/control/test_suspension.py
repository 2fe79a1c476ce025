"""The least important queries are suspended if promises that MUST hold are broken otherwise, and resumed later."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.commands.command import (
    DropQuery,
    SetPromises,
    StartQuery,
    StopQuery,
    Suspension,
    UseShedders,
    decode_command,
    encode_command,
)
from headrace.commands.running import Running
from headrace.control.controller import Memory, control
from headrace.control.observation import Observation
from headrace.control.situation import short_of_results, situation_of
from headrace.control.suspension import REST
from headrace.driver.deployed import Deployments
from headrace.model.qos import qos_of
from headrace.model.stint import Stint
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.simulation.micro_batches import Machine, SimulatedDeployment

SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE STREAM asks (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE STREAM views (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
"""
CAPACITY = (1 - Machine().fixed / 0.84) * Machine().cores / Machine().service  # in rounds of a latency of 2 s
MUST = "force, latency '2 s' MUST"


def query(name: str, stream: str, promises: str = "") -> str:
    return (
        f"CREATE QUERY {name} {f'WITH ({promises})' if promises else ''} AS SELECT auction, count(*) AS n "
        f"FROM {stream} [RANGE 1 SECOND] WHERE price > 10 GROUP BY auction INTO MEMORY;"
    )


def simulated(directory: Path, *queries: str) -> SimulatedDeployment:
    with Session(directory, host="local") as session:
        session.execute(SCRIPT + "".join(queries))
    deployments = Deployments(directory)
    return SimulatedDeployment(deployments.at(deployments.count()).running, directory)


def decided(run: SimulatedDeployment) -> list[tuple[str | None, str]]:
    return [
        (entry.query, entry.action)
        for entry in run.control.decisions.all()
        if entry.action in ("suspend it", "resume it")
    ]


def test_the_least_important_query_is_suspended_and_resumed_when_there_is_room(tmp_path: Path) -> None:
    run = simulated(
        tmp_path,
        query("strict", "bids", MUST),
        query("lazy", "asks", "priority 1"),
        query("useful", "views", "priority 3"),
    )
    run.run({"bids": 0.6 * CAPACITY, "asks": 0.6 * CAPACITY, "views": 0.2 * CAPACITY}, 120)
    assert decided(run) == [("lazy", "suspend it")]
    assert list(run.running.suspended) == ["lazy"]
    assert {active.query for active in run.running.queries} == {"strict", "useful"}
    assert run.latencies[-1] <= 2.0
    run.run({"bids": 0.1 * CAPACITY, "asks": 0.1 * CAPACITY, "views": 0.1 * CAPACITY}, 300)
    assert decided(run) == [("lazy", "suspend it"), ("lazy", "resume it")]
    assert not run.running.suspended
    suspended, resumed = [entry for entry in run.control.decisions.all() if entry.query == "lazy"]
    assert "strict: latency is" in suspended.reason
    assert "s of work per second" in suspended.reason
    assert "promises that MUST hold are kept, and the load would be" in resumed.reason


def test_nothing_is_suspended_before_all_that_may_be_lost_is_shed(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", f"{MUST}, error 0.5"), query("lazy", "asks", "error 0.5"))
    run.run({"bids": 0.7 * CAPACITY, "asks": 0.7 * CAPACITY}, 120)
    assert max(run.shares) > 0.1
    assert not decided(run)


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param((query("strict", "bids", MUST),), id="only one query"),
        pytest.param((query("strict", "bids", MUST), query("other", "asks", "memory '1 GB' MUST")), id="all MUST"),
        pytest.param((query("lazy", "bids"), query("useful", "asks")), id="nothing MUST"),
        pytest.param(
            (query("strict", "bids", "force, latency '100 ms' MUST"), query("lazy", "asks")), id="impossible latency"
        ),
    ],
)
def test_nothing_is_suspended_that_must_not_be_or_would_not_help(tmp_path: Path, queries: tuple[str, ...]) -> None:
    run = simulated(tmp_path, *queries)
    run.run({"bids": 2 * CAPACITY, "asks": CAPACITY}, 60)
    assert not decided(run)


def test_a_query_that_is_suspended_again_rests_longer(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", MUST), query("lazy", "asks"))
    for _ in range(2):
        while not run.running.suspended:
            run.run({"bids": 0.6 * CAPACITY, "asks": 0.7 * CAPACITY}, 1)
        while run.running.suspended:
            run.run({"bids": 0.1 * CAPACITY, "asks": 0.1 * CAPACITY}, 1)
    times = [entry.time for entry in run.control.decisions.all() if entry.query == "lazy"]
    first, second = times[1] - times[0], times[3] - times[2]
    assert REST <= first < 1.5 * REST
    assert 2 * REST <= second < 2.5 * REST


def test_a_suspended_query_stays_off_if_it_is_stopped_and_is_on_if_it_is_started(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", MUST), query("lazy", "asks"))
    command = StopQuery("lazy", 0, Suspension("strict: latency is too long", 5, 0.4))
    assert decode_command(encode_command(command)) == command
    suspended = run.running.after(command)
    assert suspended.suspended == {"lazy": Suspension("strict: latency is too long", 5, 0.4)}
    (lazy,) = suspended.stopped
    stopped = suspended.after(StopQuery("lazy", lazy.number))
    assert not stopped.suspended
    assert [query.query for query in stopped.stopped] == ["lazy"]
    started = suspended.after(StartQuery(Stint("lazy", lazy.number + 1)))
    assert not started.suspended
    assert {query.query for query in started.queries} == {"strict", "lazy"}
    assert not suspended.after(DropQuery("lazy")).suspended


def test_a_suspended_query_resumes_at_once_if_it_must_keep_a_promise_or_nothing_else_must(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", MUST), query("lazy", "asks"))
    run.run({"bids": 0.6 * CAPACITY, "asks": 0.9 * CAPACITY}, 60)
    assert list(run.running.suspended) == ["lazy"]
    seen = run.control.latest
    assert seen is not None

    def commands(running: Running) -> tuple[object, ...]:
        return control(run.control._memory, seen, running).commands

    start = StartQuery(Stint("lazy", run.running.stopped[0].number + 1))
    assert start not in commands(run.running)
    assert start in commands(run.running.after(SetPromises("strict", qos_of({}))))
    must = qos_of({"latency": "2 s", "latency.class": "MUST"})
    assert start in commands(run.running.after(SetPromises("lazy", must)))


def observed(run: SimulatedDeployment, *, results: float, behind: float) -> Observation:
    """Return the last observation, with so many results of the query `strict` and its stream so far behind."""
    seen = run.control.latest
    assert seen is not None
    strict = replace(seen.queries["strict"], throughput=results)
    return replace(seen, queries={**seen.queries, "strict": strict}, behind={"bids": behind})


def test_others_shed_for_a_throughput_that_must_be_kept_if_there_is_unread_input(tmp_path: Path) -> None:
    run = simulated(
        tmp_path,
        query("strict", "bids", "throughput '1000/s' MUST, error 0.3"),
        query("lazy", "asks", "error 0.3"),
    )
    run.run({"bids": 0.7 * CAPACITY, "asks": 0.9 * CAPACITY}, 30)
    memory = Memory({"strict": 0, "lazy": 0})
    enough, nothing_to_read = observed(run, results=2000.0, behind=9.0), observed(run, results=10.0, behind=0.0)
    for seen in (enough, nothing_to_read):
        assert not any(isinstance(command, UseShedders) for command in control(memory, seen, run.running).commands)
    running, said = run.running, []
    for _ in range(8):
        guidance = control(memory, observed(run, results=10.0, behind=9.0), running)
        memory, said = guidance.memory, [*said, *(decision.reason for decision in guidance.decisions)]
        for command in guidance.commands:
            running = running.after(command)
    assert {shedder.query for shedder in running.shedders} == {"lazy"}
    assert any("a throughput MUST be kept" in reason for reason in said)
    again = control(memory, enough, running)  # what helps goes on while it is needed
    assert not any(isinstance(command, UseShedders) and not command.shedders for command in again.commands)


def test_rows_that_take_long_to_read_are_unread_input_whatever_their_timestamps_say(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", "throughput '1000/s' MUST"), query("lazy", "asks"))
    run.run({"bids": 0.7 * CAPACITY, "asks": 0.9 * CAPACITY}, 30)
    seen = observed(run, results=10.0, behind=0.001)
    few, many = (replace(seen, unread_rows={"bids": round(seen.rates["bids"] * seconds)}) for seconds in (1, 9))
    begun = {"strict": 0, "lazy": 0}
    assert "strict" not in short_of_results(situation_of(few, run.running, begun))
    assert "strict" in short_of_results(situation_of(many, run.running, begun))


def test_a_query_is_suspended_for_a_throughput_that_must_be_kept(tmp_path: Path) -> None:
    run = simulated(tmp_path, query("strict", "bids", "throughput '1000/s' MUST"), query("lazy", "asks"))
    run.run({"bids": 0.7 * CAPACITY, "asks": 0.9 * CAPACITY}, 30)
    first = observed(run, results=10.0, behind=9.0)
    guidance = control(Memory({"strict": 0, "lazy": 0}), first, run.running)
    assert not any(isinstance(command, StopQuery) for command in guidance.commands)
    later = control(guidance.memory, replace(first, time=first.time + 21 * SECOND), run.running)
    (stop,) = [command for command in later.commands if isinstance(command, StopQuery)]
    assert stop.query == "lazy"
    assert stop.suspension is not None
    assert stop.suspension.reason == "strict: throughput is 10.0/s, promised 1000.0/s MUST"
