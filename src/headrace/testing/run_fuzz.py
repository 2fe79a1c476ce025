"""What is accepted must run: random queries, events and rules over random rows, many in one deployment.

A query is made from a grammar, so most are accepted. Those that are run to the end without an error, and give the same
however rows are cut into pages and divided among buckets.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headrace.errors import InternalError, QueryError
from headrace.hosts.host import Deployment
from headrace.hosts.local import LocalDeployment
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.time import SECOND, parse_instant
from headrace.model.types import DataType, Type
from headrace.session import Session
from headrace.testing.clock import VirtualClock
from headrace.worker.ingest import PAGE_TUPLES

NOON = parse_instant("2026-03-01 12:00:00")
_COLUMNS = {
    "at": Type.TIMESTAMP,
    "k": Type.INT,
    "n": Type.BIGINT,
    "v": Type.DOUBLE,
    "name": Type.STRING,
    "flag": Type.BOOLEAN,
    "day": Type.DATE,
    "span": Type.INTERVAL,
    "raw": Type.BINARY,
}
_DECLARED = ", ".join(f"{name} {type_.value}" for name, type_ in _COLUMNS.items())
#: Streams of every timing, and an event that rules raise.
STATEMENTS = f"""
CREATE STREAM s ({_DECLARED}) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE STREAM t ({_DECLARED}) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM u ({_DECLARED}) FROM MEMORY;
CREATE EVENT alarm (k INT, name STRING);
"""
STREAMS = ("s", "t", "u")
_TYPES = tuple(set(_COLUMNS.values()))
_LITERALS: dict[DataType, Sequence[str]] = {
    Type.BOOLEAN: ("TRUE", "FALSE", "NULL"),
    Type.INT: ("0", "1", "-1", "2147483647", "7"),
    Type.BIGINT: ("0", "3", "-2", "9223372036854775807", "1000000"),
    Type.DOUBLE: ("0.0", "1.5", "-2.25", "1e308", "1e-300", "CAST('NaN' AS DOUBLE)"),
    Type.STRING: ("''", "'a'", "'ü%_'", "'a longer text with blanks'", "'2026-03-01'", "'12'"),
    Type.TIMESTAMP: ("TIMESTAMP '2026-03-01 12:00:03'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    Type.DATE: ("DATE '2026-03-01'", "DATE '0001-01-01'", "DATE '1969-12-31'"),
    Type.INTERVAL: ("INTERVAL 1 SECOND", "INTERVAL 2 DAYS"),
    Type.BINARY: ("raw",),
}
_INFIX = {"and", "or", "=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "||"}
#: Functions with arguments that must be literals: those from this place on.
_LITERAL_FROM = {
    "round": 1, "lpad": 1, "rpad": 1, "split_part": 1, "like": 1, "ilike": 1, "rlike": 1, "regexp_extract": 1,
}  # fmt: skip
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
#: The order of addition changes the last digits of a float, and what depends on them.
_INEXACT = re.compile(r"\b(sum|avg|stddev|variance|percentile|median|corr|\w+_(pop|samp|distinct))\b", re.IGNORECASE)


#: The stream whose rows are stamped when they come.
_BY_ARRIVAL = re.compile(r"\bu\b")
#: A deployment that is drained ends within so many seconds, also on a busy machine.
_PATIENCE = 600.0

#: Where statements run.
Host: TypeAlias = Callable[[Path], Deployment] | Literal["spark"]
#: Rows to push, by stream.
Portion: TypeAlias = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A statement that was accepted and does not run, or that fails in another way than by an error of ours."""

    seed: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the statements of some seeds."""

    accepted: int
    refused: int
    wrong: tuple[Wrong, ...]


class Grammar:
    """Random statements, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"run/{seed}")

    def statement(self, name: str) -> str:
        """Return a statement that makes a query, or an event with a rule, of this name."""
        shapes = (self._projection, self._aggregate, self._aggregate, self._join, self._union, self._nested)
        if self.chance.random() < 0.15:
            return self._rule(name)
        return f"CREATE QUERY {name} AS {self.chance.choice(shapes)()} INTO MEMORY"

    def rows(self, count: int, first: int) -> list[dict[str, Any]]:
        """Return rows of a stream from a second on, in about the order of time."""
        chance = self.chance
        return [
            {
                "at": f"2026-03-01 12:00:{min(59, first + number // 3 + chance.choice((0, 0, 0, 1))):02d}",
                "k": chance.choice((0, 1, 2, 3, None, -(2**31), 2**31 - 1)),
                "n": chance.choice((0, 5, -5, None, 2**63 - 1, -(2**63), 10**12)),
                "v": chance.choice((0.0, -0.0, 1.5, None, 1e308, -1e308, 1e-300, 3.25)),
                "name": chance.choice(("", "a", "b", None, "ü%_", "a longer text", " a ", "2026-03-01", "x" * 50)),
                "flag": chance.choice((True, False, None)),
                "day": chance.choice(("2026-03-01", "1969-12-31", "0001-01-01", "9999-12-31", None)),
                "span": chance.choice((0, 1_000_000, -5, None, 86_400_000_000)),
                "raw": chance.choice((b"", b"\x00\xff", b"text", None)),
            }
            for number in range(count)
        ]

    def _projection(self) -> str:
        items = ", ".join(f"{self.expression(self.type())} AS c{number}" for number in range(self.chance.randint(1, 4)))
        limit = f" LIMIT {self.chance.randint(1, 5)}" if self.chance.random() < 0.1 else ""
        distinct = self.chance.random() < 0.1
        window = self._window() if distinct else ""
        return f"SELECT {'DISTINCT ' if distinct else ''}{items} FROM {self._stream()}{window}{self._where()}{limit}"

    def _aggregate(self) -> str:
        keys = [self.expression(self.type(), 1) for _ in range(self.chance.choice((0, 0, 1, 2)))]
        items = [*(f"{key} AS g{at}" for at, key in enumerate(keys)), *self._calls()]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = f" HAVING count(*) > {self.chance.randint(0, 2)}" if self.chance.random() < 0.2 else ""
        return f"SELECT {', '.join(items)} FROM {self._stream()}{self._window()}{self._where()}{group}{having}"

    def _calls(self) -> list[str]:
        calls = ["count(*) AS n0"]
        for at in range(self.chance.randint(0, 2)):
            function = self.chance.choice([name for name in AGGREGATES if name != "shed_error"])
            argument = self.expression(self.type(), 2)
            if AGGREGATES[function].least == 2:
                fraction = "percentile" in function
                argument += f", {self.chance.random():.2f}" if fraction else f", {self.expression(self.type(), 1)}"
            called = f"count(DISTINCT {argument})" if function == "count_distinct" else f"{function}({argument})"
            calls.append(f"{called} AS a{at}")
        return calls

    def _join(self) -> str:
        left, right = self.chance.sample(STREAMS, 2)
        key = self.chance.choice(("k", "name", "n", "day"))
        more = f" AND a.n < b.{self.chance.choice(('n', 'k'))}" if self.chance.random() < 0.3 else ""
        kind = self.chance.choice(("JOIN", "JOIN", "LEFT JOIN"))
        return (
            f"SELECT a.k, b.name, a.n AS n, b.{self.chance.choice(list(_COLUMNS))} AS x "
            f"FROM {left}{self._window()} AS a "
            f"{kind} {right}{self._window()} AS b ON a.{key} = b.{key}{more}"
        )

    def _union(self) -> str:
        first, second = self.chance.choice(STREAMS), self.chance.choice(STREAMS)
        type_ = self.type()
        parts = [f"SELECT {self.expression(type_, 2)} AS c FROM {stream}{self._where()}" for stream in (first, second)]
        return " UNION ALL ".join(parts)

    def _nested(self) -> str:
        inner = f"SELECT k, name, {self.expression(Type.BIGINT, 2)} AS x FROM {self._stream()}{self._where()}"
        return f"SELECT k, count(*) AS n, max(x) AS m FROM ({inner}){self._window()} AS i GROUP BY k"

    def _rule(self, name: str) -> str:
        first, second = self.chance.sample(("s", "t"), 2)
        event = self.chance.choice(
            (
                f"{first} SEQUENCE {second} WITHIN 5 SECONDS WHERE {first}.k = {second}.k",
                f"{first} AND {second} WITHIN 3 SECONDS",
                f"{first} OR {second}",
                f"TIMES (2, {first}) WITHIN 4 SECONDS",
                f"{first} PLUS '2 s'",
                f"NOT ({second}) [{first}, '3 seconds'] WHERE {first}.k = {second}.k",
            )
        )
        mode = self.chance.choice(("", " CONTEXT RECENT", " CONTEXT CHRONICLE", " CONTEXT CONTINUOUS"))
        return f"CREATE EVENT {name}_e AS {event}; CREATE RULE {name} ON {name}_e{mode} DO INSERT INTO MEMORY"

    def _stream(self) -> str:
        return self.chance.choice(STREAMS)

    def _window(self) -> str:
        return self.chance.choice(
            (
                " [RANGE 2 SECONDS]",
                " [RANGE 4 SECONDS SLIDE 1 SECOND]",
                " [RANGE 4 SECONDS STEP 1 SECOND]",
                " [ROWS 3]",
                " [NOW]",
                " [RANGE 3 SECONDS SLIDE 3 SECONDS]",
            )
        )

    def _where(self) -> str:
        return f" WHERE {self.expression(Type.BOOLEAN)}" if self.chance.random() < 0.5 else ""

    def type(self) -> DataType:
        """Return a random type."""
        return self.chance.choice(_TYPES)

    def expression(self, type_: DataType, depth: int = 3) -> str:
        """Return an expression of a type, mostly."""
        columns = [name for name, known in _COLUMNS.items() if known == type_]
        roll = self.chance.random()
        if depth == 0 or roll < 0.25:
            return self.chance.choice([*columns, *columns, self._literal(type_)])
        if roll < 0.32:
            return f"CAST({self.expression(self.type(), depth - 1)} AS {type_.value})"
        if roll < 0.39:
            parts = (self.expression(Type.BOOLEAN, depth - 1), *(self.expression(type_, depth - 1) for _ in range(2)))
            return "CASE WHEN {} THEN {} ELSE {} END".format(*parts)
        for _ in range(30):
            name = self.chance.choice(list(FUNCTIONS))
            function = FUNCTIONS[name]
            count = self.chance.randint(function.least, function.most or function.least + 1)
            types = [self.type() for _ in range(count)]
            if function.typing(types) == type_:
                return self._call(name, types, depth - 1)
        return self._literal(type_)

    def _call(self, name: str, types: Sequence[DataType], depth: int) -> str:
        literal = _LITERAL_FROM.get(name, len(types))
        args = [
            self.expression(type_, depth) if at < literal else self._literal(type_) for at, type_ in enumerate(types)
        ]
        match name:
            case _ if name in _INFIX:
                return "(" + f" {name} ".join(args) + ")"
            case "not" | "neg":
                return f"({'NOT' if name == 'not' else '-'} {args[0]})"
            case "is_null":
                return f"({args[0]} IS NULL)"
            case "in":
                return f"({args[0]} IN ({', '.join(args[1:])}))"
            case "like" | "ilike" | "rlike":
                return f"({args[0]} {name} {args[1]})"
            case "date_trunc":
                return f"date_trunc('{self.chance.choice(_UNITS)}', {args[1]})"
            case "position":
                return f"position({self._literal(Type.STRING)}, {args[1]})"
            case "lpad" | "rpad":
                return f"{name}({args[0]}, {self.chance.choice((0, 3, 200))}, '{self.chance.choice('x ü')}')"
            case "split_part":
                return f"split_part({args[0]}, '{self.chance.choice('a ü')}', {self.chance.randint(1, 3)})"
            case "regexp_extract":
                return f"regexp_extract({args[0]}, '{self.chance.choice(('(a)', '(.)b?', '([0-9]+)'))}', 1)"
            case "round":
                return f"round({args[0]}, {self.chance.choice((0, 1, 5, 20))})"
            case _:
                return f"{name}({', '.join(args)})"

    def _literal(self, type_: DataType) -> str:
        return self.chance.choice(_LITERALS[type_])


