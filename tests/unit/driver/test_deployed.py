"""What is deployed after some commands, and when it is built again."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.commands.command import Command, Cost, Set, SetPromises, ShedAt, UseCosts, UseShedders
from headrace.commands.settings import Budget, FeedbackReach, Scheduler, ShedShare
from headrace.driver.deployed import Deployments
from headrace.hosts.local import LocalDeployment
from headrace.model.qos import Qos
from headrace.session import Session

STATEMENTS = """
    CREATE STREAM s (at TIMESTAMP, k INT) TIMESTAMP BY at FROM MEMORY;
    CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k INTO MEMORY
"""


def deployments_before_and_after(directory: Path, command: Command) -> tuple[Deployments, int]:
    with Session(directory, host="local") as session:
        session.execute(STATEMENTS)
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.send(command)
        deployments = Deployments(directory)
        return deployments, deployments.count()


@pytest.mark.parametrize(
    "command", [UseCosts({"v": Cost(1.0, 1.0, 8.0, 8.0)}), Set("q", Scheduler("chain")), Set(None, Budget("off"))]
)
def test_what_concerns_buckets_alone_does_not_rebuild_the_ingest(tmp_path: Path, command: Command) -> None:
    deployments, count = deployments_before_and_after(tmp_path, command)
    before, after = deployments.at(count - 1), deployments.at(count)

    assert after.placement is before.placement
    assert (before.running.commands, after.running.commands) == (count - 1, count)


@pytest.mark.parametrize(
    "command",
    [
        UseShedders((ShedAt("v", 0, 0.5),)),
        Set("q", ShedShare(0.5)),
        Set(None, FeedbackReach("results")),
        SetPromises("q", Qos(error=0.5)),
    ],
)
def test_what_the_ingest_depends_on_rebuilds_it(tmp_path: Path, command: Command) -> None:
    deployments, count = deployments_before_and_after(tmp_path, command)

    assert deployments.at(count).placement is not deployments.at(count - 1).placement
