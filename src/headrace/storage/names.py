"""Names of users as names of files.

A name in SQL may hold any character (`"../x"`, `"a/b"`). As part of a path it must stay one component, differ from
every other name, and fit the file system.
"""

from __future__ import annotations

import hashlib
import re

#: A longer name is cut, and a digest makes it unique. File systems allow 255 bytes.
_LONGEST = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]|^\.")


def file_name(name: str) -> str:
    """Return the component of a path that stands for a name; ordinary names stand for themselves."""
    encoded = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)
    if len(encoded) > _LONGEST:
        digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
        return f"{encoded[:_LONGEST]}%{digest}"
    return encoded
