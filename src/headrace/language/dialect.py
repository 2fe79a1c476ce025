"""Our dialect of SQL: sqlglot's, with windows after FROM items, and functions left as they are written.

Functions are not translated to sqlglot's classes, because the binder types them by our own table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import NotSupported, QueryError, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.names import TYPE_NAMES
from headrace.language.read.impute import read_impute
from headrace.language.read.matches import read_match
from headrace.language.read.modifiers import MODIFIERS, SUPPRESSORS, read_call
from headrace.language.read.pace import HINT as PACE_HINT
from headrace.language.read.pace import read_pace
from headrace.language.read.window_functions import (
    WINDOW_CALLS,
    is_table_function,
    place_window,
    read_table_function,
    read_window_call,
)
from headrace.language.read.windows import read_window
from headrace.language.read.within_group import without_ignore_nulls, without_within_group
from headrace.language.reader import SPELLED, no_type, span_of
from headrace.language.size import check_written
from headrace.language.syntax.clauses import EmitClause, FollowingClause, MannerClause, PaceClause, TemporalClause
from headrace.model.time import DAY, LONGEST, parse_interval

#: The longest name of a stream, query, column or anything else.
MAX_NAME = 128
#: What sqlglot must parse by itself because its arguments are not a plain list.
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")

#: Functions whose first argument may be a unit of time, which is a word and no column.
_COUNTED = ("TIMESTAMPDIFF", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "DATEADD", "DATE_ADD")

#: Types of which a constant may be written: DATE '2026-01-31'.
_TIMES = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
#: Nodes that sqlglot builds without remembering where they stood.
_PLACELESS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Null, exp.Boolean, exp.Interval)
#: What may follow UNION in FROM if the union is of streams and not of SELECTs.
_NAMES = parser.Parser.ID_VAR_TOKENS - {TokenType.ALL, TokenType.DISTINCT} | {TokenType.IDENTIFIER}
#: The ends of a query that say when results come.
_EMITS = (("EMIT", "CHANGES"), ("EMIT", "FINAL"), ("EMIT", "ON", "WINDOW", "CLOSE"))
#: Keywords that are functions before a parenthesis.
_CALLED = (TokenType.WINDOW, TokenType.SESSION, TokenType.STRUCT, TokenType.MAP, TokenType.ARRAY)
#: A hint of Flink that changes what a table reads; others change no result.
_OPTIONS = re.compile(r"/\*\+\s*OPTIONS\b", re.IGNORECASE)
#: Letters behind a number that say its type in Spark.
_SUFFIXES = ("D", "F", "BD")
#: How the second item of a JOIN may follow the first.
_MODES = ("RECENT", "CHRONICLE")
#: How a JOIN may speak to those before it, and what may stand between that and JOIN.
_MANNERS = ("THRIFTY", "IMPATIENT")
_BEFORE_JOIN = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", *_MANNERS)


class PlacedError(ParseError):
    """A parse error with a span; sqlglot's own have only line and column."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message, errors=[{}])  # sqlglot annotates the first
        self.span = span


