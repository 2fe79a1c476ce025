"""Work that waits for others is bounded, and is done in portions when it need not wait any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.commands.command import EndQuery, SetPromises, StopQuery
from headrace.commands.running import Running
from headrace.control.controller import Guidance, Memory, control
from headrace.control.decisions import CatchUp
from headrace.control.observation import Observation
from headrace.control.policies.budget import MAX_WAITING
from headrace.control.suspension import LARGEST_BACKLOG
from headrace.driver.deployed import Deployments
from headrace.model.qos import qos_of
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.simulation.micro_batches import SimulatedDeployment

SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE QUERY strict WITH (force, latency '1 s' {strictness}) AS SELECT auction, count(*) AS n
      FROM bids [RANGE 1 SECOND] WHERE price > 10 GROUP BY auction INTO MEMORY;
    CREATE QUERY lazy AS SELECT auction, max(price) AS most FROM bids [RANGE 1 MINUTE] GROUP BY auction INTO MEMORY;
"""


class Backlog:
    """A controller and what it is told: queries of which one shares a stream with a strict one, and waits for it."""

    def __init__(self, directory: Path, strictness: str) -> None:
        with Session(directory, host="local") as session:
            session.execute(SCRIPT.format(strictness=strictness))
        deployments = Deployments(directory)
        run = SimulatedDeployment(deployments.at(deployments.count()).running, directory)
        run.run({"bids": 10_000}, 10)
        assert run.control.latest is not None
        self.observation: Observation = run.control.latest
        self.running: Running = run.running
        self.memory: Memory = run.control._memory
        self.guidance = Guidance(self.memory)

    def look(self, waiting: int) -> Guidance:
        """Let a second pass after which so many tuples wait for `lazy`."""
        seen = self.observation
        queries = {
            name: replace(query, waiting=waiting if name == "lazy" else 0) for name, query in seen.queries.items()
        }
        self.observation = replace(seen, time=seen.time + SECOND, queries=queries, unread=waiting)
        self.guidance = control(self.memory, self.observation, self.running)
        self.memory = self.guidance.memory
        for command in self.guidance.commands:
            self.running = self.running.after(command)
        for query in self.running.ending:
            self.running = self.running.after(EndQuery(query.query, query.number))
        return self.guidance

    @property
    def budget(self) -> int | None:
        return None if self.guidance.limits is None else self.guidance.limits.budget


@pytest.mark.parametrize("strictness", ["MUST", "BEST EFFORT"])
def test_what_waits_without_ever_catching_up_is_bounded(tmp_path: Path, strictness: str) -> None:
    backlog, waiting, arriving = Backlog(tmp_path, strictness), 0, 400_000
    for _ in range(60):
        stops = [command for command in backlog.look(waiting).commands if isinstance(command, StopQuery)]
        if stops:
            break
        waiting += arriving
    assert LARGEST_BACKLOG < waiting <= LARGEST_BACKLOG + arriving
    (stop,) = stops
    assert stop.query == "lazy"
    assert stop.suspension is not None
    assert "tuples wait for it, more than may" in stop.suspension.reason
    assert list(backlog.running.suspended) == ["lazy"]
    backlog.look(0)
    assert list(backlog.running.suspended) == ["lazy"]  # until there is room for it


def test_a_query_catches_up_in_portions_if_only_a_best_effort_suffers_from_it(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, "BEST EFFORT")
    backlog.look(1000)
    usual = backlog.budget
    assert usual is not None
    begun = backlog.look(MAX_WAITING + 1)
    assert (backlog.budget or 0) > 2 * usual
    assert [decision.action for decision in begun.decisions if isinstance(decision, CatchUp)] == ["let it catch up"]
    backlog.look(MAX_WAITING * 2 // 3)
    assert (backlog.budget or 0) > 2 * usual
    ended = backlog.look(MAX_WAITING // 3)
    assert (backlog.budget or 0) < 2 * usual
    assert [decision.action for decision in ended.decisions if isinstance(decision, CatchUp)] == ["let it wait again"]


def test_nothing_catches_up_at_the_cost_of_a_latency_that_must_hold(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, "MUST")
    backlog.look(1000)
    usual = backlog.budget
    backlog.look(MAX_WAITING + 1)
    assert backlog.budget == usual


def test_the_limit_is_lifted_only_when_waiting_work_was_done_in_portions(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path, "MUST")
    backlog.look(100_000)
    usual = backlog.budget
    assert usual is not None
    backlog.running = backlog.running.after(SetPromises("strict", qos_of({})))
    backlog.look(100_000)
    assert (backlog.budget or 0) > usual
    backlog.look(50_000)
    assert (backlog.budget or 0) > usual
    backlog.look(0)
    assert backlog.guidance.limits is not None
    assert backlog.budget is None
