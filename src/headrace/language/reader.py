"""A cursor over the tokens of one statement, for the statements that are ours rather than SQL's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import Span, SyntaxFault, TypeFault
from headrace.language import other_systems
from headrace.language.names import DECIMAL_NAMES, DEFAULT_DECIMAL, TYPE_NAMES, decimal_type, did_you_mean
from headrace.language.syntax.names import Name
from headrace.language.type_text import NESTED_NAMES, read_type
from headrace.model.option import Option
from headrace.model.python_target import PythonTarget
from headrace.model.time import UNITS, parse_duration
from headrace.model.types import DataType, Type

SPELLED = {",": "a comma", "(": "an opening parenthesis", ")": "a closing parenthesis"}
_NUMBER = re.compile(r"\d+(\.\d+)?")
_DEPTH = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.R_PAREN: -1, TokenType.R_BRACKET: -1}


def span_of(token: Token) -> Span:
    """Return the span of a token; sqlglot's ends are inclusive."""
    return Span(token.start, token.end + 1)


def no_type(written: str, span: Span | None) -> TypeFault:
    """Return the error about a type that does not exist."""
    name = re.split(r"[(<\s]", written.upper(), maxsplit=1)[0]
    known = ", ".join(
        [
            *(type_.value for type_ in Type if type_ is not Type.NULL),
            "DECIMAL(p, s)",
            "ARRAY<t>",
            "MAP<k, v>",
            "STRUCT<name: t>",
        ]
    )
    hint = did_you_mean(name, TYPE_NAMES, elsewhere=other_systems.TYPES, otherwise=f"types are {known}")
    wrong = "is not supported" if name in other_systems.TYPES else "does not exist"
    return TypeFault(f"type {written!r} {wrong}", span=span, hint=hint)