def check(seeds: Iterable[int], *, compared: bool = True) -> Outcome:
    """Run the statements of these seeds in one deployment; with `compared`, in a second one that divides rows more."""
    statements, refused, wrong = accepted(seeds)
    data = Grammar(min(statements, default=0))
    portions = [{stream: data.rows(12, first) for stream in STREAMS} for first in (0, 3, 9)]
    first, errors = run(statements, portions, local_host)
    wrong += errors
    if compared:
        failed = {error.seed for error in wrong}
        rest = {seed: text for seed, text in statements.items() if seed not in failed}
        second, errors = run(rest, portions, lambda directory: local_host(directory, buckets=3, page=2))
        wrong += errors
        wrong += [
            Wrong(seed, text, f"with other pages and buckets it gives {_differing(first[seed], second[seed])}")
            for seed, text in rest.items()
            if seed in first and seed in second and first[seed] != second[seed] and not _INEXACT.search(text)
        ]
    return Outcome(len(statements), refused, tuple(wrong))


def check_on_spark(seeds: Iterable[int]) -> Outcome:
    """Run the statements of these seeds in one deployment on Spark, and compare with what they give in this process.

    Results that depend on when rows came are not compared.
    """
    statements, refused, wrong = accepted(seeds)
    data = Grammar(min(statements, default=0))
    portions = [{stream: data.rows(12, first) for stream in STREAMS} for first in (0, 3, 9)]
    here, errors = run(statements, portions, local_host)
    wrong += errors
    there, errors = run(statements, portions, "spark")
    wrong += errors
    wrong += [
        Wrong(seed, text, f"Spark gives {_differing(here[seed], there[seed])}")
        for seed, text in statements.items()
        if seed in here and seed in there and here[seed] != there[seed]
        if not _INEXACT.search(text) and not _BY_ARRIVAL.search(text)
    ]
    return Outcome(len(statements), refused, tuple(wrong))


