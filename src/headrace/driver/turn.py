"""The turn from one micro-batch to the next: what a delivered micro-batch leads to, as commands and limits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from headrace.commands.command import Command
from headrace.commands.log import CommandLog
from headrace.commands.running import Running
from headrace.control.loop import ControlLoop
from headrace.driver.delivery import Delivery
from headrace.driver.demands import is_too_large, next_steps
from headrace.driver.deployed import Deployed
from headrace.driver.moment import Moment
from headrace.driver.progress import guide, read_progress
from headrace.driver.refreshing import Refreshing
from headrace.driver.relaying import Relaying
from headrace.driver.stints import stint_commands
from headrace.engine.clock import Clock

_LOG = logging.getLogger(__name__)


class Turn:
    """Decides after each micro-batch what the next ones do differently. Every host calls it after every delivery."""

    def __init__(self, directory: Path, log: CommandLog, delivery: Delivery, clock: Clock) -> None:
        self.control = ControlLoop(directory)
        self._directory = directory
        self._log = log
        self._delivery = delivery
        self._relaying = Relaying()
        self.refreshing = Refreshing(log, clock)
        self._swept: tuple[object, ...] = ()  # what was in force when tables were deleted

    def resume(self) -> None:
        """Continue with the limits in force when an earlier process stopped; they end when nothing needs them."""
        progress = read_progress(self._directory)
        unread = frozenset(name for name, limit in progress.limits.items() if not limit)
        self.control.resume(progress.budget, unread)

    def follow_up(self, deployed: Deployed, buckets: Sequence[int], *, now: int, cores: int, ended: bool) -> None:
        """Send the commands that follow from the micro-batch that was delivered last, and set the limits of the next.

        `cores` tasks run at the same time. After the last micro-batch (`ended`) no query is started or stopped.
        """
        reports, running = self._delivery.reports, deployed.running
        commands: list[Command] = [] if ended else stint_commands(reports, running)
        relays = self._relaying.command(reports, running, deployed.placement, buckets)
        if relays is not None:
            commands.append(relays)
        if not ended:
            commands += self._demands(deployed, buckets)
        self.refreshing.know(running)
        self._sweep(running)
        guidance = self.control.after(self._delivery.statistics, reports, running, now, cores, buckets)
        self._log.append(*commands, *guidance.commands)
        if guidance.limits is not None:
            guide(self._directory, guidance.limits.budget, guidance.limits.streams)
        if self._delivery.watchers and self.control.latest is not None:
            self._delivery.show(
                Moment(
                    now=now,
                    cores=cores,
                    ended=ended,
                    statistics=self._delivery.statistics,
                    observation=self.control.latest,
                    began=self.control.began,
                    running=running,
                    placement=deployed.placement,
                    buckets=tuple(note for report in reports for note in report.buckets),
                    decisions=self.control.decisions.numbered(),
                )
            )

    def _sweep(self, running: Running) -> None:
        """Delete tables that belonged to earlier versions, or to queries that were dropped."""
        using = (running.tables, *(query.graph for query in running.known))
        if using != self._swept:
            try:
                self._log.sweep_tables(running)
            except OSError as error:  # nothing depends on it
                _LOG.warning("tables that are not needed any more cannot be deleted: %s", error)
            self._swept = using

    def _demands(self, deployed: Deployed, buckets: Sequence[int]) -> list[Command]:
        """Return the next steps of demands; one that sends too much ends here."""
        reports, running = self._delivery.reports, deployed.running
        if not self._delivery.unanswered:
            return []
        later = self._log.between(running.commands, self._log.count())
        sent = self._delivery.on_the_way
        going_on = list(next_steps(reports, sent, running, deployed.placement, buckets, later))
        self._delivery.refused.update(demand.demand for demand in going_on if is_too_large(demand))
        self._delivery.unanswered -= self._delivery.refused
        return [demand for demand in going_on if not is_too_large(demand)]
