"""Every error a user can meet, as one tree, sorted by who must act.

`QueryError` is about the text: it has a span and often a hint. `RunError` is about data or environment.
`InternalError` is our own fault. `render` draws a caret under the span. No error shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.redaction import redact, redact_statement


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character positions in a statement's text."""

    start: int
    end: int


class HeadraceError(Exception):
    """Root of all errors that Headrace raises on purpose."""

    code = "HR000"

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        message = redact(message)
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = None if hint is None else redact(hint)
        if self.hint:
            self.add_note(f"hint: {self.hint}")  # a traceback shows it below the message
        self.text: str | None = None  # the text that the span points into, if known
        self.vertex: str | None = None  # the vertex in which it happened, if known
        self.lacks_code = False  # whether Python code that a statement names cannot be loaded
        self.culprits: tuple[tuple[str, int], ...] = ()  # queries, with incarnations, without which it would not happen

    def render(self, text: str | None = None) -> str:
        """Say what is wrong, show where in `text`, and what to do about it."""
        text = self.text if self.text is not None else text
        lines = [f"{self.code} {type(self).__name__}: {self.message}"]
        if text is not None and self.span is not None:
            lines += _excerpt(redact_statement(text), self.span)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def found_in(error: object) -> str:
    """Return what Polars found instead of a value of a column, without its advice and its own names of types."""
    line = str(error).partition("\n")[0]
    return line.rpartition("; found ")[2]


@contextmanager
def pointing_at(span: Span) -> Iterator[None]:
    """Let an error in the text that points nowhere point at this place."""
    try:
        yield
    except QueryError as error:
        if error.span is None:
            error.span = span
        raise


class QueryError(HeadraceError):
    """The text must change."""

    code = "HR100"


class SyntaxFault(QueryError):
    """The text is not a statement of our language."""

    code = "HR101"


class NameFault(QueryError):
    """A name stands for nothing, or for two things."""

    code = "HR102"


class TypeFault(QueryError):
    """Types do not fit."""

    code = "HR103"


class UnboundedStateFault(QueryError):
    """The query would have to remember everything forever."""

    code = "HR104"


class NotSupported(QueryError):
    """Valid SQL that Headrace does not run."""

    code = "HR105"


class RunError(HeadraceError):
    """Data or environment must change."""

    code = "HR200"


class SourceFault(RunError):
    """A source cannot be read."""

    code = "HR201"


class SinkFault(RunError):
    """A sink cannot be written."""

    code = "HR202"


class OperatorFault(RunError):
    """An operator failed on a page; says which vertex."""

    code = "HR203"


class HostFault(RunError):
    """The machine or Spark cannot run us: no Java, an unwritable checkpoint, a failed micro-batch."""

    code = "HR204"


class OwnerFault(HostFault):
    """Another process has taken over the checkpoint; this one may not change it any more."""

    code = "HR206"


class Fenced(RunError):
    """A statement from the network may not reach that; an option of `headrace serve` would allow it."""

    code = "HR207"


class Refused(RunError):
    """The machine cannot run a query without breaking a promise that must hold."""

    code = "HR205"


class InternalError(HeadraceError):
    """Our mistake."""

    code = "HR900"


def _excerpt(text: str, span: Span) -> list[str]:
    start = min(span.start, len(text))
    line_no = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    width = max(1, min(span.end, line_end) - start)
    gutter = f"{line_no:>4} | "
    return [
        gutter + text[line_start:line_end],
        " " * (len(gutter) - 2) + "| " + " " * (start - line_start) + "^" * width,
    ]
