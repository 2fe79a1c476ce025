"""`headrace run`: the statements of a file, then their queries until they end or are stopped."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.live_session import Host, beside, interruptible, is_running, open_session, watch
from headrace.cli.meter import Meter
from headrace.cli.output import err, faults, out, show
from headrace.language.parser import parse
from headrace.session import Session

EXAMPLES = (
    "Examples:\n\n"
    "headrace run examples/first.sql --once   (read what is there, finish all windows, stop)\n\n"
    "headrace run traffic.sql --checkpoint state/traffic --stats   (run until Ctrl-C; the same command continues)"
)


def run(
    file: Path = typer.Argument(
        ..., exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."
    ),
    checkpoint: Path | None = typer.Option(
        None, help="Keep state here; a later run continues from it. Without it nothing is kept."
    ),
    once: bool = typer.Option(
        False, "--once", help="Read what the sources hold now, end all windows, deliver and stop."
    ),
    buckets: int | None = typer.Option(
        None, min=1, help="Number of state partitions; the default fits this machine. Fixed by the first run."
    ),
    host: Host = typer.Option(Host.spark, help="Where queries run; local is for trying out small inputs."),
    stats: bool = typer.Option(False, "--stats", help="Print rates and times every few seconds."),
) -> None:
    """Run the statements of a file and keep its queries running."""
    text = file.read_text()
    with faults(text):
        parse(text)  # a slip of the pen is told at once, not after Spark has started
        if host is Host.spark:
            err.print("[dim]starting Spark ...[/]")
        beside(file)
        with open_session(checkpoint, host=host, buckets=buckets) as session:
            for outcome in session.execute(text):
                show(outcome)
            if not is_running(session):
                err.print("[dim]no query to run[/]")
            elif once:
                session.drain()
            else:
                _until_stopped(session, checkpoint, stats)


def _until_stopped(session: Session, checkpoint: Path | None, stats: bool) -> None:
    def on_first() -> None:
        err.print("\nfinishing the micro-batch ... (Ctrl-C again to force)")

    meter = Meter()

    def look() -> None:
        if stats:
            meter.look(session.statistics())
            if meter.latest.batch >= 0:
                out.print(meter.table())

    with interruptible(on_first) as stop:
        err.print("[dim]Ctrl-C stops[/]")
        ended = watch(session, stop, every=5.0, look=look)
        session.stop()
    if ended:
        err.print("all queries have ended")
    elif checkpoint is not None:
        err.print("stopped; run the same command again to continue from here")
    else:
        err.print("stopped; nothing was kept (give --checkpoint DIR to be able to continue)")
