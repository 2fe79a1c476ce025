"""`headrace run`: execute the statements of a file, then run their queries until they end or are stopped."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from headrace.cli.help import examples, flag
from headrace.cli.live_session import (
    Host,
    allow_python,
    beside,
    chosen_launch,
    conf_option,
    executors_option,
    interruptible,
    is_running,
    master_option,
    open_session,
    python_option,
    statements_in,
    take_over_option,
    watch,
)
from headrace.cli.meter import Meter
from headrace.cli.output import DATA_LOST, RUN_FAILED, err, faults, out, show
from headrace.cli.summary import LossLimit, losses, summary
from headrace.language.parser import parse
from headrace.model.expressions.text import format_name
from headrace.session import Outcome, Session, Started

EXAMPLES = examples(
    ("run until Ctrl-C", "run examples/first.sql"),
    ("keep state and print rates; the same command continues after a stop or a crash",
     "run examples/speed_map.sql --checkpoint state --stats"),
    ("read what the sources hold now, finish all windows, stop", "run examples/files.sql --once"),
    ("the same, and fail if a record cannot be read or one in a hundred is late",
     "run examples/files.sql --once --fail-on bad=0 --fail-on late=1%"),
    ("the same without Spark, for small inputs", "run examples/files.sql --once --host local"),
    ("on a cluster; the folder is one that all machines share",
     "run examples/first.sql --checkpoint /shared/state --master spark://10.0.0.5:7077 --conf spark.cores.max=8"),
)  # fmt: skip


def run(
    file: Path = typer.Argument(
        ..., exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."
    ),
    checkpoint: Path | None = typer.Option(
        None, help="Folder for state. A later run with the same folder continues. Without it, no state is kept."
    ),
    once: bool = flag("--once", "Read what the sources hold now, end all windows, deliver the results and stop."),
    buckets: int | None = typer.Option(None, min=1, help="Number of buckets of state. The default fits this machine."),
    host: Host = typer.Option(Host.spark, help="Where queries run. The local host is for small inputs; no Java."),
    master: str | None = master_option(),
    conf: list[str] = conf_option(),
    executors: int | None = executors_option(),
    python: list[str] = python_option(),
    take_over: bool = take_over_option(),
    no_restart: bool = flag("--no-restart", "End if Spark gives up a micro-batch, for another supervisor to restart."),
    stats: bool = flag("--stats", "Print rates and times every five seconds."),
    fail_on: list[str] = typer.Option(
        [], metavar="KIND=N", help="With --once, exit with code 5 if more than N records (or N%) are bad, late or shed."
    ),
) -> None:
    """Run the statements of a file and keep its queries running."""
    text = statements_in(file)
    limits = [LossLimit.parse(limit) for limit in fail_on]
    launch = chosen_launch(host, master, conf, executors)
    with faults(text):
        parse(text)  # report syntax errors at once
        beside(file)
        allow_python(python)
        with open_session(
            checkpoint, host=host, buckets=buckets, launch=launch, take_over=take_over, restart=not no_restart
        ) as session:
            outcomes = session.execute(text, start=False)
            for outcome in outcomes:
                show(outcome)
            _tell_others(session, outcomes)
            if not is_running(session):
                err.print("[dim]no query to run[/]")
            elif once:
                _once(session, limits)
            else:
                session.start()
                _until_stopped(session, checkpoint, stats)


def _tell_others(session: Session, outcomes: list[Outcome]) -> None:
    """Say which queries run although the file has nothing of them: they are in the checkpoint."""
    told = {
        word.strip(",;:").lower()
        for outcome in outcomes
        for word in (outcome.query if isinstance(outcome, Started) else getattr(outcome, "text", "")).split()
    }
    running = session.running()
    others = [query for query in running.known if query.query.lower() not in told]
    for query in others:
        kind = "query" if query.reaction is None else "rule"
        drop = f"DROP {kind.upper()} {format_name(query.query)}"
        out.print(
            f"{kind} {query.query} is of an earlier run with this checkpoint, and goes on ({drop} ends it)",
            markup=False,
        )


def _once(session: Session, limits: list[LossLimit]) -> None:
    """Drain, and say what became of the records; exit with a code if too many were lost, or a query failed."""
    session.drain()
    statistics = session.statistics()
    if statistics.batch < 0:
        err.print("all queries of this checkpoint have ended before (use a new --checkpoint for a new run)")
        return
    for line in summary(statistics):
        err.print(line, markup=False)
    problems = list(losses(statistics, limits))
    failures = [f"query {name} has failed: {reason}" for name, reason in session.failed().items()]
    for problem in (*problems, *failures):
        err.print(f"[bold red]{escape(problem)}[/]")
    if problems or failures:
        raise typer.Exit(DATA_LOST if problems else RUN_FAILED)


def _until_stopped(session: Session, checkpoint: Path | None, stats: bool) -> None:
    def on_first() -> None:
        err.print("\nfinishing the micro-batch ... (press Ctrl-C again to stop at once)")

    meter = Meter()

    def look() -> None:
        if stats:
            meter.look(session.statistics())
            if meter.latest.batch >= 0:
                out.print(meter.table(), soft_wrap=not out.is_terminal)

    with interruptible(on_first) as stop:
        err.print("[dim]press Ctrl-C to stop[/]")
        ended = watch(session, stop, every=5.0, look=look)
        session.stop()
    if ended:
        err.print("all queries have ended")
    elif checkpoint is not None:
        err.print("stopped; run the same command again to continue from here")
    else:
        err.print("stopped; no state was kept (to continue later, use --checkpoint FOLDER)")
