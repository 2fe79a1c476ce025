"""The beat: what a page needs after a micro-batch, computed and encoded once, at most four times a second.

The delivery only leaves a reference here. A thread of its own does the rest, and the newest moment wins.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from headrace.driver.moment import Moment
from headrace.model.time import SECOND
from headrace.server.figures import GROWING, Figures
from headrace.server.views.figures import Beat
from headrace.server.views.view import State

#: Beats are at least so many seconds apart; without micro-batches one comes after the second time.
SHORTEST, LONGEST = 0.25, 5.0
#: Rates are means over about so many microseconds.
RATES = 5 * SECOND


class Beats:
    """Keeps the moments that figures are computed from, and calls `listen` with each new beat."""

    def __init__(
        self,
        status: Callable[[], tuple[State, str | None]],
        watchers: Callable[[], Mapping[str, int]],
        listen: Callable[[Beat, Figures | None], None],
    ) -> None:
        self._status, self._watchers, self._listen = status, watchers, listen
        self._moments: deque[Moment] = deque()
        self._older: deque[Moment] = deque()  # a second apart
        self._newest: Moment | None = None  # not shown yet
        self._catalog = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self.figures: Figures | None = None
        self.latest = self._beat(None)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self, moment: Moment) -> None:
        """Take what a micro-batch left; called within the delivery."""
        self._newest = moment
        self._wake.set()

    def changed(self) -> None:
        """Note that definitions have changed; a beat follows."""
        self._catalog += 1
        self._wake.set()

    def nudge(self) -> None:
        """Let a beat follow soon, because the state of the server has changed."""
        self._wake.set()

    def forget(self) -> None:
        """Forget the moments of a deployment that has ended: counters begin again."""
        self._newest, self.figures = None, None
        self._moments.clear()
        self._older.clear()

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(LONGEST)
            self._wake.clear()
            moment, self._newest = self._newest, None
            if moment is not None:
                self._remember(moment)
            figures = self.figures
            self.latest = self._beat(figures)
            self._listen(self.latest, figures)
            self._closing.wait(SHORTEST)

    def _remember(self, moment: Moment) -> None:
        self._moments.append(moment)
        while len(self._moments) > 2 and moment.now - self._moments[1].now >= RATES:
            self._moments.popleft()
        if not self._older or moment.now - self._older[-1].now >= SECOND:
            self._older.append(moment)
            while len(self._older) > 2 and moment.now - self._older[1].now >= GROWING:
                self._older.popleft()
        self.figures = Figures(moment, self._moments[0], tuple(self._older), self._watchers())

    def _beat(self, figures: Figures | None) -> Beat:
        state, stage = self._status()
        if figures is None:
            return Beat(
                batch=-1, at=round(time.time() * 1000), took_ms=None, state=state, stage=stage, load=None, speed=1.0,
                cores=1, rate=0.0, state_bytes=0, queued=0, streams=(), queries=(), promises=(), bottleneck=None,
                bottleneck_title=None, decisions=0, catalog=self._catalog,
            )  # fmt: skip
        moment = figures.moment
        streams = tuple(figures.stream(name) for name in moment.statistics.streams)
        names = dict.fromkeys((*(query.query for query in moment.running.added), *moment.statistics.queries))
        vertices = moment.statistics.vertices.values()
        return Beat(
            batch=moment.statistics.batch,
            at=moment.now // 1000,
            took_ms=moment.statistics.batch_ms,
            state=state,
            stage=stage,
            load=figures.load,
            speed=moment.observation.machine.speed,
            cores=moment.cores,
            rate=sum(stream.rate for stream in streams),
            state_bytes=sum(counts.state_bytes for counts in vertices),
            queued=sum(counts.queued for counts in vertices),
            streams=streams,
            queries=tuple(map(figures.query, names)),
            promises=figures.standings(),
            bottleneck=figures.bottleneck,
            bottleneck_title=None if figures.bottleneck is None else figures.names[figures.bottleneck],
            decisions=moment.decisions.newest,
            catalog=self._catalog,
        )
