"""Split typed text into statements, so that the parser gets only complete ones."""

from __future__ import annotations

import re

# A semicolon ends a statement unless it is inside braces, a string, a quoted name or a comment, which may be unclosed.
_PIECE = re.compile(
    r"'(?:[^']|'')*(?:'|\Z)|\"[^\"]*(?:\"|\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|[;{}]", re.DOTALL
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def take(text: str) -> tuple[list[str], str]:
    """Split into the statements that are complete (without their semicolons) and the rest."""
    statements, start, depth = [], 0, 0
    for piece in _PIECE.finditer(text):
        depth = max(0, depth + {"{": 1, "}": -1}.get(piece[0], 0))
        if piece[0] == ";" and depth == 0:
            statement = text[start : piece.start()]
            if not is_blank(statement):
                statements.append(statement.strip())
            start = piece.end()
    return statements, text[start:]


def is_blank(text: str) -> bool:
    """Return whether a text has only white space and comments."""
    return not _COMMENT.sub("", text).strip()
