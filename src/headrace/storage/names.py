"""Names of users as names of files, and paths as users write them: one function each.

A name in SQL may hold any character (`"../x"`, `"a/b"`). As part of a path it must stay one component, differ from
every other name, and fit the file system.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

from headrace.errors import QueryError, Span

#: A longer name is cut, and a digest makes it unique. File systems allow 255 bytes.
_LONGEST = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]|^\.")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/+")


def local_path(path: str, *, span: Span | None = None) -> str:
    """Return a path of the local disk; `file:` URLs are such paths, other URLs are refused."""
    match = _SCHEME.match(path)
    if match is None:
        return path
    if match[1].lower() != "file":
        raise QueryError(
            f"{path!r} is not a local path",
            span=span,
            hint=f"{match[1]}: is not supported; use a local path, or FROM SPARK and INTO SPARK for data elsewhere",
        )
    return "/" + unquote(path[match.end() :])


def file_name(name: str) -> str:
    """Return the component of a path that stands for a name; ordinary names stand for themselves."""
    encoded = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)
    if len(encoded) > _LONGEST:
        digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
        return f"{encoded[:_LONGEST]}%{digest}"
    return encoded
