"""`headrace sql`: statements typed at a prompt or piped in, and their results as they come."""

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

from headrace.cli.live_session import Host, is_running, open_session
from headrace.cli.meter import Meter
from headrace.cli.output import complain, err, exit_code, faults, is_debugging, out, show
from headrace.cli.split_statements import is_blank, take
from headrace.errors import HeadraceError
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.session import Session

EXAMPLES = (
    "Examples:\n\n"
    "headrace sql   (a prompt; \\help lists what it knows)\n\n"
    "headrace sql --checkpoint state/traffic   (look at, and change, what runs there)\n\n"
    "headrace sql < examples/first.sql   (run piped statements, finish all windows, stop)"
)
HELP = """Statements end with a semicolon and may span lines:
  CREATE STREAM|TABLE|QUERY|VIEW|AGGREGATE ...   SELECT ...   EXPLAIN ...   SHOW STREAMS|TABLES|QUERIES   DESCRIBE name   DROP QUERY name
\\stats  rates and times       \\help  this text       \\q  leave (also Ctrl-D)"""
KEYWORDS = """
    CREATE STREAM TABLE QUERY VIEW AGGREGATE SPLIT SELECT FROM WHERE GROUP BY HAVING AS JOIN LEFT RIGHT FULL ON UNION ALL DISTINCT INTO WITH TIMESTAMP
    SKEW INTERNAL LATENT RANGE ROWS SLIDE TUPLE SESSION LANDMARK NOW UNBOUNDED WHILE PARTITION AND OR NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN ELSE
    END SHOW STREAMS TABLES QUERIES AGGREGATES STATISTICS DESCRIBE DROP EXPLAIN ANALYZE JSON FILES GENERATOR CONSOLE MEMORY SECONDS MINUTES HOURS
    INT BIGINT DOUBLE STRING BOOLEAN DATE window_start window_end
"""


def sql(
    checkpoint: Path | None = typer.Option(
        None, help="Keep state here; a later run continues from it. Without it nothing is kept."
    ),
    buckets: int | None = typer.Option(
        None, min=1, help="Number of state partitions. Fixed by the first run on a checkpoint."
    ),
    host: Host = typer.Option(Host.spark, help="Where queries run; local is for trying out small inputs."),
) -> None:
    """Type statements at a prompt, or pipe them in."""
    with faults(), open_session(checkpoint, host=host, buckets=buckets) as session:
        if is_running(session):
            err.print("[dim]continuing the queries of this checkpoint[/]")
        shell = Shell(session, steps=host is Host.local)
        if sys.stdin.isatty():
            shell.converse()
        else:
            shell.read(sys.stdin)


class Shell:
    """Executes what is typed, one statement at a time, and goes on after an error."""

    def __init__(self, session: Session, *, steps: bool) -> None:
        self._session = session
        self._steps = steps  # the local host works only while it is waited for
        self._meter = Meter()
        self._names: set[str] = set()
        self._failed: HeadraceError | None = None

    def converse(self) -> None:
        """Prompt until the user leaves."""
        out.print("[bold]Headrace[/]: statements end with ; and \\help helps")
        prompt = _prompt(self._words)
        with patch_stdout(raw=True):
            while True:
                try:
                    text = prompt.prompt("headrace> ")
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return
                if not self._entry(text):
                    return

    def read(self, lines: Iterable[str]) -> None:
        """Execute piped text, then finish what the started queries can finish; an error ends it."""
        rest = ""
        for line in lines:
            if is_blank(rest) and line.lstrip().startswith("\\"):
                if not self._command(line.strip()):
                    break
                continue
            statements, rest = take(rest + line)
            self._all(statements)
            if self._failed:
                break
        else:
            if not is_blank(rest):
                self._all([rest.strip()])
        if self._failed:
            raise typer.Exit(exit_code(self._failed))
        self._session.drain()

    def _entry(self, text: str) -> bool:
        if text.lstrip().startswith("\\"):
            return self._command(text.strip())
        statements, rest = take(text)
        self._all([*statements, rest.strip()] if not is_blank(rest) else statements)
        return True

    def _command(self, text: str) -> bool:
        match text.rstrip(";"):
            case "\\q" | "\\quit" | "\\exit":
                return False
            case "\\stats":
                self._meter.look(self._session.statistics())
                out.print(self._meter.table())
            case "\\help" | "\\h" | "\\?":
                out.print(HELP, markup=False)
            case other:
                err.print(f"no command {other}; \\help lists them", markup=False)
        return True

    def _all(self, statements: list[str]) -> None:
        for statement in statements:
            self._failed = None
            try:
                for outcome in self._session.execute(statement):
                    show(outcome)
                if self._steps:
                    self._session.wait(0.2)
            except HeadraceError as error:
                if is_debugging():
                    raise
                complain(error, statement)
                self._failed = error
                return
            self._names |= (
                set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", statement))
                if statement.upper().startswith("CREATE")
                else set()
            )

    def _words(self) -> list[str]:
        functions = [name for name in (*FUNCTIONS, *AGGREGATES) if name.isidentifier()]
        return sorted({*KEYWORDS.split(), *functions, *self._names})


def _prompt(words: Callable[[], list[str]]) -> PromptSession[str]:
    keys = KeyBindings()
    prompt: PromptSession[str]

    @Condition
    def is_incomplete() -> bool:
        text = prompt.default_buffer.text
        return not text.lstrip().startswith("\\") and not is_blank(take(text)[1])

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
