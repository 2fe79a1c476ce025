"""Network faults: one alarm for each, with its consequences attached."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.applications.application import Application, Check, Results
from headrace.applications.nfmi import desk
from headrace.applications.nfmi.container import CLEAR, OPEN, Alarm, Container
from headrace.applications.nfmi.network import CIRCUITS, MINUTES, NETWORKS, NODES, Cut, Network, network, write

#: The elements that fail with a ring, besides the node that complains first.
CONSEQUENCES = NODES - 1 + CIRCUITS + NETWORKS
#: Seconds after which a rule escalates a fault.
ESCALATION = 15 * 60


@dataclass(frozen=True)
class Nfmi(Application):
    """The faults of a network, the consequences of each, and which are not repaired yet."""

    repeat: float = 5.0

    name = "nfmi"
    title = "Network faults: one alarm for each, out of thousands of messages"
    folder = "nfmi"
    shown = ("open_fibre", "open_isolated")
    watched = ("explain", "failing", "removed", "unreadable")

    def prepare(self, folder: Path, seed: int) -> None:
        write(network(seed, repeat=self.repeat), folder / "data")

    def checks(self, seed: int, folder: Path, results: Results) -> Sequence[Check]:
        """Compare the faults with the results of the queries and with the alarm container."""
        planted = network(seed, repeat=self.repeat)
        alarms = Container(os.environ.get(desk.PLACE) or folder / "alarms.db").alarms()
        return (*_check_results(planted, results), *_check_container(planted, alarms))


def _check_results(planted: Network, results: Results) -> Sequence[Check]:
    """Compare the faults with the results of queries and rules."""
    cuts = len(planted.cuts)
    return (
        Check("cut fibers, one alarm each", _rings(planted.cuts), sorted(_values(results, "open_fibre", "ring"))),
        Check("circuits that failed alone", planted.isolated, _values(results, "open_isolated", "source")),
        Check("consequences of each cut", [CONSEQUENCES] * cuts, _values(results, "explain", "complaint_count")),
        Check("modules that fail repeatedly", planted.repeated, _values(results, "failing", "module")),
        Check("trunks taken out for too long", planted.stuck, _values(results, "removed", "module")),
        Check("unreadable messages", planted.broken, len(results["unreadable"])),
    )


def _check_container(planted: Network, alarms: Mapping[str, Alarm]) -> Sequence[Check]:
    """Compare the faults with the alarms in the container."""
    roots = [alarm for alarm in alarms.values() if alarm.parent is None]
    rings = [(int(alarm.alarm.split()[1]), alarm) for alarm in roots if alarm.alarm.startswith("ring ")]
    slow = [cut for cut in planted.cuts if cut.end - cut.begin > ESCALATION]
    repaired = [cut for cut in planted.cuts if cut.end < MINUTES * 60]
    unrepaired = [cut for cut in planted.cuts if cut not in repaired]
    critical = sorted(ring for ring, alarm in rings if alarm.severity == "CRITICAL")
    cleared = sorted(ring for ring, alarm in rings if alarm.status == CLEAR)
    still_open = sorted(ring for ring, alarm in rings if alarm.status == OPEN)
    return (
        Check("root alarms in the container", len(planted.cuts) + len(planted.isolated), len(roots)),
        Check("consequences in the container", CONSEQUENCES * len(planted.cuts), len(alarms) - len(roots)),
        Check("tickets, all different", len(alarms), len({alarm.ticket for alarm in alarms.values()})),
        Check("escalated", _rings(slow), critical),
        Check("closed", _rings(repaired), cleared),
        Check("still open", _rings(unrepaired), still_open),
    )


def _rings(cuts: Sequence[Cut]) -> list[int]:
    return sorted(cut.ring for cut in cuts)


def _values(results: Results, query: str, column: str) -> list[Any]:
    return [row[column] for row in results[query]]