class Reader:
    """Reads tokens from left to right; every `expect` that fails says what belongs there."""

    def __init__(self, tokens: Sequence[Token], text: str, *, end: int | None = None, whole: str = "statement") -> None:
        self.tokens = tokens
        self.text = text
        self.position = 0
        self._end = len(text) if end is None else end
        self._whole = whole

    @property
    def token(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def done(self) -> bool:
        return self.position >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """Return the next word in upper case; empty at the end, and for quoted names and strings."""
        index = self.position + ahead
        if index >= len(self.tokens) or self.tokens[index].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return self.tokens[index].text.upper()

    def ahead(self, count: int) -> Token | None:
        """Return the token after `count` others."""
        index = self.position + count
        return self.tokens[index] if index < len(self.tokens) else None

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.position += len(words)
            return True
        return False

    def expect(self, *words: str, hint: str | None = None) -> Token:
        if not self.accept(*words):
            self.fail(f"expected {SPELLED.get(words[0], ' '.join(words))}", hint=hint)
        return self.tokens[self.position - 1]

    def here(self) -> Span:
        """Return the span of the next token, or the end of the text."""
        if self.token is not None:
            return span_of(self.token)
        end = span_of(self.tokens[-1]).end if self.tokens else self._end
        return Span(end, end + 1)

    def fail(self, message: str, *, hint: str | None = None) -> NoReturn:
        instead = f"found {self.token.text!r}" if self.token is not None else f"the {self._whole} ends"
        raise SyntaxFault(f"{message}, but {instead}", span=self.here(), hint=hint)

    def name(self, what: str = "a name", *, hint: str | None = None) -> Name:
        """Read an identifier, quoted or not; keywords may be names."""
        token = self.token
        if (
            token is None
            or not (token.token_type == TokenType.IDENTIFIER or token.text[:1].isidentifier())
            or token.token_type == TokenType.STRING
        ):
            self.fail(f"expected {what}", hint=hint)
        self.position += 1
        return Name(token.text, span_of(token))

    def dotted(self, what: str = "a name") -> Name:
        """Read a name that may be that of a side stream, such as bids.late."""
        name = self.name(what)
        while self.accept("."):
            part = self.name()
            name = Name(f"{name.text}.{part.text}", Span(name.span.start, part.span.end))
        return name

    def string(self, what: str, *, hint: str | None = None) -> str:
        token = self.token
        if token is None or token.token_type != TokenType.STRING:
            self.fail(f"expected {what} in single quotes", hint=hint)
        self.position += 1
        return token.text

    def python_target(self, kind: str, example: str) -> Name:
        """Read where a Python function or class is: 'module:function'."""
        span = self.here()
        target = self.string(f"'module:{kind}'")
        try:
            PythonTarget.parse(target)
        except ValueError as error:
            hint = f"write 'module:{kind}', such as '{example}'"
            raise SyntaxFault(f"{target!r} does not name a Python {kind.lower()}", span=span, hint=hint) from error
        return Name(target, span)

    def integer(self, what: str, *, hint: str | None = None) -> int:
        token = self.token
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            self.fail(f"expected {what}, a whole number", hint=hint)
        self.position += 1
        return int(token.text)

    def type(self) -> DataType:
        """Read a type name such as BIGINT, DECIMAL(10, 2), VARCHAR(20) or TIMESTAMP(3); a length has no effect."""
        if self.word() in NESTED_NAMES and self.word(1) == "<":
            return self._nested()
        name = self.name("a type")
        if name.text.upper() in DECIMAL_NAMES:
            return self._decimal(name.span)
        type_ = TYPE_NAMES.get(" ".join(name.text.upper().split()))
        if type_ is None:
            raise no_type(name.text, name.span)
        if type_ in (Type.STRING, Type.TIMESTAMP, Type.BINARY) and self.accept("("):
            self.integer("a length")
            self.expect(")")
        return type_

    def _nested(self) -> DataType:
        """Read ARRAY<...>, MAP<...> or STRUCT<...> from the text: `>>` is one token elsewhere."""
        start = self.tokens[self.position].start
        try:
            type_, end = read_type(self.text, start)
        except ValueError as error:
            hint = "write for example ARRAY<INT>, MAP<STRING, DOUBLE> or STRUCT<id: INT, name: STRING>"
            raise TypeFault(str(error), span=self.here(), hint=hint) from error
        while not self.done and self.tokens[self.position].start < end:
            self.position += 1
        return type_

    def _decimal(self, span: Span | None) -> DataType:
        if not self.accept("("):
            return DEFAULT_DECIMAL
        precision = self.integer("the digits of a DECIMAL")
        scale = self.integer("the digits after the point") if self.accept(",") else 0
        self.expect(")")
        try:
            return decimal_type(precision, scale)
        except ValueError as error:
            raise TypeFault(str(error), span=span, hint="write for example DECIMAL(10, 2)") from error

    def duration(self) -> int:
        """Read `5 MINUTES`, `1 HOUR 30 MINUTES`, `'500 ms'` or SQL's `INTERVAL '5' MINUTE` as microseconds."""
        self.accept("INTERVAL")
        start = self.position
        token = self.token
        if token is not None and token.token_type == TokenType.STRING:
            self.position += 1
            if _NUMBER.fullmatch(token.text.strip()) and self.word().lower() in UNITS:
                self.position += 1
        else:
            while (token := self.token) is not None and token.token_type == TokenType.NUMBER:
                self.position += 1
                if self.word().lower() not in UNITS:
                    self.fail(
                        "expected a unit of time",
                        hint=did_you_mean(self.word(), UNITS, otherwise="write for example 5 MINUTES or '500 ms'"),
                    )
                self.position += 1
        if start == self.position:
            is_name = self.token is not None and self.token.token_type == TokenType.IDENTIFIER
            hint = "write texts in single quotes" if is_name else "write for example 5 MINUTES or '500 ms'"
            self.fail("expected a duration", hint=hint)
        span = Span(self.tokens[start].start, self.tokens[self.position - 1].end + 1)
        try:
            result = parse_duration(" ".join(token.text for token in self.tokens[start : self.position]))
        except ValueError as error:
            raise SyntaxFault(str(error), span=span) from error
        return result

    def offset(self) -> int:
        """Read a duration that may be negative: `- 8 HOURS`, `INTERVAL '-8' HOUR`."""
        if self.accept("-"):
            return -self.duration()
        start = self.position
        self.accept("INTERVAL")
        token = self.token
        if token is None or token.token_type != TokenType.STRING or not token.text.strip().startswith("-"):
            self.position = start
            return self.duration()
        self.position += 1
        text, unit = token.text.strip()[1:], self.word().lower()
        if _NUMBER.fullmatch(text.strip()) and unit in UNITS:
            self.position += 1
            text = f"{text} {unit}"
        try:
            return -parse_duration(text)
        except ValueError as error:
            raise SyntaxFault(str(error), span=span_of(token)) from error

    def option(self) -> Option | None:
        """Read a string, number, boolean or bare word; None if none comes next."""
        token = self.token
        sign = -1 if self.accept("-") else 1
        if self.token is not None and self.token.token_type == TokenType.NUMBER:
            token = self.token
            self.position += 1
            return sign * self._number(token)
        if token is None or sign < 0 or not (token.token_type == TokenType.STRING or token.text[:1].isidentifier()):
            return None
        self.position += 1
        if token.token_type == TokenType.STRING:
            return token.text
        return {"TRUE": True, "FALSE": False}.get(token.text.upper(), token.text)

    def _number(self, token: Token) -> int | float:
        try:
            return int(token.text) if token.text.isdigit() else float(token.text)
        except ValueError:  # the tokenizer takes 0.35E for a number
            raise SyntaxFault(f"{token.text!r} is no number", span=Span(token.start, token.end + 1)) from None

    def until(self, *words: str) -> Sequence[Token]:
        """Read the tokens up to the first of these words outside parentheses and brackets, or up to the end."""
        start, depth = self.position, 0
        while not self.done and (depth > 0 or self.word() not in words):
            depth = max(0, depth + _DEPTH.get(self.tokens[self.position].token_type, 0))
            self.position += 1
        return self.tokens[start : self.position]
