"""The control loop of a deployment: it observes, lets the controller decide, and logs the decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from headrace.commands.running import Running
from headrace.control.balancing import Balancer
from headrace.control.controller import Guidance, Memory, control
from headrace.control.decision_log import DecisionLog
from headrace.control.migration_log import MigrationLog
from headrace.control.monitor import Monitor
from headrace.control.observation import Observation
from headrace.control.planning import View
from headrace.engine.statistics import Statistics
from headrace.graph.graph import VertexId
from headrace.worker.wire import Report


class ControlLoop:
    """Keeps the promises of the queries of one deployment; `latest` is the observation after the last micro-batch."""

    def __init__(self, directory: Path) -> None:
        self.decisions = DecisionLog(directory)
        self.migrations = MigrationLog(directory)
        self.balancer = Balancer()
        self.latest: Observation | None = None
        self._monitor = Monitor()
        self._memory = Memory()

    @property
    def began(self) -> Mapping[str, int]:
        """Return when each query was first seen, in microseconds."""
        return self._memory.began

    def resume(self, budget: int | None, unread: frozenset[str]) -> None:
        """Continue with a budget (nanoseconds), and streams that are left unread."""
        limiting = replace(self._memory.limiting, budget=budget, unread=unread)
        self._memory = replace(self._memory, limiting=limiting)

    @property
    def views(self) -> Mapping[VertexId, View]:
        """Return what the last look at each join of several inputs found."""
        boxes = self._memory.planning.boxes
        return {name: known.view for name, known in boxes.items() if known.view is not None}

    def after(
        self,
        statistics: Statistics,
        reports: Sequence[Report],
        running: Running,
        now: int,
        cores: int,
        buckets: Sequence[int] = (0,),
    ) -> Guidance:
        """Return what to change after a micro-batch that has just been delivered; `cores` tasks run side by side."""
        boxes = [report.boxes for report in reports]
        apart = {bucket: seen for report in reports for bucket, seen in report.apart.items()}
        self.migrations.follow(boxes, running, now, statistics.batch_ms or 0.0, apart)
        self.latest = self._monitor.look(statistics, reports, running, now, cores)
        guidance = control(self._memory, self.latest, running)
        self._memory = guidance.memory
        moves, moved = self.balancer.after(reports, running, now, statistics.batch_ms or 0.0, buckets)
        decisions = (*guidance.decisions, *moved)
        self.decisions.add(now, decisions)
        return replace(guidance, commands=(*guidance.commands, *moves), decisions=decisions)
