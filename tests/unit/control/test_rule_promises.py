"""A rule that promises a latency gets it under overload: others give way, and the rule itself loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.driver.deployed import Deployments
from headrace.session import Session
from headrace.testing.simulation.micro_batches import Machine, SimulatedDeployment

SCRIPT = """
    CREATE STREAM bids (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE STREAM asks (at TIMESTAMP, auction BIGINT, price DOUBLE) TIMESTAMP BY at FROM MEMORY;
    CREATE SINK alarms INTO MEMORY;
    CREATE EVENT jump AS bids SEQUENCE bids AS next WITHIN 1 SECOND
      WHERE bids.auction = next.auction AND next.price > 2 * bids.price;
    CREATE QUERY counts {may} AS SELECT auction, count(*) AS n FROM asks [RANGE 1 SECOND] GROUP BY auction INTO MEMORY;
    CREATE RULE alarm {promise} ON jump DO INSERT INTO alarms;
"""
PROMISED_S = 2.0
PROMISE = "WITH (force, latency '2 s' MUST)"
CAPACITY = Machine().cores / Machine().service  # tuples a second, if micro-batches cost nothing


def overloaded(directory: Path, promise: str, may: str) -> SimulatedDeployment:
    """A minute of 1.2 times what the machine can process, in virtual time."""
    with Session(directory, host="local") as session:
        session.execute(SCRIPT.format(promise=promise, may=may))
    run = SimulatedDeployment(Deployments(directory).newest(), directory)
    run.run({"bids": 0.2 * CAPACITY, "asks": 0.1 * CAPACITY}, 10)
    run.run({"bids": 0.4 * CAPACITY, "asks": 0.8 * CAPACITY}, 60)
    return run


@pytest.mark.parametrize("may", ["WITH (error 0.5)", ""], ids=["others may lose tuples", "others may lose nothing"])
def test_the_promise_of_a_rule_leads_to_action_and_is_kept(tmp_path: Path, may: str) -> None:
    run = overloaded(tmp_path, PROMISE, may)
    told = [entry for entry in run.control.decisions.all() if entry.query is not None]
    assert {entry.query for entry in told} == {"counts"}, "the rule loses nothing and goes on"
    assert any(entry.action.startswith("shed " if may else "suspend it") for entry in told)
    if not may:
        assert any("alarm: latency is" in entry.reason for entry in told)
    assert "alarm" in {query.query for query in run.running.queries}
    assert max(run.latencies[-3:]) <= PROMISED_S


def test_without_the_promise_nothing_is_done_and_detections_are_late(tmp_path: Path) -> None:
    run = overloaded(tmp_path, "", "WITH (error 0.5)")
    assert [entry for entry in run.control.decisions.all() if entry.query is not None] == []
    assert run.latencies[-1] > PROMISED_S
