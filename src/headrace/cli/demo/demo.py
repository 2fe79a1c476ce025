"""`headrace demo`: a traffic speed map, live in the terminal."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.cli.demo.served import on_page
from headrace.cli.demo.viewport import SEGMENTS, Display, Viewport
from headrace.cli.help import examples, flag, program
from headrace.cli.live_session import Host, interruptible, open_session, watch
from headrace.cli.meter import Meter
from headrace.cli.output import err, faults, out, screen
from headrace.model.time import SECOND, format_instant
from headrace.session import Session

EXAMPLES = examples(
    ("run until Ctrl-C, in the terminal and on a page in the browser", "demo"),
    ("a screen that moves along the road; segments that it does not show are not computed", "demo --viewport"),
    ("lines instead of a live picture, for logs and pipes", "demo --seconds 30 --plain"),
    note="The queries: examples/speed_map.sql, examples/viewport.sql",
)
FASTEST = 70.0


def demo(
    seconds: float | None = typer.Option(
        None, min=1, help="Stop after this many seconds of results. Without it, run until Ctrl-C."
    ),
    plain: bool = flag("--plain", "Print lines, without a page. This is the default if the output is not a terminal."),
    viewport: bool = flag(
        "--viewport",
        "Show only a part of the road, which moves every few seconds. The demo tells the query which segments are not "
        "visible (ASSUME) and shows how much work that saves.",
    ),
) -> None:
    """Watch a traffic speed map: two generated streams, filters, a union, windows and a window join on Spark."""
    picture = SpeedMap(Viewport() if viewport else None)
    with faults(picture.statements):
        err.print(f"[dim]{schedule(seconds)}[/]", soft_wrap=not err.is_terminal)
        if plain or not out.is_terminal:
            _lines(picture, seconds)
        else:
            _live(picture, seconds)


def statements(name: str = "speed_map.sql") -> str:
    """Return the demo's SQL."""
    return files("headrace.cli.demo").joinpath(name).read_text()


def schedule(seconds: float | None) -> str:
    """Return how long the demo takes."""
    until = "until Ctrl-C (--seconds 30 ends it by itself)" if seconds is None else f"for {seconds:g} s"
    return (
        f"Spark starts (about 20 s; a minute on a busy machine), the first window ends (about 10 s), "
        f"then the traffic map runs {until}."
    )


class SpeedMap:
    """The map of all segments, or of those in a viewport.

    The session's thread adds results while the terminal's thread draws.
    """

    def __init__(self, viewport: Viewport | None = None) -> None:
        self.script = "speed_map.sql" if viewport is None else "viewport.sql"
        self.viewport = viewport
        self.display: Display | None = None
        self.address: str | None = None  # of the page that shows the same
        self._lock = threading.Lock()
        self._speeds: dict[int, tuple[Any, float, int]] = {}  # segment: window's end, mean speed, readings
        self._confirmed: dict[int, int] = {}
        self.meter = Meter()
        self.windows = 0
        self._first: float | None = None  # when the first result came

    @property
    def statements(self) -> str:
        """Return the SQL of the demo."""
        return statements(self.script)

    def begin(self, session: Session) -> None:
        """Create the queries and subscribe to their results."""
        session.execute(self.statements)
        session.subscribe("speed_map", self.take_speeds)
        if self.viewport is None:
            session.subscribe("congestion", self.take_confirmed)
        else:
            self.move_by(session.execute)

    def move_by(self, execute: Callable[[str], object]) -> None:
        """Let feedback of a viewport that moves be given by this function."""
        if self.viewport is not None:
            self.display = Display(self.viewport, execute)

    def look(self, session: Session) -> None:
        """Read the counters; a viewport that moves also gives feedback."""
        statistics = session.statistics()
        self.meter.look(statistics)
        if self.display is not None:
            self.display.look(round(time.time() * SECOND), statistics)

    def take_speeds(self, batch: int, rows: list[dict[str, Any]]) -> None:
        """Take results of `speed_map`; the map shows the newest window of each segment."""
        with self._lock:
            for row in rows:
                known = self._speeds.get(row["segment"])
                if row["speed"] is not None and (known is None or row["window_end"] >= known[0]):
                    self._speeds[row["segment"]] = (row["window_end"], row["speed"], row["n"])
            self.windows += len(rows)
            if self._first is None and rows:
                self._first = time.monotonic()

    def take_confirmed(self, batch: int, rows: list[dict[str, Any]]) -> None:
        """Take results of `congestion`."""
        with self._lock:
            for row in sorted(rows, key=lambda row: row["window_end"]):
                self._confirmed[row["segment"]] = row["n"]

    def is_over(self, seconds: float | None) -> bool:
        """Return whether results have been shown for this many seconds."""
        return seconds is not None and self._first is not None and time.monotonic() - self._first >= seconds

    def draw(self, width: int) -> RenderableType:
        """Draw the map above the counters."""
        with self._lock:
            speeds, confirmed = dict(self._speeds), dict(self._confirmed)
        if not speeds:
            waiting = Spinner("dots", "the queries are running; waiting for the end of the first window ...")
            return Group(*self._page(), waiting)
        newest = max(end for end, _, _ in speeds.values())
        shown = self._shown(newest)
        road = Table.grid(padding=(0, 1))
        for segment in sorted({*speeds, *(() if self.viewport is None else range(1, SEGMENTS + 1))}):
            if shown is not None and (segment not in shown or segment not in speeds):
                road.add_row(
                    Text(f"segment {segment:>2}", style="dim"),
                    Text("not visible" if segment not in shown else "...", style="bright_black"),
                )
                continue
            _, speed, count = speeds[segment]
            slow = f"{confirmed.get(segment, 0):,} slow pairs" if shown is None else ""
            jam = Text(slow, style="red" if color(speed) == "red" else "dim")
            road.add_row(
                f"segment {segment:>2}",
                bar(speed, max(10, width - 56)),
                f"{speed:5.1f} km/h",
                Text(f"{count:,} readings", style="dim"),
                jam,
            )
        seconds = 10 if self.viewport is None else 2
        title = Text.assemble(
            ("Traffic speed map", "bold"),
            f"  {seconds} s windows, newest ends {instant(newest)}  ",
            ("(Ctrl-C stops)", "dim"),
        )
        saved = () if self.display is None else (Text(""), self.display.savings.table())
        return Group(title, *self._page(), Text(""), road, Text(""), self.meter.table(), *saved)

    def _page(self) -> tuple[Text, ...]:
        """Return the line with the address of the page, which is whole however narrow the terminal is."""
        return () if self.address is None else (Text(f"console: {self.address}", overflow="fold"),)

    def line(self) -> str:
        """Return the map and the counters as one line of text."""
        with self._lock:
            shown = self._shown(max((end for end, _, _ in self._speeds.values()), default=None))
            segments = [segment for segment in sorted(self._speeds) if shown is None or segment in shown]
            speeds = " ".join(f"{segment}:{self._speeds[segment][1]:.0f}" for segment in segments)
            slow = sum(self._confirmed.values())
        meter = self.meter
        rates = ", ".join(
            f"{name} {meter.stream_rate(name):,.0f}/s lag {meter.lag(name)}" for name in meter.latest.streams
        )
        middle = f"{slow} slow pairs" if self.display is None else self.display.savings.line()
        return f"km/h by segment {speeds or '-'} | {middle} | {rates} | {meter.headline()}"

    def _shown(self, newest: dt.datetime | None) -> tuple[int, ...] | None:
        """Return the visible segments for a window; None if all are."""
        if self.viewport is None or newest is None:
            return None
        return self.viewport.visible(round(newest.replace(tzinfo=dt.UTC).timestamp() * SECOND))


