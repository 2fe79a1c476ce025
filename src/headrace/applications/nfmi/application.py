"""Faults of a network: one alarm for each, with its consequences below it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.applications.application import Application, Check, Results
from headrace.applications.nfmi import desk
from headrace.applications.nfmi.container import CLEAR, OPEN, Container
from headrace.applications.nfmi.network import CIRCUITS, MINUTES, NETWORKS, NODES, network, write

#: What falls with a ring, beside the node that complains first.
CONSEQUENCES = NODES - 1 + CIRCUITS + NETWORKS


@dataclass(frozen=True)
class Nfmi(Application):
    """Which faults there are, what follows from each, and what is still to be repaired."""

    repeat: float = 5.0

    name = "nfmi"
    title = "Network faults: one alarm for each, out of thousands of messages"
    folder = "nfmi"
    shown = ("open_fibre", "open_isolated")
    watched = ("explain", "failing", "removed", "unreadable")

    def prepare(self, folder: Path, seed: int) -> None:
        write(network(seed, repeat=self.repeat), folder / "data")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Root alarms and consequences as the queries found them and as the container has them."""
        made = network(seed, repeat=self.repeat)
        container = Container(os.environ.get(desk.PLACE) or folder / "alarms.db")
        alarms = container.alarms()
        roots = {name: alarm for name, alarm in alarms.items() if alarm.parent is None}
        rings = {name: int(name.split()[1]) for name in roots if name.startswith("ring ")}
        repaired = [cut.ring for cut in made.cuts if cut.end < MINUTES * 60]
        slow = [cut.ring for cut in made.cuts if cut.end - cut.begin > 15 * 60]
        return (
            Check(
                "cut fibres, one alarm each",
                sorted(cut.ring for cut in made.cuts),
                sorted(row["ring"] for row in results["open_fibre"]),
            ),
            Check("circuits that failed alone", made.lonely, [row["source"] for row in results["open_isolated"]]),
            Check(
                "consequences of each cut",
                [CONSEQUENCES] * len(made.cuts),
                [row["complaint_count"] for row in results["explain"]],
            ),
            Check("modules that fail again and again", made.repeated, [row["module"] for row in results["failing"]]),
            Check("trunks taken out for too long", made.stuck, [row["module"] for row in results["removed"]]),
            Check("messages that nobody can read", made.broken, len(results["unreadable"])),
            Check("root alarms in the container", len(made.cuts) + len(made.lonely), len(roots)),
            Check("consequences in the container", CONSEQUENCES * len(made.cuts), len(alarms) - len(roots)),
            Check("tickets, all different", len(alarms), len({alarm.ticket for alarm in alarms.values()})),
            Check(
                "escalated",
                sorted(slow),
                sorted(ring for name, ring in rings.items() if roots[name].severity == "CRITICAL"),
            ),
            Check(
                "closed", sorted(repaired), sorted(ring for name, ring in rings.items() if roots[name].status == CLEAR)
            ),
            Check(
                "still open",
                sorted(cut.ring for cut in made.cuts if cut.ring not in repaired),
                sorted(ring for name, ring in rings.items() if roots[name].status == OPEN),
            ),
        )
