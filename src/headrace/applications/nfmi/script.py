"""Cursor scripts: steps of a cursor that moves through a text message and marks its fields.

    script trunk
      separators(" ")
      pattern("RMV "|"RST ")  find("TRK=", line)  [trunk]
      l  begin_field(reason) l bc end_field(reason)
      define_field(domain = "PSTN")

Steps:

* `c`, `w`, `f`, `l` move by a character, word, field or line; `f(3)` by three; `bc`, `bw`, `bf`, `bl` move back
* `bm`, `em` move to the beginning or end of the message
* `pattern(P)` requires P at the cursor; `find(P [, line|section|message [(n)]])` requires P after it, within a scope
* `begin_field(x)` and `end_field(x)` enclose a field; `define_field(x = value)` defines one that is not in the text
* `separators("...")` sets the characters between fields

P is one regular expression or several, separated by `|`. `[x]` is short for `begin_field(x) f end_field(x)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias, get_args

from headrace.errors import NameFault, Span, SyntaxFault

Unit: TypeAlias = Literal["c", "w", "f", "l"]
Scope: TypeAlias = Literal["line", "section", "message"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class Move:
    """Move by this many units; backwards if negative."""

    unit: Unit
    count: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Go to the beginning or the end of the message."""

    to: Literal["bm", "em"]


@dataclass(frozen=True, slots=True)
class Match:
    """Require the expression at the cursor, and move past it."""

    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Find:
    """Search for the expression within a scope, and move past it."""

    expression: re.Pattern[str]
    scope: Scope
    count: int


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a field."""

    field: str


@dataclass(frozen=True, slots=True)
class End:
    """The end of a field, without blanks and separators around it."""

    field: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A field that has the same value in every message."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Separators:
    """The characters between fields, from this step on."""

    characters: str


Step: TypeAlias = Move | Jump | Match | Find | Begin | End | Constant | Separators


@dataclass(frozen=True, slots=True)
class Script:
    """Steps, each with its text; a message is accepted if all succeed."""

    name: str
    steps: tuple[tuple[Step, str], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields, in the order of the script."""
        return tuple(step.field for step, _ in self.steps if isinstance(step, End | Constant))


def parse(text: str) -> tuple[Script, ...]:
    """Parse the scripts of a text; SyntaxFault or NameFault points at a mistake."""
    return tuple(_Parser(text).scripts())


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["string", "name", "number", "mark", "end"]
    text: str
    span: Span


