"""Errors as they leave the server: problems with a place in the text, a hint and, where there is one, a repair."""

from __future__ import annotations

import logging
import re
import secrets

from headrace.errors import (
    Fenced,
    HeadraceError,
    HostFault,
    InternalError,
    OperatorFault,
    QueryError,
    Refused,
    RunError,
    SinkFault,
    SourceFault,
    Span,
)
from headrace.server.views.problem import Fix, Problem, SpanView

_LOG = logging.getLogger(__name__)
_DID_YOU_MEAN = re.compile(r"did you mean '([^']+)'\?")


class Fault(Exception):
    """What a request did wrong, or what the server cannot do now: an answer that is a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str = "",
        code: str = "HR300",
        hint: str | None = None,
        stage: str | None = None,
        first: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = headers or {}
        self.problem = Problem(
            type=f"urn:headrace:{code}",
            title=title or _TITLES.get(status, "Fault"),
            status=status,
            code=code,
            detail=detail,
            hint=hint,
            stage=stage,
            first=first,
        )


_TITLES = {
    400: "BadRequest", 401: "NoToken", 403: "NotAllowed", 404: "NotFound", 405: "NoSuchMethod", 406: "NotAcceptable",
    408: "TooSlow", 409: "Conflict", 410: "Gone", 413: "TooLarge", 415: "WrongType", 422: "DoesNotFit", 429: "TooMany",
    503: "NotReady",
}  # fmt: skip


def problem_of(error: Exception) -> Problem:
    """Return an error as a problem; one that nobody expected gets an id, under which the log has its traceback."""
    if isinstance(error, Fault):
        return error.problem
    if not isinstance(error, HeadraceError) or isinstance(error, InternalError):
        number = secrets.token_hex(6)
        _LOG.error("fault %s", number, exc_info=error, extra={"id": number})
        return Problem(
            type="urn:headrace:HR900",
            title="InternalError",
            status=500,
            code="HR900",
            detail="a fault of Headrace; the server's log has it under this id",
            id=number,
        )
    text = error.text
    span = None if text is None or error.span is None else span_view(text, error.span)
    lines = error.render().split("\n")[1:]
    excerpt = [line for line in lines if not line.startswith("  hint: ")]
    return Problem(
        type=f"urn:headrace:{error.code}",
        title=type(error).__name__,
        status=status_of(error),
        code=error.code,
        detail=error.message,
        hint=error.hint,
        span=span,
        excerpt="\n".join(excerpt) or None if span is not None else None,
        fix=_fix(error, span),
    )


def status_of(error: HeadraceError) -> int:
    """Return the HTTP status for an error: it says who must act."""
    match error:
        case QueryError():
            return 422
        case Refused():
            return 409
        case Fenced():
            return 403
        case SourceFault() | SinkFault() | OperatorFault():
            return 424
        case HostFault():
            return 503
        case RunError():
            return 424
        case _:
            return 500


def span_view(text: str, span: Span) -> SpanView:
    """Return a span as browsers count."""
    start, end = min(span.start, len(text)), min(max(span.end, span.start), len(text))
    line_start = text.rfind("\n", 0, start) + 1
    return SpanView(
        start=utf16(text[:start]),
        end=utf16(text[:end]),
        line=text.count("\n", 0, start) + 1,
        column=utf16(text[line_start:start]) + 1,
    )


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def _fix(error: HeadraceError, span: SpanView | None) -> Fix | None:
    """Return the repair that a hint names: the nearest known name at the place of the error."""
    said = None if error.hint is None else _DID_YOU_MEAN.search(error.hint)
    if said is None or span is None or error.text is None or error.span is None:
        return None
    written = error.text[error.span.start : error.span.end]
    known = said[1]
    if re.search(r"\s", written):
        return None  # the span is that of a whole clause
    if "." in written and "." not in known:
        known = written.rpartition(".")[0] + "." + known
    return Fix(span.start, span.end, known)
