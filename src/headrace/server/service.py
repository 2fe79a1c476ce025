"""A served deployment: the session, the writer that alone changes it, and what readers look at."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.catalog.catalog import Catalog
from headrace.commands.running import Running
from headrace.connectors.shelf import ShelfFiles
from headrace.driver.moment import Moment
from headrace.engine.statistics import Statistics
from headrace.errors import HeadraceError, HostFault
from headrace.hosts.local import LocalDeployment
from headrace.model.keep import DEFAULT, Keep, keep_of
from headrace.server.beats import Beats
from headrace.server.follows import Follows
from headrace.server.problems import Fault, problem_of
from headrace.server.shelf import ALL_BYTES, Shelves
from headrace.server.values import cells
from headrace.server.views.deployment import Done
from headrace.server.views.figures import Beat
from headrace.server.views.problem import Problem
from headrace.server.views.statements import (
    ListingOutcome,
    MessageOutcome,
    OutcomeView,
    StartedOutcome,
    StatementsAnswer,
)
from headrace.server.views.view import State
from headrace.server.writer import Writer
from headrace.session import Listing, Message, Outcome, Session, Started

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
#: While nothing happens, the writer looks for what has changed so often (seconds); the local host reads so often.
_LOOK, _READ = 0.25, 0.02


@dataclass(frozen=True, slots=True)
class Startup:
    """What a server begins with: statements of its operator, which are not fenced."""

    text: str = ""
    shelves: int = ALL_BYTES


class Service:
    """Owns a session. Everything that changes it goes through `change`; reading takes no lock."""

    def __init__(self, open_session: Callable[[], Session], startup: Startup | None = None) -> None:
        self._open, self._startup = open_session, startup or Startup()
        self.began = time.time()
        self._state: State = "starting"
        self._stage: str | None = "starting"
        self.problem: Problem | None = None
        self._is_stopping = threading.Event()
        self.session = open_session()
        self.shelves = Shelves(self._keep, most=self._startup.shelves)
        self.follows = Follows()
        self.listeners: list[Callable[[Beat], None]] = []
        self.beats = Beats(self.status, self.follows.counts, self._on_beat)
        self._writer = Writer(self._idle)

    # --- Life ---

    def own(self) -> None:
        """Take the checkpoint; raise a fault that says who has it."""
        self.session.own()

    def start(self) -> None:
        """Begin: the queries of the checkpoint continue, and the statements of the operator run, in the background."""
        self.beats.start()
        self._writer.start()
        self._writer.submit(self._start_up, must=True)

    def stop(self) -> None:
        """Refuse changes, finish the micro-batch, and release the checkpoint."""
        if self._is_stopping.is_set():
            return
        self._is_stopping.set()
        self._set("stopping", "finishing the micro-batch")
        try:
            stopped = self._writer.submit(self._stop, must=True)
            self._writer.close()
            stopped.result()
        finally:
            self.beats.close()

    def retry(self) -> Future[Done]:
        """Start a deployment again that has failed, from its checkpoint."""

        def again() -> Done:
            if self.problem is None:
                raise Fault(409, "nothing has failed")
            self._set("starting", "starting again")
            try:
                self.session.stop()
            except HeadraceError as error:
                _LOG.warning("the failed deployment ended with: %s", error.message)
            self.session = self._open()
            self.beats.forget()
            self._start_up()
            return Done("started again")

        return self._writer.submit(again)

    def _start_up(self) -> None:
        """Run what the operator asked for, and start the queries."""
        try:
            self.session.own()
            delivery = self.session.deployment.delivery
            delivery.readers.append(self.shelves.take)
            delivery.watchers.append(self._on_moment)
            self._restore_shelves()
            kept: set[str] = set()
            if self._startup.text:
                for outcome in self.session.execute(self._startup.text, start=False):
                    _LOG.info("%s", _said(outcome))
                    if isinstance(outcome, Started):
                        kept.add(outcome.query)
            self._set("starting", "starting Spark")
            warm = getattr(self.session.deployment, "warm", None)
            if warm is not None:
                warm()
            if self.session.running().known:
                self.session.start()
            self.follows.adopt(self.session.running(), kept)
            self.problem = None
            self._set("running", None)
        except Exception as error:
            self._fail(error)
        self.beats.changed()

    def _stop(self) -> None:
        try:
            self.session.stop()
        except HeadraceError as error:
            if self.problem is None:  # else it was told
                _LOG.error("%s", error.message)

    # --- Changes ---

    def change(self, job: Callable[[], _T]) -> Future[_T]:
        """Change something, after what was asked for before; refused while the server starts or stops."""
        self.check_ready()

        def run() -> _T:
            self.check_ready()
            result = job()
            if isinstance(self.session.deployment, LocalDeployment) and self.problem is not None:
                self.problem = None  # the local host tries the micro-batch again
                self._set("running", None)
            self.beats.changed()
            return result

        return self._writer.submit(run)

    def execute(
        self, text: str, *, dry: bool, check: Callable[[str], None]
    ) -> Future[StatementsAnswer] | StatementsAnswer:
        """Run statements together, after `check` has looked at them; those that only read wait for nobody."""
        self.check_ready()
        check(text)
        if dry:
            self.session.check(text)
            return StatementsAnswer((), True, self.session.running().commands)
        if self._only_reads(text):
            views = tuple(outcome_view(outcome, False) for outcome in self.session.execute(text))
            return StatementsAnswer(views, False, self.session.running().commands)

        def run() -> StatementsAnswer:
            outcomes = self.session.execute(text)
            running = self.session.running()
            views = tuple(
                outcome_view(outcome, self.follows.add(outcome, self.session.catalog)) for outcome in outcomes
            )
            for name in self.shelves.forget(lambda name: any(query.query == name for query in running.added)):
                ShelfFiles(name, self.directory).clear()
            for query in self.session.catalog.queries():
                self.shelves.change(query.name)
            return StatementsAnswer(views, False, running.commands)

        return self.change(run)

    def _only_reads(self, text: str) -> bool:
        try:
            return not self.session.check(text)
        except HeadraceError:
            return False  # running it tells what is wrong

    def check_ready(self) -> None:
        """Refuse with the reason while the server starts or stops."""
        if self._is_stopping.is_set():
            raise Fault(503, "the server is stopping", headers={"Retry-After": "5"})
        if self._state == "starting":
            raise Fault(503, "the server is starting", stage=self.status()[1], headers={"Retry-After": "2"})

    # --- Reading ---

    @property
    def catalog(self) -> Catalog:
        """Return the definitions; they are replaced as a whole, never changed."""
        return self.session.catalog

    @property
    def running(self) -> Running:
        """Return what is in force after all commands."""
        return self.session.running()

    @property
    def statistics(self) -> Statistics:
        """Return the counters after the last micro-batch."""
        return self.session.statistics()

    @property
    def directory(self) -> Path:
        """Return the checkpoint."""
        return self.session.directory

    @property
    def is_stopping(self) -> bool:
        """Return whether the server is about to end."""
        return self._is_stopping.is_set()

    def status(self) -> tuple[State, str | None]:
        """Return the state of the server, and what a start is doing or why it failed."""
        if self._is_stopping.is_set():
            return "stopping", self._stage
        if self._state == "starting":
            said = getattr(self.session.deployment, "stage", None)
            return "starting", said if said and self._stage == "starting Spark" else self._stage
        failure = self.session.deployment.failure()
        if failure is not None and self.problem is None:
            self.problem = problem_of(failure)
        if self.problem is not None:
            return "failed", self.problem.detail
        if self._state == "ended":
            return "ended", None
        return ("running", None) if self.session.has_started else ("idle", None)

    def is_durable(self, query: str) -> bool:
        """Return whether all results of a query are kept on disk for a while."""
        added = (each for each in self.running.added if each.query == query)
        return any(sink.kind == "SHELF" for each in added for sink in each.sinks)

    def _restore_shelves(self) -> None:
        """Put what durable shelves hold back on the shelves, up to what fits."""
        self.shelves.restore(
            {
                query.query: (query.schema, ShelfFiles(query.query, self.directory))
                for query in self.running.known
                if any(sink.kind == "SHELF" for sink in query.sinks)
            }
        )

    def _keep(self, query: str) -> Keep:
        definition = self.session.catalog.get(query)
        options = getattr(definition, "options", {})
        try:
            return keep_of(options)
        except ValueError:
            return DEFAULT

    # --- What happens by itself ---

    def _on_moment(self, moment: Moment) -> None:
        self.shelves.settle(moment.statistics.batch)
        if moment.ended:
            self._state = "ended"
        self.beats.take(moment)

    def _on_beat(self, beat: Beat, figures: object) -> None:
        for listener in self.listeners:
            listener(beat)

    def _idle(self) -> float:
        """Work while no change is asked for; return for how many seconds the writer can wait."""
        if self._state == "starting" or self._is_stopping.is_set():
            return _LOOK
        try:
            for query in self.follows.expired():
                _LOG.info("nobody follows %s any more", query)
                self.session.execute(f'DROP QUERY IF EXISTS "{query}"')
                self.beats.changed()
            deployment = self.session.deployment
            if isinstance(deployment, LocalDeployment):
                if not self.session.has_started or self.problem is not None:
                    return _LOOK
                return 0.0 if deployment.step() else _READ
            if self.problem is None and deployment.failure() is not None:
                self._fail(deployment.failure() or HostFault("the deployment has failed"))
        except Exception as error:
            self._fail(error)
        return _LOOK

    def _fail(self, error: Exception) -> None:
        self.problem = problem_of(error)
        _LOG.error("failed: %s", self.problem.detail)
        self._set("failed", self.problem.detail)

    def _set(self, state: State, stage: str | None) -> None:
        self._state, self._stage = state, stage
        self.beats.nudge()


def outcome_view(outcome: Outcome, follow: bool) -> OutcomeView:
    """Return the outcome of a statement."""
    match outcome:
        case Message(text=text):
            return MessageOutcome(text)
        case Started(query=query):
            return StartedOutcome(query, follow)
        case Listing(columns=columns, rows=rows):
            return ListingOutcome(columns, tuple(map(cells, rows)))


def _said(outcome: Outcome) -> str:
    match outcome:
        case Message(text=text):
            return text
        case Started(query=query):
            return f"query {query} is running"
        case Listing(rows=rows):
            return f"{len(rows)} rows"