_TOKEN = re.compile(
    r'(?P<skip>\s+|--[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>\d+)|'
    r"(?P<name>[A-Za-z_][\w.-]*)|(?P<mark>[][(),=|])"
)
_MOVES: dict[str, tuple[Unit, int]] = {
    f"{way}{unit}": (unit, sign) for way, sign in (("", 1), ("b", -1)) for unit in get_args(Unit)
}
_KNOWN = (*_MOVES, "bm", "em", "pattern", "find", "begin_field", "end_field", "define_field", "separators")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self._open: dict[str, Span] = {}
        self._done: set[str] = set()

    def scripts(self) -> Iterator[Script]:
        while not self._at_end:
            self._word("script", hint="a script begins with its name: script rept")
            name = self._take("name", "the name of the script").text
            self._open, self._done = {}, set()
            steps: list[tuple[Step, str]] = []
            while not self._at_end and (self._token.kind, self._token.text) != ("name", "script"):
                begin = self._token.span.start
                made = self._step()
                written = " ".join(self._text[begin : self._tokens[self._at - 1].span.end].split())
                steps += [(step, written) for step in made]
            for field, span in self._open.items():
                self._fail(f"field {field!r} has no end", span, f"write end_field({field})")
            yield Script(name, tuple(steps))

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    @property
    def _at_end(self) -> bool:
        return self._token.kind == "end"

    def _step(self) -> tuple[Step, ...]:
        if self._accept("["):
            name = self._field()
            steps = (self._begin(name), Move("f", 1), self._end(name))
            self._mark("]")
            return steps
        token = self._take("name", "a step")
        match token.text:
            case word if word in _MOVES:
                unit, sign = _MOVES[word]
                return (Move(unit, sign * self._count()),)
            case "bm" | "em" as where:
                return (Jump(where),)
            case "pattern":
                self._mark("(")
                expression = self._expression()
                self._mark(")")
                return (Match(expression),)
            case "find":
                return (self._find(),)
            case "begin_field":
                return (self._begin(self._in_parentheses()),)
            case "end_field":
                return (self._end(self._in_parentheses()),)
            case "define_field":
                return (self._constant(),)
            case "separators":
                self._mark("(")
                characters = _plain(self._take("string", 'characters, such as separators(" ,")').text)
                self._mark(")")
                return (Separators(characters),)
            case word:
                raise self._error(
                    NameFault(f"no step {word!r}", span=token.span, hint=f"there are {', '.join(_KNOWN)}")
                )

    def _find(self) -> Find:
        self._mark("(")
        expression, scope, count = self._expression(), "message", 1
        if self._accept(","):
            token = self._take("name", f"a scope: {', '.join(SCOPES)}")
            scope, count = token.text.lower(), self._count()
            if scope not in SCOPES:
                raise self._error(
                    NameFault(f"no scope {token.text!r}", span=token.span, hint=f"there are {', '.join(SCOPES)}")
                )
        self._mark(")")
        return Find(expression, next(known for known in SCOPES if known == scope), count)

    def _constant(self) -> Constant:
        self._mark("(")
        field = self._field()
        self._new(*field)
        self._mark("=")
        token = self._token
        if token.kind not in ("string", "name", "number"):
            self._fail("no value", token.span, 'write define_field(domain = "PSTN")')
        self._at += 1
        self._mark(")")
        return Constant(field[0], _plain(token.text) if token.kind == "string" else token.text)

    def _begin(self, field: tuple[str, Span]) -> Begin:
        self._new(*field)
        self._open[field[0]] = field[1]
        return Begin(field[0])

    def _end(self, field: tuple[str, Span]) -> End:
        name, span = field
        if self._open.pop(name, None) is None:
            self._fail(f"field {name!r} was not begun", span, f"write begin_field({name}) before it")
        return End(name)

    def _new(self, name: str, span: Span) -> None:
        if name in self._done:
            self._fail(f"field {name!r} is there twice", span, "a message gives each field once")
        self._done.add(name)

    def _in_parentheses(self) -> tuple[str, Span]:
        self._mark("(")
        field = self._field()
        self._mark(")")
        return field

    def _field(self) -> tuple[str, Span]:
        token = self._take("name", "the name of a field")
        return token.text, token.span

    def _expression(self) -> re.Pattern[str]:
        parts = []
        while True:
            token = self._take("string", 'an expression in double quotes, such as "TIME="')
            source = token.text[1:-1].replace('\\"', '"')
            try:
                re.compile(source)
            except re.error as error:
                self._fail(
                    f"this is no regular expression: {error.msg}",
                    token.span,
                    r"write \ before a character that stands for itself: \+, \.",
                )
            parts.append(f"(?:{source})")
            if not self._accept("|"):
                return re.compile("|".join(parts))

    def _count(self) -> int:
        if not self._accept("("):
            return 1
        token = self._take("number", "how many")
        self._mark(")")
        return int(token.text)

    def _word(self, word: str, *, hint: str) -> None:
        if self._token.text != word:
            self._fail(f"expected {word!r}", self._token.span, hint)
        self._at += 1

    def _take(self, kind: str, what: str) -> _Token:
        token = self._token
        if token.kind != kind:
            self._fail(f"expected {what}", token.span, None)
        self._at += 1
        return token

    def _accept(self, mark: str) -> bool:
        if self._token.kind == "mark" and self._token.text == mark:
            self._at += 1
            return True
        return False

    def _mark(self, mark: str) -> None:
        if not self._accept(mark):
            self._fail(f"expected {mark!r}", self._token.span, None)

    def _fail(self, message: str, span: Span, hint: str | None) -> NoReturn:
        raise self._error(SyntaxFault(message, span=span, hint=hint))

    def _error(self, error: SyntaxFault | NameFault) -> SyntaxFault | NameFault:
        error.text = self._text
        return error


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            error = SyntaxFault(
                "this is no part of a script", span=Span(at, at + 1), hint='text is written in double quotes: "TIME="'
            )
            error.text = text
            raise error
        at = token.end()
        match token.lastgroup:
            case "string" | "name" | "number" | "mark" as kind:
                yield _Token(kind, token[0], Span(*token.span()))
            case _:
                pass  # blanks and comments
    yield _Token("end", "", Span(len(text), len(text) + 1))


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda escape: {"t": "\t", "n": "\n"}.get(escape[1], escape[1]), quoted[1:-1])
