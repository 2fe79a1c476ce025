"""Golden scripts: commands, a line of dashes, and what comes out.

    > CREATE STREAM bids (at TIMESTAMP, price DOUBLE) TIMESTAMP BY at FROM MEMORY

    > SELECT count(*) AS n FROM bids [RANGE 10 SECONDS]
    feed bids at=1s price=3, 4s, 11s
    ---
    10s: n=2
    20s: n=1

A blank line ends a case. A case without dashes prepares all that follow; each other case runs in a session of its own. `feed` rows are separated
by commas; a bare value belongs to the first column named. Lines that begin with blanks go on with the statement above. `advance [5s]` lets the host
work off what was fed so far, after that time; at the end the streams are closed. `explain SELECT ...` shows a plan. Rows come in canonical order: by
timestamp, then by content; with several queries each line starts with the query's name. A dash is NULL. `# local` marks a case that needs the local
host: its times are those of a virtual clock, or it asks for more than results.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.catalog.definitions import Stream
from headrace.errors import HeadraceError
from headrace.hosts.local import LocalDeployment
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.time import DAY, MILLISECOND, SECOND, format_instant
from headrace.model.types import Type
from headrace.session import Listing, Message, Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.rows import Row, rows_of
from headrace.testing.oracle.values import sort_key
from headrace.testing.streams import column, parse_time, parse_value

SEPARATOR = "---"
LOCAL = "# local"


@dataclass(frozen=True, slots=True)
class Case:
    """The lines of one case; `expected` is None for one that only prepares."""

    commands: tuple[str, ...]
    expected: tuple[str, ...] | None


def run_script(text: str, *, host: Literal["local", "spark"] = "local") -> str:
    """Run a script; return it with the output that came out, so that a correct script comes back unchanged."""
    prepared: tuple[str, ...] = ()
    done: list[tuple[Case, Sequence[str] | None]] = []
    for case in cases(text):
        if case.expected is None:
            prepared += case.commands
        done.append((case, None if case.expected is None else run_case((*prepared, *case.commands), host=host)))
    return _script(done)


def run_together(scripts: Sequence[str], session: Session, *, timeout: float | None = None) -> list[str]:
    """Run the cases of scripts in one session: all statements, then all that is fed; returns the scripts with what came out.

    It is for hosts that take long to start. Names must be used once; cases that are marked as local come back as they are.
    """
    parsed = [cases(script) for script in scripts]
    commands = {case: _joined(case.commands) for script in parsed for case in script if LOCAL not in case.commands}
    texts = {
        case: [_with_sink(command[1:].strip()) for command in found if command.startswith(">")]
        for case, found in commands.items()
    }
    outcomes = session.execute(";\n".join(text for found in texts.values() for text in found))
    started = iter([outcome.query for outcome in outcomes if isinstance(outcome, Started)])
    runners = {case: _Runner(session) for case in commands}
    for case, found in texts.items():
        for _ in filter(_is_query, found):
            runners[case].watch(next(started))
    for case, found in commands.items():
        for command in found:
            if command.startswith("feed "):
                runners[case].run(command)
    session.drain(timeout)
    return [
        _script([(case, runners[case].output() if case in runners else case.expected) for case in script])
        for script in parsed
    ]


def cases(text: str) -> list[Case]:
    """Cut a script at its blank lines."""
    found: list[Case] = []
    for block in re.split(r"\n[ \t]*\n+", text.strip("\n")):
        lines = block.rstrip().splitlines()
        if SEPARATOR in lines:
            cut = lines.index(SEPARATOR)
            found.append(Case(tuple(lines[:cut]), tuple(lines[cut + 1 :])))
        else:
            found.append(Case(tuple(lines), None))
    return found


def run_case(commands: Sequence[str], *, host: Literal["local", "spark"] = "local") -> list[str]:
    """Run commands in a new session; return what came out. An error is part of the output and ends the case."""
    with Session(host=host) as session:
        runner = _Runner(session)
        try:
            for command in _joined(commands):
                runner.run(command)
            session.drain()
        except HeadraceError as error:
            error.text = None  # show the statement as the script has it, without the sink that was added
            return [*runner.output(), *error.render(runner.statement).splitlines()]
        return runner.output()


class _Runner:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.statement: str | None = None
        self.lines: list[str] = []
        self.results: dict[str, list[Row]] = {}
        self.schemas: dict[str, Schema] = {}
        self.clock = VirtualClock()
        if isinstance(session.deployment, LocalDeployment):
            session.deployment.clock = self.clock

    def run(self, command: str) -> None:
        verb, _, rest = command.partition(" ")
        match verb:
            case ">":
                self._execute(rest.strip())
            case "feed":
                name, _, rows = rest.strip().partition(" ")
                stream = self.session.catalog.find(name)
                if not isinstance(stream, Stream):
                    raise ValueError(f"{name} is no stream")
                self.session.push(name, parse_rows(rows, stream))
            case "advance":
                self.clock.advance(parse_time(rest.strip()) if rest.strip() else 0)
                while isinstance(self.session.deployment, LocalDeployment) and self.session.deployment.step():
                    pass
            case "explain":
                self.statement = rest
                self.lines += self.session.explain(rest).replace("\n\n", "\n").splitlines()
            case "#":
                pass
            case _:
                raise ValueError(f"{command!r}: commands start with >, feed, advance, explain or #")

    def _execute(self, statement: str) -> None:
        self.statement = statement
        for outcome in self.session.execute(_with_sink(statement)):
            match outcome:
                case Started(query=query):
                    self.watch(query)
                case Listing(columns=columns, rows=rows):
                    self.lines += [" ".join(columns), *(" ".join(map(_text, row)) for row in rows)]
                case Message():
                    pass  # that something was created is no news in a script

    def watch(self, query: str) -> None:
        rows = self.results.setdefault(query, [])

        def take(batch: int, pages: Sequence[Page]) -> None:
            for page in pages:
                rows.extend(rows_of(page.rows.iter_rows(named=True)))
                self.schemas[query] = _schema(page)

        self.session.deployment.delivery.subscribers.setdefault(query, []).append(take)

    def output(self) -> list[str]:
        several = len(self.results) > 1
        found = list(self.lines)
        for query, rows in self.results.items():
            found += [f"{query} {line}" if several else line for line in print_rows(rows, self.schemas.get(query))]
        return found


def print_rows(rows: Iterable[Row], schema: Schema | None = None) -> list[str]:
    """One line per row in canonical order: `10s: n=2 at=5s`."""
    shown = {field.name: _SHOWN[field.type] for field in schema or () if field.type in _SHOWN}
    ordered = sorted(rows, key=lambda row: (row.ts, *map(sort_key, row.values.values())))
    return [f"{print_time(row.ts)}: {_columns(row.values, shown)}".rstrip() for row in ordered]


def print_time(instant: int) -> str:
    """An instant soon after 1970 as a span (10s, 1500ms), any other as ISO text."""
    if not -DAY < instant < 100 * DAY:
        return format_instant(instant).replace(" ", "T")
    for unit, name in ((SECOND, "s"), (MILLISECOND, "ms")):
        if instant % unit == 0:
            return f"{instant // unit}{name}"
    return f"{instant}us"


def parse_rows(text: str, stream: Stream) -> list[dict[str, Any]]:
    """Read `at=1s price=3, 4s`: rows separated by commas, a bare value being of the first column named."""
    rows: list[dict[str, Any]] = []
    first: str | None = None
    for part in _split(text):
        row: dict[str, Any] = {}
        for word in shlex.split(part):
            name, equals, value = word.partition("=")
            if not equals:
                name, value = first or stream.schema.names[0], word
            first = first or name
            field = stream.schema.find(name)
            if field is None:
                raise ValueError(f"{stream.name} has no column {name!r}")
            row[name] = column(field, [parse_value(value, field.type)]).to_list()[0]
        rows.append(row)
    return rows


def _script(done: Iterable[tuple[Case, Sequence[str] | None]]) -> str:
    blocks = [
        "\n".join(case.commands if case.expected is None else [*case.commands, SEPARATOR, *(output or ())])
        for case, output in done
    ]
    return "\n\n".join(blocks) + "\n"


def _is_query(statement: str) -> bool:
    return re.match(r"(SELECT|WITH|CREATE\s+(OR\s+REPLACE\s+)?QUERY)\b", statement, re.IGNORECASE) is not None


def _with_sink(statement: str) -> str:
    return (
        statement.rstrip(";") + " INTO MEMORY"
        if _is_query(statement) and not re.search(r"\bINTO\b", statement)
        else statement
    )


def _joined(commands: Sequence[str]) -> list[str]:
    found: list[str] = []
    for line in commands:
        if line[:1].isspace() and found:
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def _split(text: str) -> list[str]:
    """Cut at commas outside of quotes."""
    return [part.strip() for part in re.findall(r"(?:'[^']*'|[^,'])+", text)]


def _schema(page: Page) -> Schema:
    kinds = {field.polars: field for field in (Type.TIMESTAMP, Type.INTERVAL, Type.DATE)}
    return Schema.of(**{name: kinds.get(dtype, Type.STRING) for name, dtype in page.visible().schema.items()})


def _columns(values: Mapping[str, Any], shown: Mapping[str, Callable[[int], str]]) -> str:
    return " ".join(
        f"{name}={shown[name](value) if name in shown and value is not None else _text(value)}"
        for name, value in values.items()
    )


def _print_date(days: int) -> str:
    return format_instant(days * DAY)[:10]


_SHOWN: dict[Type, Callable[[int], str]] = {
    Type.TIMESTAMP: print_time,
    Type.INTERVAL: print_time,
    Type.DATE: _print_date,
}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, str) else value if re.fullmatch(r"\w[\w.:/-]*", value) else f"'{value}'"
