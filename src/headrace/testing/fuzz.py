"""Random texts from known statements: cut, doubled, exchanged and spliced token by token.

A text is accepted, or refused with one of our errors that points into it; nothing else may happen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.errors import HeadraceError, InternalError, QueryError
from headrace.session import Session
from headrace.testing.golden.script import cases, commands_of

#: Strings and quoted names, numbers, words, marks: what a mutation moves as a whole.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\d+(?:\.\d+)?|\w+|\s+|[^\w\s]")
_DEFINITION = re.compile(r"CREATE STREAM \w+ \(.*FROM MEMORY$", re.DOTALL)
#: Tokens that may come in anywhere: marks, edges of numbers and texts, and words with a meaning of their own.
_STRANGE = (
    *"()[],;.*+-/=<>'\"%&|~@#$\\{}:?!`",
    "''", '""', "0", "-1", "1e308", "1e-308", "9" * 30, "0x10", "NULL", "TRUE", "'\x00'", "é", "\u202e", "'%'",
    "NOT", "AND", "OR", "IN", "BETWEEN", "CASE", "END", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY",
    "UNION", "JOIN", "LEFT", "ON", "USING", "AS", "INTO", "WITH", "[NOW]", "[RANGE 1 SECOND]", "[ROWS 1]", "RANGE",
    "SLIDE", "DISTINCT", "count(*)", "rowtime", "window_start", "CAST(", "INTERVAL", "TIMESTAMP", "SECONDS", "LIMIT",
    "EXISTS", "OVER", "PARTITION BY", "CREATE", "QUERY", "STREAM", "EVENT", "RULE", "DO", "CALL", "SEQUENCE", "EVERY",
)  # fmt: skip


def corpus(folder: Path) -> tuple[list[str], list[str]]:
    """Return the statements of golden scripts that define streams to read from, and all other statements."""
    definitions: dict[str, str] = {}
    statements: list[str] = []
    for path in sorted(folder.rglob("*.txt")):
        for case in cases(path.read_text()):
            for command in commands_of(case.commands):
                text = command.removeprefix("> ").strip()
                if command.startswith("> ") and re.match(
                    r"CREATE (STREAM|TABLE) \w+ \(.*FROM MEMORY$", text, re.DOTALL
                ):
                    definitions.setdefault(text.split()[2].lower(), text)
                elif command.startswith("> "):
                    statements.append(text)
    return list(definitions.values()), statements


def prepare(definitions: Iterable[str]) -> Session:
    """Return a session that knows these streams; a definition that is wrong on purpose is left out."""
    session = Session(host="local")
    for definition in definitions:
        with suppress(QueryError):
            session.execute(definition)
    return session


def mutate(random_: random.Random, statements: Sequence[str]) -> str:
    """Return a statement with one to four changes."""
    tokens = _TOKEN.findall(random_.choice(statements))
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(tokens) + 1)
        match random_.randrange(7):
            case 0:  # leave some out
                del tokens[at : at + random_.randint(1, 3)]
            case 1:  # double some
                tokens[at:at] = tokens[at : at + random_.randint(1, 6)]
            case 2:  # exchange two
                if tokens:
                    here, there = random_.randrange(len(tokens)), random_.randrange(len(tokens))
                    tokens[here], tokens[there] = tokens[there], tokens[here]
            case 3:  # put in something strange
                tokens[at:at] = [" ", random_.choice(_STRANGE), " "]
            case 4:  # replace one by something strange
                tokens[at : at + 1] = [random_.choice(_STRANGE)]
            case 5:  # continue with the end of another
                other = _TOKEN.findall(random_.choice(statements))
                tokens[at:] = other[random_.randrange(len(other) + 1) :]
            case _:  # put in a part of another
                other = _TOKEN.findall(random_.choice(statements))
                begin = random_.randrange(len(other) + 1)
                tokens[at:at] = other[begin : begin + random_.randint(1, 8)]
    return "".join(tokens)


def check(session: Session, text: str) -> str | None:
    """Let a session check a text without effect; return what is wrong with its reaction, None if nothing is."""
    try:
        session.explain(text)
    except InternalError as error:
        return f"an internal error: {error}"
    except QueryError as error:
        return _wrong_span(error, text)
    except HeadraceError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def failures(session: Session, statements: Sequence[str], seeds: Iterable[int]) -> list[tuple[int, str, str]]:
    """Return (seed, text, what is wrong) of the seeds whose text is neither accepted nor refused properly."""
    wrong = []
    for seed in seeds:
        text = mutate(random.Random(seed), statements)
        reason = check(session, text)
        if reason is not None:
            wrong.append((seed, text, reason))
    return wrong


def _wrong_span(error: QueryError, text: str) -> str | None:
    if error.span is None:
        return f"no span: {error.message}"
    if not 0 <= error.span.start <= error.span.end <= len(text) + 1:  # one behind it: something is missing at the end
        return f"the span {error.span} is outside of the text of {len(text)} characters: {error.message}"
    return None if error.message and error.render(text) else "an empty message"
