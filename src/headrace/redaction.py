"""Hides secrets in what people read: errors, listings, warnings.

A secret is known by where it stands (the password in a URL, an option named `password`), or by its value, once this
process has been given it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MASK = "***"
#: A part of a text that is no secret itself, but says where one is: `${env:NAME}`, `${file:/path}`.
REFERENCE = re.compile(r"\$\{(\w+):([^{}]*)\}")
#: A shorter value is an ordinary word too often to be looked for in texts.
_LEAST = 6
_values: set[str] = set()

_SECRET_NAME = (
    r"[\w.\-]*(?:password|passwd|secret|token|credential|passphrase|jaas|oauthbearer\.config|signature"
    r"|(?:api|access|private|account|shared|auth)[_.\-]?key|key[_.\-]?pem)[\w.\-]*"
)
_NAMED = re.compile(_SECRET_NAME, re.IGNORECASE)
#: In a URL: the password before the host, and values of the query whose names say so.
_IN_URL = (
    re.compile(r"(\b[a-z][a-z0-9+.\-]*://[^\s/:@?#'\"]*:)([^\s/@'\"]+)(?=@)", re.IGNORECASE),
    re.compile(rf"([?&](?:{_SECRET_NAME}|key|sig|code|auth)=)([^&\s#'\"]+)", re.IGNORECASE),
)
#: In a statement: the value of an option.
_IN_STATEMENT = re.compile(rf"(\b{_SECRET_NAME}[\"`]?\s*=?\s*')((?:[^']|'')*)(?=')", re.IGNORECASE)


def is_secret_name(option: str) -> bool:
    """Return whether the name of an option says that its value is secret."""
    return _NAMED.fullmatch(option) is not None


def hide(value: str) -> None:
    """Hide a value in all texts from now on."""
    if len(value) >= _LEAST:
        _values.add(value)


def redact(text: str) -> str:
    """Return a text with secrets replaced by a mask."""
    return _redacted(text, (_by_value(), *_IN_URL), lambda _: MASK)


def redact_statement(text: str) -> str:
    """Return the text of a statement with secrets hidden; it keeps its length, so that positions still fit."""
    return _redacted(text, (_by_value(), *_IN_URL, _IN_STATEMENT), lambda secret: re.sub(r"\S", "*", secret))


def has_secret(url: str) -> bool:
    """Return whether a URL holds a secret in clear."""
    return any(not is_reference(match[2]) for pattern in _IN_URL for match in pattern.finditer(url))


def is_reference(value: str) -> bool:
    """Return whether a value says only where a secret is."""
    return REFERENCE.fullmatch(value) is not None


def _by_value() -> re.Pattern[str]:
    longest_first = sorted(_values, key=len, reverse=True)
    return re.compile("()(" + "|".join(map(re.escape, longest_first)) + ")") if _values else _NOTHING


def _redacted(text: str, patterns: tuple[re.Pattern[str], ...], mask: Callable[[str], str]) -> str:
    for pattern in patterns:
        text = pattern.sub(lambda match: match[1] + (match[2] if is_reference(match[2]) else mask(match[2])), text)
    return text


_NOTHING = re.compile(r"(?!)()()")
