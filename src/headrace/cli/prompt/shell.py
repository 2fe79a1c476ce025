"""`headrace sql`: statements typed at a prompt or piped in, with results as they arrive."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import typer

from headrace import __version__
from headrace.cli.help import examples
from headrace.cli.live_session import (
    Host,
    allow_python,
    chosen_launch,
    conf_option,
    executors_option,
    is_running,
    master_option,
    open_session,
    python_option,
    take_over_option,
)
from headrace.cli.meter import Meter
from headrace.cli.output import complain, err, exit_code, faults, is_debugging, out, show
from headrace.cli.prompt.split_statements import is_blank, take
from headrace.cli.serving.remote import served_session, token_option, url_option
from headrace.client import RemoteSession
from headrace.connectors.console import block
from headrace.errors import HeadraceError
from headrace.session import Listing, Session, Started
from headrace.storage.disk import make_directory

if TYPE_CHECKING:
    from headrace.cli.prompt.completion import Names

EXAMPLES = examples(
    ("a prompt; \\help lists the commands", "sql"),
    ("look at the queries of a checkpoint, and change them", "sql --checkpoint state"),
    ("run piped statements, finish all windows, stop", "sql < examples/files.sql"),
    ("a prompt that starts at once, for small inputs", "sql --host local"),
    ("on a cluster", "sql --checkpoint /shared/state --master spark://10.0.0.5:7077"),
    ("on a server; without --url that of the checkpoint, if it is served", "sql --url http://127.0.0.1:4280"),
)
#: What can be typed, in groups: the forms, then an example that could follow the examples before it.
GROUPS: dict[str, tuple[tuple[str, str], ...]] = {
    "Define": (
        ("CREATE STREAM | TABLE", "CREATE STREAM bids (item INT, price DOUBLE) FROM GENERATOR (rate 10);"),
        ("CREATE VIEW", "CREATE VIEW high AS SELECT item, price FROM bids WHERE price > 10;"),
        ("SPLIT", "SPLIT bids INTO cheap WHEN price < 10, rest ELSE;"),
        ("CREATE FUNCTION", "CREATE FUNCTION slug(STRING) RETURNS STRING FROM PYTHON 'module:function';"),
        ("CREATE AGGREGATE", "CREATE AGGREGATE middle(DOUBLE) RETURNS DOUBLE FROM PYTHON 'module:Class';"),
        ("CREATE EVENT", "CREATE EVENT jump AS cheap SEQUENCE high WITHIN 10 SECONDS;"),
        ("CREATE RULE | SINK", "CREATE RULE watch ON jump DO INSERT INTO CONSOLE;"),
    ),
    "Query": (
        ("SELECT, WITH ... SELECT", "SELECT item, count(*) AS n FROM bids [RANGE 5 SECONDS] GROUP BY item;"),
        ("CREATE QUERY", "CREATE QUERY best AS SELECT item, max(price) p FROM bids [RANGE 1 DAY] GROUP BY item;"),
    ),
    "Inspect": (
        ("SHOW STREAMS | TABLES | QUERIES | EVENTS | RULES | AGGREGATES | FUNCTIONS", "SHOW QUERIES;"),
        ("SHOW STATISTICS | FEEDBACK | SHEDDING | DECISIONS | SETTINGS", "SHOW STATISTICS;"),
        ("SHOW BUCKETS | STORES | PLANS | MIGRATIONS | PARCELS | PROPOSALS", "SHOW PLANS;"),
        ("DESCRIBE", "DESCRIBE bids;"),
        ("EXPLAIN [ANALYZE | CAPACITY | JSON]", "EXPLAIN SELECT item FROM bids;"),
    ),
    "Feedback": (
        ("ASSUME (not needed)", "ASSUME best WHERE p < 10 FOR 2 MINUTES;"),
        ("DESIRE (first) | DEMAND (now)", "DESIRE best WHERE p > 100 FOR 2 MINUTES;"),
    ),
    "Change": (
        ("ALTER SYSTEM | QUERY | STREAM, REFRESH TABLE", "ALTER QUERY best SET (latency '2 s');"),
        ("RAISE EVENT (by hand)", "CREATE EVENT alarm (n INT); RAISE EVENT alarm(7);"),
        ("MOVE PARCELS", "MOVE PARCELS 3, 17 OF best TO BUCKET 0;"),
        ("CONFIRM | REJECT 'key' (what a rule proposes)", "SHOW PROPOSALS;"),
        ("START | STOP QUERY", "STOP QUERY best;"),
        ("ENABLE | DISABLE RULE", "DISABLE RULE watch;"),
        ("DROP QUERY | VIEW | EVENT | RULE | SINK | STREAM | TABLE | AGGREGATE | FUNCTION", "DROP QUERY best;"),
    ),
    "Prompt": (
        ("\\run", "continue the queries of the checkpoint"),
        ("\\stats", "rates and times"),
        ("\\help (also help, \\h, \\?)", "this text"),
        ("\\q (also quit, exit, Ctrl-D)", "leave"),
    ),
}  # fmt: skip
LEAVE = ("quit", "exit", "\\q", "\\quit", "\\exit")
ASK = ("help", "?", "\\help", "\\h", "\\?")


def help_text() -> str:
    """Return the help at the prompt: every statement and command, in groups, with an example each."""
    lines = ["Statements end with a semicolon and may span lines. Tab completes words."]
    for group, entries in GROUPS.items():
        lines += ["", group]
        for form, example in entries:
            together = f"  {form:<{_FORM_WIDTH}}  {example}"
            if len(form) <= _FORM_WIDTH and len(together) <= _HELP_WIDTH:
                lines.append(together)
            else:
                lines += [*_wrapped(form, 2), *_wrapped(example, 6)]
    return "\n".join(lines)


def _wrapped(text: str, indent: int) -> list[str]:
    """Return lines of the help, cut between words."""
    first, others = " " * indent, " " * (indent + 2)
    return textwrap.wrap(text, _HELP_WIDTH, initial_indent=first, subsequent_indent=others)


_FORM_WIDTH, _HELP_WIDTH = 31, 80


def sql(
    checkpoint: Path | None = typer.Option(
        None, help="Folder for state. A later run with the same folder continues. Without it, no state is kept."
    ),
    buckets: int | None = typer.Option(None, min=1, help="Number of buckets of state. The default fits this machine."),
    host: Host = typer.Option(Host.spark, help="Where queries run. The local host is for small inputs; no Java."),
    master: str | None = master_option(),
    conf: list[str] = conf_option(),
    executors: int | None = executors_option(),
    python: list[str] = python_option(),
    take_over: bool = take_over_option(),
    url: str | None = url_option(),
    token_file: Path | None = token_option(),
) -> None:
    """Type statements at a prompt, or pipe them in; on a server, if the checkpoint is served."""
    launch = chosen_launch(host, master, conf, executors)
    with faults():
        remote = served_session(url, checkpoint, token_file)
    if remote is not None:
        with faults(), remote:
            _on_server(remote)
        return
    allow_python(python)
    with (
        faults(),
        open_session(checkpoint, host=host, buckets=buckets, launch=launch, take_over=take_over) as session,
    ):
        continues = is_running(session)
        shell = Shell(session, steps=host is Host.local, continues=continues)
        if sys.stdin.isatty():
            if continues:
                err.print("this checkpoint has queries; they continue with \\run, or with a change", style="dim")
            elif host is Host.spark:
                err.print("[dim]Spark starts with the first query[/]")
            shell.converse()
        else:
            shell.read(sys.stdin)


def _on_server(session: RemoteSession) -> None:
    """Type statements at a prompt of a server; rows of unnamed SELECTs come as they are delivered."""
    shell = Shell(session, steps=False, continues=True)
    if sys.stdin.isatty():
        err.print(f"[dim]connected to {session.url}[/]")
        shell.converse()
    else:
        shell.read(sys.stdin)


class Shell:
    """Executes typed statements one at a time and continues after an error."""

    def __init__(self, session: Session | RemoteSession, *, steps: bool, continues: bool) -> None:
        self._session = session
        self._continues = continues  # the checkpoint had queries before
        self._steps = steps  # the local host works only while something waits for it
        self._meter = Meter()
        self._failed: HeadraceError | None = None

    def converse(self) -> None:
        """Prompt until the user leaves."""
        out.print(f"[bold]Headrace {__version__}[/]: end statements with ; and type \\help for help, \\q to leave")
        from prompt_toolkit.patch_stdout import patch_stdout  # takes long, and other commands need no prompt

        from headrace.cli.prompt.terminal import statement_prompt

        prompt = statement_prompt(self._names, _is_complete, history_file(Path.home()))
        with patch_stdout(raw=True):
            while True:
                try:
                    text = prompt.prompt("headrace> ")
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return
                try:
                    if not self._entry(text):
                        return
                except KeyboardInterrupt:
                    err.print("interrupted")

    def read(self, lines: Iterable[str]) -> None:
        """Execute piped text up to the first error, then let the queries finish all windows.

        Queries that the checkpoint had before are not touched: changes take effect when they continue.
        """
        rest = ""
        for number, line in enumerate(lines):
            if not number:
                line = line.removeprefix("\ufeff")  # editors put it before UTF-8
            if is_blank(rest) and is_command(line):
                if not self._command(line):
                    break
                continue
            statements, rest = take(rest + line)
            self._execute(statements, start=not self._continues)
            if self._failed:
                break
        else:
            if not is_blank(rest):
                self._execute([rest.strip()], start=not self._continues)
        if self._failed:
            raise typer.Exit(exit_code(self._failed))
        if not self._continues:
            self._session.drain()

    def _entry(self, text: str) -> bool:
        if is_command(text):
            return self._command(text)
        statements, rest = take(text)
        self._execute([*statements, rest.strip()] if not is_blank(rest) else statements)
        return True

    def _command(self, text: str) -> bool:
        match text.strip().rstrip("; ").lower():
            case command if command in LEAVE:
                return False
            case "\\run":
                self._session.start()
            case "\\stats":
                self._meter.look(self._session.statistics())
                out.print(self._meter.table(), soft_wrap=not out.is_terminal)
            case command if command in ASK:
                out.print(help_text(), markup=False)
            case other:
                err.print(f"no command {other}; \\help lists all commands", markup=False)
        return True

    def _execute(self, statements: list[str], *, start: bool = True) -> None:
        for statement in statements:
            self._failed = None
            try:
                for outcome in self._session.execute(statement, start=start):
                    show(outcome)
                    if isinstance(outcome, Started) and isinstance(self._session, RemoteSession):
                        self._follow(self._session, outcome.query)
                if self._steps and start:
                    self._session.wait(0.2)
            except HeadraceError as error:
                if is_debugging():
                    raise
                complain(error, statement)
                self._failed = error
                return

    def _follow(self, session: RemoteSession, query: str) -> None:
        """Print the results of an unnamed SELECT as they come, if somebody is there to read them."""
        if query in session.follows and sys.stdin.isatty():
            session.subscribe(query, lambda batch, rows: _print_block(f"{query} #{batch}", rows))

    def _names(self) -> Names:
        """Return the names that exist now, for completion."""
        from headrace.cli.prompt.completion import Names

        of = {what: self._first_column(f"SHOW {what}") for what in ("STREAMS", "TABLES", "QUERIES", "EVENTS", "RULES")}
        queries = tuple(dict.fromkeys((*of["QUERIES"], *of["EVENTS"])))
        return Names(of["STREAMS"], of["TABLES"], queries, of["RULES"], self._columns)

    def _first_column(self, statement: str) -> tuple[str, ...]:
        try:
            outcomes = self._session.execute(statement)
        except HeadraceError:  # the deployment has failed, which the next statement says
            return ()
        return tuple(str(row[0]) for outcome in outcomes if isinstance(outcome, Listing) for row in outcome.rows)

    def _columns(self, name: str) -> tuple[str, ...]:
        return self._first_column(f"DESCRIBE {name}")


def _print_block(title: str, rows: list[dict[str, Any]]) -> None:
    print(block(title, pl.DataFrame(rows, infer_schema_length=None), 20), end="")


def is_command(text: str) -> bool:
    """Return whether a line is for the prompt itself: it begins with a backslash, leaves, or asks for help."""
    line = text.strip()
    return line.startswith("\\") or line.rstrip("; ").lower() in (*LEAVE, *ASK)


def _is_complete(text: str) -> bool:
    return is_command(text) or is_blank(take(text)[1])


def history_file(home: Path) -> Path:
    """Return the file of earlier statements, which only this user can read: statements may hold secrets."""
    history = home / ".headrace" / "history"
    make_directory(history.parent)
    history.touch(mode=0o600)
    history.chmod(0o600)  # an earlier version made it with the modes of the umask
    return history