class Headrace(Dialect):
    """SQL as Spark's users know it, plus windows."""

    class Tokenizer(tokens.Tokenizer):
        """Names in double quotes or backticks; no statement swallows its rest unread."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {"L": "BIGINT"}  # 100L of Spark
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("X'", "'"), ("x'", "'")]
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(parser.Parser):
        """Reads FROM items with windows and stream-level unions."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        # 'FROM s LIMIT' lacks a number; s is not called LIMIT
        TABLE_ALIAS_TOKENS: ClassVar[Any] = parser.Parser.TABLE_ALIAS_TOKENS - {TokenType.LIMIT, TokenType.OFFSET}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: parser.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL}
        FUNCTION_PARSERS["IMPUTE"] = lambda self: self._parse_by(read_impute)
        FUNCTION_PARSERS |= dict.fromkeys((*MODIFIERS, *SUPPRESSORS), lambda self: self._parse_by(read_call))
        FUNCTION_PARSERS |= dict.fromkeys(("FLOOR", "CEIL", "CEILING"), lambda self: self._parse_rounded())
        FUNCTION_PARSERS["OVERLAY"] = lambda self: self._parse_placed()
        FUNCTION_PARSERS["JSON_VALUE"] = lambda self: self._parse_value_of_json()
        FUNCTION_PARSERS |= dict.fromkeys(_COUNTED, lambda self: self._parse_counted())
        FUNCTION_PARSERS |= dict.fromkeys(WINDOW_CALLS, lambda self: self._parse_by(read_window_call))

        TYPE_LITERAL_PARSERS: ClassVar[Any] = {
            **parser.Parser.TYPE_LITERAL_PARSERS,
            **dict.fromkeys(_TIMES, lambda self, this, to: self._written(this, to)),
        }

        def _written(self, this: exp.Expr, to: exp.DataType) -> exp.Expr:
            """Tell DATE '2026-01-31', which must be a date, from a CAST, which gives NULL for what is none."""
            constant: exp.Expr = self.expression(exp.Cast(this=this, to=to))
            constant.meta["written"] = True
            return constant

        def raise_error(self, message: str, token: Token = parser.SENTINEL_NONE) -> None:
            place = token or self._curr
            if place:
                raise PlacedError(message, span_of(place))
            end = self._prev.end + 1 if self._prev else len(self.sql)
            raise PlacedError(message, Span(end, end + 1))

        def expression(self, instance: Any, token: Token | None = None, comments: list[str] | None = None) -> Any:
            if token is None and isinstance(instance, _PLACELESS):
                token = self._prev
            return super().expression(instance, token, comments)

        def parse_list(self, tokens_: Sequence[Token], text: str) -> list[exp.Expr]:
            """Parse all tokens as expressions separated by commas."""
            trees = self._parse(
                lambda p: exp.Tuple(expressions=p._parse_csv(p._parse_disjunction)), list(tokens_), text
            )
            return list(trees[0].expressions) if trees[0] is not None else []

        def _parse_table(
            self,
            schema: bool = False,
            joins: bool = False,
            alias_tokens: Collection[TokenType] | None = None,
            parse_bracket: bool = False,
            is_db_reference: bool = False,
            parse_partition: bool = False,
            consume_pipe: bool = False,
        ) -> exp.Expr | None:
            item = self._parse_item(alias_tokens)
            further: list[exp.Expr] = []
            while self._match(TokenType.UNION, advance=False) and self._next.token_type in _NAMES:
                self._advance()
                further.append(self._parse_item(alias_tokens))
            if further:
                item.meta["unions"] = tuple(further)
                if self._match_text_seq("WITH", "PACE", advance=False):
                    item.meta["pace"] = self._parse_pace()
            return item

        def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
            tree: exp.Expr | None = super()._parse_set_operations(this)
            if self._match_text_seq("WITH", "PACE", advance=False):
                if not isinstance(tree, exp.Union):
                    raise SyntaxFault(
                        "WITH PACE must follow a UNION, right after its last part",
                        span=span_of(self._curr),
                        hint=f"FROM a UNION b {PACE_HINT}",
                    )
                tree.meta["pace"] = self._parse_pace()
                if self._match_set(self.QUERY_MODIFIER_PARSERS, advance=False):
                    tree = self._parse_query_modifiers(tree)
            return tree

        def _parse_by(self, read: Callable[..., exp.Expr]) -> exp.Expr:
            """Parse a call with `read`; its name and opening parenthesis are read already, the closing one is left."""
            start, depth = self._index - 2, 1
            while self._curr:
                depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
                if depth == 0:
                    return read(self._tokens[start : self._index + 1], self.sql, parse_expressions)
                self._advance()
            self.raise_error("expecting )")
            raise AssertionError("raise_error returned")

        def _parse_rounded(self) -> exp.Expr:
            """Parse FLOOR(x), FLOOR(t TO MINUTE) and the same of CEIL."""
            name = self._tokens[self._index - 2]
            args = self._parse_csv(self._parse_disjunction)
            if args and self._match_text_seq("TO"):
                unit = self._curr
                self._advance()
                literal = exp.Literal.string(unit.text.lower() if unit else "").update_positions(unit)
                function = "date_trunc" if name.text.upper() == "FLOOR" else "date_ceil"
                return exp.Anonymous(this=function, expressions=[literal, *args]).update_positions(name)
            return exp.Anonymous(this=name.text, expressions=args).update_positions(name)

        def _parse_counted(self) -> exp.Expr:
            """Parse TIMESTAMPDIFF(SECOND, start, end), and the same without a unit."""
            name = self._tokens[self._index - 2]
            args = self._parse_csv(self._parse_disjunction)
            if len(args) == 3 and isinstance(args[0], exp.Column) and not args[0].table and not args[0].this.quoted:
                unit = exp.Var(this=args[0].name)
                unit.meta.update(args[0].this.meta)
                args[0] = unit
            return exp.Anonymous(this=name.text, expressions=args).update_positions(name)

        def _parse_value_of_json(self) -> exp.Expr:
            """Parse JSON_VALUE(s, path [RETURNING type] [NULL ON EMPTY] [NULL ON ERROR]) of Flink."""
            name = self._tokens[self._index - 2]
            args = self._parse_csv(self._parse_disjunction)
            value: exp.Expr = exp.Anonymous(this=name.text, expressions=args).update_positions(name)
            if self._match_text_seq("RETURNING"):
                to: exp.Expr | None = self._parse_types()
                if to is None:
                    self.raise_error("expected a type after RETURNING")
                value = exp.Cast(this=value, to=to)
            for event in ("EMPTY", "ERROR"):
                self._match_text_seq("NULL", "ON", event)
            if self._match_texts(("DEFAULT", "ERROR"), advance=False):
                raise NotSupported(
                    f"JSON_VALUE cannot have {self._curr.text.upper()}",
                    span=span_of(self._curr),
                    hint="write coalesce(JSON_VALUE(s, '$.a'), 'none'): what is missing or cannot be read is NULL",
                )
            return value

        def _parse_placed(self) -> exp.Expr:
            """Parse OVERLAY(s PLACING r FROM n [FOR m]), and the same with commas."""
            name = self._tokens[self._index - 2]
            args = self._parse_csv(self._parse_disjunction)
            for word in ("PLACING", "FROM", "FOR"):
                if self._match_text_seq(word):
                    args += [arg for arg in (self._parse_disjunction(),) if arg is not None]
            return exp.Anonymous(this=name.text, expressions=args).update_positions(name)

        def _parse_pace(self) -> PaceClause:
            clause, length = read_pace(self._tokens[self._index :], self.sql, parse_expressions)
            self._advance(length)
            return clause

        def _parse_join(
            self,
            skip_join_token: bool = False,
            parse_bracket: bool = False,
            alias_tokens: Collection[TokenType] | None = None,
        ) -> exp.Join | None:
            manner = self._parse_manner()
            join: exp.Join | None = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
            if join is not None and manner is not None:
                join.meta["manner"] = manner
            if join is not None and self._match_text_seq("FOLLOWING"):
                join.meta["following"] = self._parse_following()
            elif join is not None and self._match_text_seq("CONSUMING"):
                join.meta["following"] = FollowingClause("consuming", False, span_of(self._prev))
            return join

        def _is_manner(self) -> bool:
            return (
                self._match_texts(_MANNERS, advance=False)
                and bool(self._next)
                and self._next.text.upper() in _BEFORE_JOIN
            )

        def _parse_manner(self) -> MannerClause | None:
            if not self._is_manner():
                return None
            token = self._curr
            manner: Literal["thrifty", "impatient"] = "thrifty" if token.text.upper() == "THRIFTY" else "impatient"
            self._advance()
            if self._match_texts(_MANNERS, advance=False):
                self.raise_error("a join is THRIFTY or IMPATIENT, not both")
            return MannerClause(manner, span_of(token))

        def _parse_following(self) -> FollowingClause:
            start = self._prev.start
            if not self._match_texts(_MODES):
                self.raise_error("expected RECENT or CHRONICLE after FOLLOWING")
            mode: Literal["recent", "chronicle"] = "recent" if self._prev.text.upper() == "RECENT" else "chronicle"
            inclusive = self._match_text_seq("INCLUSIVE")
            return FollowingClause(mode, inclusive, Span(start, self._prev.end + 1))

        def _parse_item(self, alias_tokens: Collection[TokenType] | None) -> exp.Expr:
            item: exp.Expr
            if self._match(TokenType.L_PAREN):
                query = self._parse_select(nested=True)
                if query is None:
                    self.raise_error("expected SELECT after the parenthesis")
                self._match_r_paren()
                item = exp.Subquery(this=query)
            elif self._is_unnest() or self._match(TokenType.LATERAL):
                return self._parse_generator(alias_tokens)
            elif is_table_function([token.text.upper() for token in self._tokens[self._index : self._index + 2]]):
                item = self._parse_table_function()
            else:
                item = exp.Table(this=self._parse_name())
                while self._match(TokenType.DOT):
                    item = exp.Table(this=self._parse_name(), db=item.this)
            self._parse_stream_window(item)
            self._parse_as_of(item)
            self._parse_match(item)
            self._parse_stream_window(item)  # of the matches
            if any(self._match_text_seq("FOLLOWING", mode, advance=False) for mode in _MODES):
                return item  # without a condition, these words come where an alias might
            if self._is_manner():
                return item  # so do these before JOIN
            alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
            if alias is not None:
                item.set("alias", alias)
                self._parse_stream_window(item)  # some write it after the alias
                self._parse_as_of(item)
            return item

        def _parse_match(self, item: exp.Expr) -> None:
            """Parse MATCH_RECOGNIZE (...)."""
            start, depth = self._index, 0
            if not self._match_text_seq("MATCH_RECOGNIZE"):
                return
            if not self._match(TokenType.L_PAREN, advance=False):
                self.raise_error("expected an opening parenthesis after MATCH_RECOGNIZE")
            while self._curr:
                depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
                self._advance()
                if depth == 0:
                    item.meta["match"] = read_match(self._tokens[start : self._index], self.sql, parse_expressions)
                    return
            self.raise_error("expecting )")

        def _parse_as_of(self, item: exp.Expr) -> None:
            """Parse FOR SYSTEM_TIME AS OF time."""
            start = self._curr
            if "as_of" in item.meta or not self._match_text_seq("FOR", "SYSTEM_TIME"):
                return
            if not self._match_text_seq("AS", "OF"):
                self.raise_error("expected AS OF after FOR SYSTEM_TIME")
            time = self._parse_bitwise()
            if time is None:
                self.raise_error("expected the time of the stream, such as o.at")
            assert time is not None
            item.meta["as_of"] = TemporalClause(time, Span(start.start, self._prev.end + 1))

        def _is_unnest(self) -> bool:
            return bool(self._match_text_seq("UNNEST", advance=False)) and self._next.token_type == TokenType.L_PAREN

        def _parse_generator(self, alias_tokens: Collection[TokenType] | None) -> exp.Expr:
            """Parse UNNEST(xs) [WITH ORDINALITY] [AS u(x)], and explode(xs) after LATERAL."""
            name = self._curr
            self._advance()
            if not self._match(TokenType.L_PAREN):
                self.raise_error("expected a function such as explode(xs) after LATERAL", name)
            call = exp.Anonymous(this=name.text, expressions=self._parse_csv(self._parse_disjunction))
            self._match_r_paren(call)
            call.update_positions(name)
            ordinality = bool(self._match_text_seq("WITH", "ORDINALITY"))
            alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
            return exp.Lateral(this=call, ordinality=ordinality, alias=alias)

        def _parse_table_function(self) -> exp.Expr:
            start, depth = self._index, 0
            while self._curr:
                depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
                self._advance()
                if depth == 0 and self._prev.token_type == TokenType.R_PAREN:
                    return read_table_function(self._tokens[start : self._index], self.sql, parse_expressions)
            self.raise_error("expecting )")
            raise AssertionError("raise_error returned")

        def _parse_stream_window(self, item: exp.Expr) -> None:
            if "window" not in item.meta and self._match(TokenType.L_BRACKET, advance=False):
                item.meta["window"] = read_window(self._bracketed(), self.sql, parse_expressions)

        def _parse_name(self) -> exp.Identifier:
            name = self._parse_id_var(any_token=False)
            if not isinstance(name, exp.Identifier):
                self.raise_error("expected the name of a stream, table or query")
            assert isinstance(name, exp.Identifier)
            return name

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            """Read `array(1, 2)[0]` as a place in an array; sqlglot would read the constructor `ARRAY[0]`."""
            if isinstance(this, exp.Anonymous) and self._curr is not None and self._curr.token_type in self.BRACKETS:
                this = exp.Paren(this=this)
            return super()._parse_bracket(this)

        def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
            token = self._curr
            type_ = super()._parse_types(*args, **options)
            if isinstance(type_, exp.DataType):
                type_.update_positions(token)
            return type_

        def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
            if identifier.name.upper() not in TYPE_NAMES:
                raise no_type(identifier.name, span_of(self._prev))
            return exp.DataType(this=exp.DType.USERDEFINED, kind=identifier.name)

        def _bracketed(self) -> Sequence[Token]:
            start, depth = self._index, 0
            while self._curr:
                depth += {TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}.get(self._curr.token_type, 0)
                self._advance()
                if depth == 0:
                    return self._tokens[start : self._index]
            self.raise_error("the window's bracket is not closed", self._tokens[start])
            raise AssertionError("raise_error returned")