def bar(speed: float, width: int) -> Text:
    """Draw a bar as long as the speed, red if traffic is slow and green if it flows."""
    share = min(1.0, max(0.0, speed / FASTEST))
    filled = round(share * width)
    return Text.assemble(("█" * filled, color(speed)), ("·" * (width - filled), "bright_black"))


def color(speed: float) -> str:
    """Return the color for a speed."""
    return "green" if speed >= 45 else "yellow" if speed >= 30 else "red"


def instant(value: Any) -> str:
    """Return a window's end as a time of day."""
    text = format_instant(value) if isinstance(value, int) else str(value)
    return text.split(" ")[-1][:8]


def _start(picture: SpeedMap) -> Session:
    session = open_session(host=Host.spark)
    try:
        picture.begin(session)
    except BaseException:
        session.stop()
        raise
    return session


def _live(picture: SpeedMap, seconds: float | None) -> None:
    with _start(picture) as session, interruptible(lambda: None) as stop, on_page(session) as page:
        picture.address = page.address
        picture.move_by(page.execute)
        if page.address is not None:
            out.print(f"open the console in a browser: {page.address}", markup=False, soft_wrap=True)
        with Live(picture.draw(out.width), console=screen, auto_refresh=False) as live:
            _show(picture, session, live, stop, seconds)
    _farewell(picture)


def _show(picture: SpeedMap, session: Session, live: Live, stop: threading.Event, seconds: float | None) -> None:
    def look() -> None:
        picture.look(session)
        live.update(picture.draw(out.width), refresh=True)
        if picture.is_over(seconds):
            stop.set()

    watch(session, stop, every=0.25, look=look)


def _lines(picture: SpeedMap, seconds: float | None) -> None:
    with _start(picture) as session, interruptible(lambda: err.print("stopping ...")) as stop:
        err.print("the queries are running; waiting for the end of the first window ...")

        def look() -> None:
            picture.look(session)
            if picture.windows:
                out.print(picture.line(), markup=False)
            if picture.is_over(seconds):
                stop.set()

        watch(session, stop, every=1.0, look=look)
    _farewell(picture)


def _farewell(picture: SpeedMap) -> None:
    read = sum(stream.tuples for stream in picture.meter.latest.streams.values())
    out.print(f"stopped after {read:,} tuples and {picture.windows:,} map updates")
    example = Path("examples", picture.script)
    script = example if example.is_file() else files("headrace.cli.demo").joinpath(picture.script)
    out.print(f"[dim]how the queries run: {program()} explain {script}[/]")
    if picture.display is not None:
        out.print(f"the viewport moved {picture.display.moves} times; {picture.display.savings.line()}")
