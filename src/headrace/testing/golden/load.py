"""The verb `decide` of golden scripts: what the controller decides when a simulated machine gets a load.

    decide bids 40000/s for 20s, 130000/s for 60s

Tuples of the stream arrive at these rates. The machine has two cores; a micro-batch takes 200 ms and 20 us more for
each tuple, divided among the cores. A line per decision says when it was made, for which query, what was decided, and
why.
"""

from __future__ import annotations

import re

from headrace.driver.deployed import Deployments
from headrace.model.time import SECOND
from headrace.session import Session
from headrace.testing.simulation.micro_batches import SimulatedDeployment
from headrace.testing.streams import parse_time


def decide(session: Session, text: str) -> list[str]:
    """Run a load on the queries of a session in numbers; return the decisions."""
    stream, _, phases = text.partition(" ")
    directory = session.directory / "simulated"
    directory.mkdir()
    deployment = SimulatedDeployment(Deployments(session.directory).newest(), directory)
    for phase in phases.split(","):
        rate = re.fullmatch(r"\s*(\d+)/s for (\w+)\s*", phase)
        if rate is None:
            raise ValueError(f"{phase!r}: write a rate and a time, such as 40000/s for 20s")
        deployment.run({stream: float(rate[1])}, parse_time(rate[2]) / SECOND)
    return [
        f"{decision.time / SECOND:.1f}s {decision.query or 'all'}: {decision.action} ({decision.reason})"
        for decision in deployment.control.decisions.all()
    ]