def accepted(seeds: Iterable[int]) -> tuple[dict[int, str], int, list[Wrong]]:
    """Return the statements of seeds that are accepted, how many are refused, and which are neither."""
    statements: dict[int, str] = {}
    refused, wrong = 0, list[Wrong]()
    with Session(host="local") as session:
        session.execute(STATEMENTS)
        for seed in seeds:
            text = Grammar(seed).statement(f"q{seed}")
            try:
                session.execute(text, start=False)
                statements[seed] = text
            except InternalError as error:
                wrong.append(Wrong(seed, text, f"an internal error: {error}"))
            except QueryError:
                refused += 1
            except Exception as error:
                wrong.append(Wrong(seed, text, f"{type(error).__name__}: {error}"))
    return statements, refused, wrong


def run(
    statements: dict[int, str], portions: Sequence[Portion], host: Host
) -> tuple[dict[int, list[str]], list[Wrong]]:
    """Run statements over portions of rows to their end; return the results by seed, and what is wrong."""
    if not statements:
        return {}, []
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as folder:
        directory = Path(folder) / "checkpoint"
        with Session(directory, host=host) as session:
            try:
                session.execute(STATEMENTS + ";".join(statements.values()))
                for portion in portions:
                    for stream, rows in portion.items():
                        session.push(stream, rows)
                    _step(session)
                session.drain(_PATIENCE)
            except Exception as error:  # no query is named, or all of them fail
                return _one_by_one(statements, portions, host, error)
            wrong = [
                Wrong(seed, text, f"it fails: {reason}")
                for name, reason in session.failed().items()
                for seed, text in statements.items()
                if f"q{seed}" == name
            ]
            names = {seed: f"q{seed}" for seed in statements if f"q{seed}" not in session.failed()}
            return {seed: sorted(map(repr, session.results(name))) for seed, name in names.items()}, wrong