#: What begins as bytes do, with something else than hexadecimal digits.
_NO_BYTES = re.compile(r"\b[xX]'[0-9a-fA-F]*[^0-9a-fA-F'][^']*'")


def tokenize(text: str) -> list[Token]:
    """Cut a text into tokens."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SyntaxFault(
            "the text has a character that is not Unicode",
            span=Span(error.start, error.end),
            hint="write statements in UTF-8",
        ) from error
    try:
        cut = Headrace().tokenize(text)
    except TokenError as error:
        digits = _NO_BYTES.search(text) if "invalid characters" in str(error.__cause__) else None
        if digits is not None:
            raise SyntaxFault(
                f"{digits[0]} has characters that are no hexadecimal digits",
                span=Span(digits.start(), digits.end()),
                hint="write bytes as X'1F2A'",
            ) from error
        raise SyntaxFault(
            "a quote or comment is not closed",
            span=_open_quote(text),
            hint="close it; inside a text in quotes, '' stands for one quote",
        ) from error
    for token in cut:
        if token.token_type is TokenType.IDENTIFIER or token.token_type is TokenType.VAR:
            _check_name(token)
    _check_hints(cut, text)
    return cut


def _check_hints(tokens_: Sequence[Token], text: str) -> None:
    """Refuse a hint of Flink that says what is read; others are comments."""
    starts = [*(token.start for token in tokens_[1:]), len(text)]
    for token, following in zip(tokens_, starts, strict=False):
        hint = _OPTIONS.search(text, token.end + 1, following)
        if hint is not None:
            raise NotSupported(
                "the hint OPTIONS is not supported",
                span=Span(hint.start(), hint.end()),
                hint="write the options where the stream is created: FROM KAFKA (..., start 'latest')",
            )


def _check_name(token: Token) -> None:
    """Refuse a name that nobody can read or write."""
    if not token.text.strip():
        raise SyntaxFault("a name in quotes is empty", span=span_of(token), hint="texts stand in single quotes")
    if len(token.text) > MAX_NAME:
        raise SyntaxFault(
            f"a name has {len(token.text):,} characters", span=span_of(token), hint=f"use {MAX_NAME} at most"
        )
    if not token.text.isprintable():
        raise SyntaxFault("a name has a character that cannot be printed", span=span_of(token))


def parse_select(tokens_: Sequence[Token], text: str) -> exp.Expr:
    """Parse the tokens of one SELECT."""
    tokens_, emit = _without_emit(tokens_)
    _check_braces(tokens_)
    _check_numbers(tokens_)
    trees = _run(tokens_, lambda parser_: parser_.parse(_named_functions(tokens_), text))
    if not isinstance(trees[0], exp.Query):
        raise SyntaxFault("expected SELECT", span=span_of(tokens_[0]))
    without_within_group(trees[0])
    without_ignore_nulls(trees[0])
    for frame in trees[0].find_all(exp.WindowSpec):  # sqlglot keeps these words as they are written
        frame.args.update({part: word.upper() for part, word in frame.args.items() if isinstance(word, str)})
    for select in list(trees[0].find_all(exp.Select)):
        select.set("hint", None)  # a hint such as /*+ BROADCAST(t) */ changes no result
        place_window(select)
    if emit is not None:
        trees[0].meta["emit"] = emit
    return trees[0]


def _check_numbers(tokens_: Sequence[Token]) -> None:
    """Refuse 1_000 and 2D, which would be numbers with the names _000 and D; in windows, 5d is a duration."""
    depth, before = 0, ""
    for token, following in pairwise(tokens_):
        depth += {TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}.get(token.token_type, 0)
        is_name = following.token_type is TokenType.VAR and following.start == token.end + 1
        is_suffix = following.text.startswith("_") or (following.text in _SUFFIXES and depth == 0)
        if token.token_type is TokenType.NUMBER and is_name and is_suffix and before != "INTERVAL":
            digits = following.text.replace("_", "")
            plain = f"{token.text}{digits}" if digits.isdigit() else f"CAST({token.text} AS DOUBLE)"
            raise SyntaxFault(
                f"{token.text}{following.text} is no number",
                span=Span(token.start, following.end + 1),
                hint=f"write {plain}, or a blank before a name",
            )
        before = token.text.upper()


def _check_braces(tokens_: Sequence[Token]) -> None:
    """Refuse MAP {...}, which sqlglot takes for a STRUCT."""
    for first, second in pairwise(tokens_):
        if first.text.upper() == "MAP" and second.token_type is TokenType.L_BRACE:
            raise NotSupported(
                "MAP {...} is not supported",
                span=Span(first.start, second.end + 1),
                hint="write map('k', v), or MAP['k', v]",
            )


def _without_emit(tokens_: Sequence[Token]) -> tuple[Sequence[Token], EmitClause | None]:
    """Return the tokens without EMIT CHANGES, EMIT FINAL or EMIT ON WINDOW CLOSE at their end, and what it was.

    STATE TTL '1 day' may stand before or behind EMIT CHANGES.
    """
    end = tokens_[-1].end + 1 if tokens_ else 0
    tokens_, ttl = _without_ttl(tokens_)
    clause: EmitClause | None = None
    for form in _EMITS:
        words = tuple(token.text.upper() for token in tokens_[-len(form) :])
        if words == form and len(tokens_) > len(form):
            first = tokens_[-len(form)]
            clause = EmitClause(form[1] == "CHANGES", Span(first.start, end), None if ttl is None else ttl[0])
            tokens_ = tokens_[: -len(form)]
            break
    if ttl is None:
        tokens_, ttl = _without_ttl(tokens_)
        if ttl is not None and clause is not None:
            clause = replace(clause, ttl=ttl[0], span=Span(ttl[1].start, end))
    if ttl is not None and (clause is None or not clause.changes):
        raise SyntaxFault(
            "STATE TTL belongs to EMIT CHANGES",
            span=ttl[1],
            hint="write ... GROUP BY id EMIT CHANGES STATE TTL '1 day', or leave it out: windows forget by themselves",
        )
    return tokens_, clause


def _without_ttl(tokens_: Sequence[Token]) -> tuple[Sequence[Token], tuple[int, Span] | None]:
    """Return the tokens without STATE TTL and a duration at their end, and that."""
    for index in range(len(tokens_) - 3, max(0, len(tokens_) - 8), -1):
        if [token.text.upper() for token in tokens_[index : index + 2]] == ["STATE", "TTL"]:
            span = Span(tokens_[index].start, tokens_[-1].end + 1)
            text = " ".join(token.text for token in tokens_[index + 2 :] if token.text.upper() != "INTERVAL")
            try:
                ttl = parse_interval(text)
            except ValueError as error:
                if tokens_[index + 2].token_type != TokenType.STRING:
                    return tokens_, None  # two names
                raise SyntaxFault(str(error), span=span, hint="write STATE TTL '1 day'") from error
            if not 0 < ttl <= LONGEST:
                wrong = f"{LONGEST // DAY:,} days at most" if ttl > 0 else "longer than nothing"
                raise SyntaxFault(f"STATE TTL must be {wrong}", span=span, hint="write STATE TTL '1 day'")
            return tokens_[:index], (ttl, span)
    return tokens_, None


def _named_functions(tokens_: Sequence[Token]) -> list[Token]:
    """Return the tokens with `window(`, `struct(` and the like as names: these words mean something else elsewhere.

    Directly after GROUP BY, `window` is a column as well.
    """
    named = list(tokens_)
    for index, (token, following) in enumerate(pairwise(tokens_)):
        if token.token_type in _CALLED and following.token_type == TokenType.L_PAREN:
            named[index] = _name(token)
        elif token.token_type == TokenType.GROUP_BY and following.token_type == TokenType.WINDOW:
            named[index + 1] = _name(following)
    return named


def _name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)


def parse_expressions(tokens_: Sequence[Token], text: str) -> list[exp.Expr]:
    """Parse tokens as expressions separated by commas."""
    if not tokens_:
        raise SyntaxFault("an expression is missing", span=Span(len(text), len(text) + 1))
    return _run(tokens_, lambda parser_: parser_.parse_list(tokens_, text))


def _run(tokens_: Sequence[Token], work: Callable[[Any], list[exp.Expr]]) -> list[exp.Expr]:
    try:
        trees = work(Headrace().parser(error_level=ErrorLevel.IMMEDIATE))
        for tree in trees:
            check_written(tree)
        return trees
    except RecursionError as error:
        raise NotSupported(
            "the expression is nested too deeply", span=span_of(tokens_[0]), hint="split it into several queries"
        ) from error
    except (QueryError, ParseError) as error:
        phrase = other_systems.find_phrase(tokens_)
        if phrase is not None:
            words, first, hint = phrase
            raise NotSupported(f"{words} is not supported here", span=span_of(first), hint=hint) from error
        if isinstance(error, QueryError):
            raise
        span = error.span if isinstance(error, PlacedError) else span_of(tokens_[0])
        misspelled = other_systems.find_misspelled(tokens_, span.start)
        if misspelled is not None:
            word, keyword = misspelled
            raise SyntaxFault(
                f"unexpected {word.text!r}", span=span_of(word), hint=f"did you mean {keyword!r}?"
            ) from error
        token = next((token for token in tokens_ if token.start == span.start), None)
        raise SyntaxFault(_plain(str(error), token), span=span) from error


def _plain(message: str, token: Token | None) -> str:
    """Rewrite an error of sqlglot for a reader who does not know its classes; `token` is where it stopped."""
    shown = "the text ends" if token is None else f"found {token.text!r}"
    if message.startswith("Required "):
        return "an expression is missing here"
    if message.startswith("Invalid expression / Unexpected token"):
        return "the text should end here" if token is None else f"unexpected {token.text!r}"
    if message.startswith("Expecting "):
        what = message.removeprefix("Expecting ")
        return f"expected {SPELLED.get(what, what)}, but {shown}"
    return message[:1].lower() + message[1:]


def _open_quote(text: str) -> Span:
    """Find the last quote or comment that is not closed."""
    position, opened, closing = 0, 0, ""
    while position < len(text):
        rest = text[position:]
        if closing:
            if rest.startswith(closing):
                position += len(closing) - 1
                closing = ""
        elif rest[0] in "'\"`":
            opened, closing = position, rest[0]
        elif rest.startswith("--"):
            opened, closing = position, "\n"
        elif rest.startswith("/*"):
            opened, closing = position, "*/"
        position += 1
    return Span(opened, opened + 1)
