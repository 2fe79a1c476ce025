"""Runs golden scripts in sessions and returns them with the output that came out; see `script` for the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from headrace.catalog.definitions import Stream
from headrace.commands.running_graph import whole_of
from headrace.driver.deployed import Deployments
from headrace.errors import HeadraceError, QueryError
from headrace.graph.explain import explain_graph
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateQuery, Insert, Select
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.optimizer.optimizer import optimize
from headrace.plan.binding.binder import bind
from headrace.plan.check import check
from headrace.plan.explain import explain
from headrace.session import Listing, Message, Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.golden.load import decide
from headrace.testing.golden.order import schedule
from headrace.testing.golden.rows import parse_rows, print_rows, print_value, schema_of
from headrace.testing.golden.script import Case, cases, commands_of, write_script
from headrace.testing.oracle.rows import Row, rows_of
from headrace.testing.streams import parse_time
from headrace.testing.watching import until

#: Columns of SHOW STATISTICS that depend on the machine.
MEASURED = ("queued bytes", "state bytes", "us per tuple")
#: A statement without one of these words is no query.
_READS = re.compile(r"\b(SELECT|QUERY|VIEW|INSERT|DETECT)\b", re.IGNORECASE)
#: Further verbs of a script, for one case: each takes the whole command and returns the lines that it prints.
Verbs = Mapping[str, Callable[[str], list[str]]]


def run_script(text: str, *, host: Literal["local", "spark"] = "local", verbs: Callable[[], Verbs] = dict) -> str:
    """Run a script; return it with the output that came out, so that a correct script comes back unchanged."""
    prepared: tuple[str, ...] = ()
    results: list[tuple[Case, Sequence[str] | None]] = []
    for case in cases(text):
        if case.expected is None:
            prepared += case.commands
            results.append((case, None))
        else:
            results.append((case, run_case((*prepared, *case.commands), host=host, verbs=verbs())))
    return write_script(results)


def run_case(
    lines: Sequence[str], *, host: Literal["local", "spark"] = "local", verbs: Verbs | None = None
) -> list[str]:
    """Run commands in a new session; return the output. An error is part of the output and ends the case."""
    with Session(host=host) as session:
        runner = _Runner(session, verbs or {})
        try:
            for command in commands_of(lines):
                runner.run(command)
            session.drain()
        except HeadraceError as error:
            if runner.statement is not None:
                error.text = None  # show the statement as the script has it, without the sink that was added
            return [*runner.output(), *error.render(runner.statement).splitlines()]
        return runner.output()


def run_together(
    scripts: Sequence[str],
    session: Session,
    *,
    timeout: float | None = None,
    restart: Callable[[Session], Session] | None = None,
) -> list[str]:
    """Run the cases of scripts in one session, and return the scripts with what came out.

    All statements run first, then all rows are fed. It is for hosts that start slowly. Names must be unique across the
    scripts; cases marked as local come back as they are. With `restart`, half of the rows of each stream are fed and
    processed, the session is given to it, and the one that it returns goes on.
    """
    parsed = [cases(script) for script in scripts]
    runners = {case: _Runner(session) for script in parsed for case in script if not case.is_local}
    commands = {case: commands_of(case.commands) for case in runners}
    statements = {case: [_with_sink(text[1:].strip()) for text in commands[case] if text[0] == ">"] for case in runners}
    outcomes = session.execute(";\n".join(text for texts in statements.values() for text in texts))
    queries = iter([outcome.query for outcome in outcomes if isinstance(outcome, Started)])
    for case, runner in runners.items():
        for _ in range(sum(map(_queries_in, statements[case]))):
            runner.watch(next(queries))
    feeds = [text.removeprefix("feed ") for texts in commands.values() for text in texts if text.startswith("feed ")]
    rows = _rows_by_stream(session, feeds)
    if restart is not None:
        first = {name: given[: (len(given) + 1) // 2] for name, given in rows.items()}
        rows = {name: given[len(first[name]) :] for name, given in rows.items()}
        _push(session, first)
        until(lambda: _has_read(session, first), timeout or 120.0, session=session)
        session = restart(session)
        for runner in runners.values():
            runner.go_on(session)
    _push(session, rows)
    session.drain(timeout)
    return [write_script((case, _output_of(case, runners)) for case in script) for script in parsed]


def _rows_by_stream(session: Session, feeds: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for text in feeds:
        name, _, given = text.partition(" ")
        rows.setdefault(name, []).extend(parse_rows(given, _stream(session, name)))
    return rows


def _push(session: Session, rows: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    for name, given in rows.items():
        if given:
            session.push(name, given)


def _has_read(session: Session, rows: Mapping[str, Sequence[dict[str, Any]]]) -> bool:
    """Return whether all rows were read by a micro-batch that has ended; streams that no query reads are left out."""
    streams = session.statistics().streams  # empty before the first micro-batch has ended
    read = {name: each.tuples + each.late + each.bad for name, each in streams.items()}
    return bool(read) and all(read[name] >= len(given) for name, given in rows.items() if name in read)


def _stream(session: Session, name: str) -> Stream:
    stream = session.catalog.find(name)
    if not isinstance(stream, Stream):
        raise ValueError(f"{name} is not a stream")
    return stream


def _output_of(case: Case, runners: Mapping[Case, _Runner]) -> Sequence[str] | None:
    return runners[case].output() if case in runners and case.expected is not None else case.expected


class _Runner:
    """Runs the commands of one case in a session, and collects what they print and what the queries deliver."""

    def __init__(self, session: Session, verbs: Verbs | None = None) -> None:
        self.session = session
        self.verbs = verbs or {}
        self.statement: str | None = None  # an error that is raised points into it
        self.lines: list[str] = []
        self.results: dict[str, list[Row]] = {}
        self.schemas: dict[str, Schema] = {}
        self.clock = VirtualClock()
        if isinstance(session.deployment, LocalDeployment):
            session.deployment.clock = session.deployment.delivery.clock = self.clock

    def run(self, command: str) -> None:
        verb, *words = command.split(maxsplit=1)
        rest = words[0] if words else ""
        self.statement = None
        match verb:
            case ">":
                self._execute(rest)
            case "feed":
                self._feed(rest)
            case "advance":
                self.clock.advance(parse_time(rest) if rest else 0)
                while isinstance(self.session.deployment, LocalDeployment) and self.session.deployment.step():
                    pass
            case "explain":
                self.statement = rest
                self.lines += self.session.explain(rest).replace("\n\n", "\n").splitlines()
            case "optimize":
                self._optimize(rest)
            case "graph":
                running = Deployments(self.session.directory).newest()
                self.lines += explain_graph(whole_of(running)).splitlines()
            case "schedule":
                self.lines += schedule(self.session, rest)
                self.results.clear()
            case "decide":
                self.lines += decide(self.session, rest)
            case "results":
                self.lines += [f"at {self.clock.now() / SECOND:g}s", *self._delivered()]
                for rows in self.results.values():
                    rows.clear()
            case "statistics":
                (shown,) = self.session.execute("SHOW STATISTICS")
                self.lines += _without(shown, MEASURED) if isinstance(shown, Listing) else []
            case "register":
                self.session.register(rest, _do_nothing)
            case "#":
                pass
            case _ if verb in self.verbs:
                self.lines += self.verbs[verb](command)
            case _:
                raise ValueError(f"{command!r}: no command starts with {verb!r}")

    def _execute(self, statement: str) -> None:
        self.statement = statement
        for outcome in self.session.execute(_with_sink(statement)):
            match outcome:
                case Started(query=query):
                    self.watch(query)
                case Listing():
                    self.lines += _without(outcome)
                case Message():
                    pass  # scripts do not print that something was created

    def _feed(self, text: str) -> None:
        name, _, rows = text.partition(" ")
        self.session.push(name, parse_rows(rows, _stream(self.session, name)))

    def _optimize(self, text: str) -> None:
        self.statement = text
        (statement,) = parse(text)
        if not isinstance(statement, Select):
            raise ValueError(f"optimize takes a SELECT, not {text!r}")
        plan = bind(statement.select, statement.text, self.session.catalog)
        steps = optimize(plan)
        for step in steps:
            check(step.plan)
        rules = ", ".join(dict.fromkeys(step.rule for step in steps[1:]))
        self.lines += [*explain(plan).splitlines(), f"=> {rules or 'no rule applies'}"]
        self.lines += explain(steps[-1].plan).splitlines() if rules else []

    def go_on(self, session: Session) -> None:
        """Collect the results of the same queries in another session."""
        self.session = session
        for query in self.results:
            self.watch(query)

    def watch(self, query: str) -> None:
        """Collect the results of a query."""
        rows = self.results.setdefault(query, [])

        def take(batch: int, pages: Sequence[Page]) -> None:
            for page in pages:
                rows.extend(rows_of(page.rows.iter_rows(named=True)))
                self.schemas[query] = schema_of(page)

        self.session.deployment.delivery.subscribers.setdefault(query, []).append(take)

    def output(self) -> list[str]:
        """Return the lines printed so far, then the results."""
        return [*self.lines, *self._delivered()]

    def _delivered(self) -> list[str]:
        several = len(self.results) > 1
        return [
            f"{query} {line}" if several else line
            for query, rows in self.results.items()
            for line in print_rows(rows, self.schemas.get(query))
        ]


def _without(listing: Listing, left_out: Collection[str] = ()) -> list[str]:
    """Return the lines of a listing, without some columns."""
    kept = [i for i, column in enumerate(listing.columns) if column not in left_out]
    rows = (" ".join(print_value(row[i]) for i in kept) for row in listing.rows)
    return [" ".join(listing.columns[i] for i in kept), *rows]


def _do_nothing(**arguments: Any) -> None:
    """Take the calls of rules."""


@lru_cache(maxsize=1024)  # each case of a script begins with the same statements
def _queries_in(text: str) -> int:
    """Return how many queries a text has; one that is not correct has none."""
    try:
        return sum(isinstance(statement, Select | CreateQuery | Insert) for statement in parse(text))
    except QueryError:
        return 0


def _with_sink(statement: str) -> str:
    """Let a query without a sink deliver to memory."""
    may_be_query = _READS.search(statement) is not None and re.search(r"\bINTO\b", statement) is None
    if not may_be_query or _queries_in(statement) != 1:
        return statement
    return statement.rstrip(";") + " INTO MEMORY"