def _one_by_one(
    statements: dict[int, str], portions: Sequence[Portion], host: Host, error: Exception
) -> tuple[dict[int, list[str]], list[Wrong]]:
    """Run each statement by itself, to find the one that fails."""
    if len(statements) == 1:
        ((seed, text),) = statements.items()
        return {}, [Wrong(seed, text, f"{type(error).__name__}: {error}")]
    results, wrong = dict[int, list[str]](), list[Wrong]()
    for seed, text in statements.items():
        result, errors = run({seed: text}, portions, host)
        results |= result
        wrong += errors
    return results, wrong or [Wrong(min(statements), "", f"only together: {type(error).__name__}: {error}")]


def local_host(directory: Path, *, buckets: int = 1, page: int = PAGE_TUPLES) -> LocalDeployment:
    """Return a deployment in this process whose clock stands still between portions."""
    return LocalDeployment(directory, buckets=buckets, page=page, clock=VirtualClock(NOON))


def _step(session: Session) -> None:
    """Run what there is to run."""
    deployment = session.deployment
    if isinstance(deployment, LocalDeployment):
        assert isinstance(deployment.clock, VirtualClock)
        deployment.clock.advance(SECOND)
        for _ in range(50):
            if not deployment.step():
                break


def _differing(first: Sequence[str], second: Sequence[str]) -> str:
    fewer = [row for row in first if row not in second][:2]
    more = [row for row in second if row not in first][:2]
    return f"{len(second)} rows instead of {len(first)}: {more} instead of {fewer}"
