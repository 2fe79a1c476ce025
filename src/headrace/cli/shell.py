"""`headrace sql`: statements typed at a prompt or piped in, with results as they arrive."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from headrace import __version__
from headrace.cli.help import examples
from headrace.cli.live_session import Host, is_running, open_session
from headrace.cli.meter import Meter
from headrace.cli.output import complain, err, exit_code, faults, is_debugging, out, show
from headrace.cli.split_statements import is_blank, take
from headrace.errors import HeadraceError
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.session import Session

EXAMPLES = examples(
    ("a prompt; \\help lists the commands", "sql"),
    ("look at the queries of a checkpoint, and change them", "sql --checkpoint state"),
    ("run piped statements, finish all windows, stop", "sql < examples/files.sql"),
    ("a prompt that starts at once, for small inputs", "sql --host local"),
)
HELP = """Statements end with a semicolon and may span lines.

  Define    CREATE STREAM | TABLE | VIEW | AGGREGATE | EVENT | RULE | SINK ...
            SPLIT stream INTO name WHEN ..., name ELSE
  Query     CREATE QUERY name AS SELECT ... INTO ...      a query that runs until it is dropped
            SELECT ..., WITH ... SELECT ...               the same without a name; results go to the terminal
  Inspect   SHOW STREAMS | TABLES | QUERIES | EVENTS | RULES | AGGREGATES | STATISTICS | FEEDBACK | SHEDDING | DECISIONS
            DESCRIBE name
            EXPLAIN [ANALYZE | CAPACITY] query
  Change    START QUERY name, STOP QUERY name
            ALTER QUERY name SET ..., ALTER SYSTEM SET ...
            ENABLE RULE name, DISABLE RULE name
            DROP QUERY | STREAM | TABLE | VIEW | EVENT | AGGREGATE | RULE | SINK name
  Feedback  ASSUME query WHERE ...                        these results are not needed
            DESIRE query WHERE ..., DEMAND query WHERE ...  these are needed first, or now

  \\run      continue the queries of the checkpoint
  \\stats    print rates and times
  \\help     print this text (also \\h, \\?)
  \\q        leave (also quit, exit, Ctrl-D)"""
#: What ends a prompt, with or without a semicolon.
LEAVE = ("quit", "exit", "\\q", "\\quit", "\\exit")
KEYWORDS = """
    CREATE STREAM TABLE QUERY VIEW AGGREGATE EVENT RULE SINK SPLIT SELECT FROM WHERE GROUP BY HAVING AS JOIN LEFT
    RIGHT FULL ON UNION ALL DISTINCT LIMIT INTO WITH TIMESTAMP SKEW INTERNAL LATENT RANGE ROWS SLIDE TUPLE SESSION
    LANDMARK NOW UNBOUNDED WHILE PARTITION AND OR NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN ELSE END SHOW STREAMS
    TABLES QUERIES EVENTS RULES AGGREGATES STATISTICS FEEDBACK SHEDDING DECISIONS DESCRIBE DROP EXPLAIN ANALYZE
    CAPACITY JSON START STOP ALTER SYSTEM SET ENABLE DISABLE ASSUME DESIRE DEMAND FILES KAFKA GENERATOR CONSOLE
    MEMORY SECONDS MINUTES HOURS INT BIGINT DOUBLE STRING BOOLEAN DATE window_start window_end
"""


def sql(
    checkpoint: Path | None = typer.Option(
        None, help="Folder for state. A later run with the same folder continues. Without it, no state is kept."
    ),
    buckets: int | None = typer.Option(
        None, min=1, help="Number of state partitions. The default fits this machine; the first run fixes it."
    ),
    host: Host = typer.Option(Host.spark, help="Where queries run. The local host is for small inputs; no Java."),
) -> None:
    """Type statements at a prompt, or pipe them in."""
    with faults(), open_session(checkpoint, host=host, buckets=buckets) as session:
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


class Shell:
    """Executes typed statements one at a time and continues after an error."""

    def __init__(self, session: Session, *, steps: bool, continues: bool) -> None:
        self._session = session
        self._continues = continues  # the checkpoint had queries before
        self._steps = steps  # the local host works only while something waits for it
        self._meter = Meter()
        self._names: set[str] = set()
        self._failed: HeadraceError | None = None

    def converse(self) -> None:
        """Prompt until the user leaves."""
        out.print(f"[bold]Headrace {__version__}[/]: end statements with ; and type \\help for help, \\q to leave")
        prompt = _prompt(self._words)
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
        for line in lines:
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
                out.print(self._meter.table())
            case "\\help" | "\\h" | "\\?":
                out.print(HELP, markup=False)
            case other:
                err.print(f"no command {other}; \\help lists all commands", markup=False)
        return True

    def _execute(self, statements: list[str], *, start: bool = True) -> None:
        for statement in statements:
            self._failed = None
            try:
                for outcome in self._session.execute(statement, start=start):
                    show(outcome)
                if self._steps and start:
                    self._session.wait(0.2)
            except HeadraceError as error:
                if is_debugging():
                    raise
                complain(error, statement)
                self._failed = error
                return
            if statement.upper().startswith("CREATE"):
                self._names.update(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", statement))

    def _words(self) -> list[str]:
        functions = [name for name in (*FUNCTIONS, *AGGREGATES) if name.isidentifier()]
        return sorted({*KEYWORDS.split(), *functions, *self._names})


def is_command(text: str) -> bool:
    """Return whether a line is for the prompt itself: it begins with a backslash, or leaves."""
    line = text.strip()
    return line.startswith("\\") or line.rstrip("; ").lower() in LEAVE


def _prompt(words: Callable[[], list[str]]) -> PromptSession[str]:
    keys = KeyBindings()
    prompt: PromptSession[str]

    @Condition
    def is_incomplete() -> bool:
        text = prompt.default_buffer.text
        return not is_command(text) and not is_blank(take(text)[1])

    @keys.add("enter", filter=is_incomplete)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter", filter=~is_incomplete)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    history = Path.home() / ".headrace" / "history"
    history.parent.mkdir(parents=True, exist_ok=True)
    prompt = PromptSession(
        history=FileHistory(str(history)),
        completer=WordCompleter(words, ignore_case=True),
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation="       -> ",
    )
    return prompt
