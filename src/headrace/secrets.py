"""Secrets that statements refer to: `${env:NAME}` is an environment variable, `${file:/path}` the content of a file.

A reference may be a whole value or a part of one. It is what the catalog and the command log keep. The secret itself is
read where it is used, each time a connection is made, and is written nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from headrace.errors import HeadraceError, HostFault, Span
from headrace.redaction import REFERENCE, hide


def has_reference(text: str) -> bool:
    """Return whether a text refers to a secret."""
    return REFERENCE.search(text) is not None


def resolve(text: str, *, error: type[HeadraceError] = HostFault, where: str = "", span: Span | None = None) -> str:
    """Return a text with its references replaced by the secrets; raise `error` for one that cannot be read."""

    def secret(match: re.Match[str]) -> str:
        try:
            value = _read(match[1], match[2])
        except _Missing as missing:
            prefix = f"{where}: " if where else ""
            raise error(f"{prefix}{match[0]}: {missing.what}", span=span, hint=missing.hint) from missing.__cause__
        hide(value)
        return value

    return REFERENCE.sub(secret, text)


class _Missing(Exception):
    """A secret that cannot be read: what is wrong, and what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def _read(kind: str, name: str) -> str:
    match kind:
        case "env":
            value = os.environ.get(name)
            if value is None:
                raise _Missing(
                    f"the environment variable {name} is not set",
                    f"set {name} before Headrace starts, also where the workers run",
                )
        case "file":
            value = _content(Path(name))
        case _:
            raise _Missing(f"there is no kind of secret {kind!r}", "write ${env:NAME} or ${file:/path}")
    if not value:
        raise _Missing("the secret is empty", "store the secret there, or remove the option")
    return value


def _content(path: Path) -> str:
    if not path.is_absolute():
        raise _Missing("the path is not absolute", "write ${file:/path}: workers have other working directories")
    try:
        return path.read_text().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _Missing(
            f"the file cannot be read: {why}", "make sure that it exists and that this user may read it"
        ) from error
