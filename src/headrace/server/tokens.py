"""Tokens: 256 random bits each, of which a file keeps digests, with a name and a role.

The owner's token is made anew at each start, and lies in a file that only the user who started the server can read.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from pathlib import Path
from typing import get_args

from msgspec import Struct

from headrace.errors import HostFault
from headrace.server.views.view import Role
from headrace.storage import files
from headrace.storage.scratch import scratch_of

OWNER, TOKENS = "owner.token", "tokens"
#: So many wrong tokens in a second, of all clients together, are answered; then none are looked at for a while.
FAILURES = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,62}")


class Login(Struct, frozen=True):
    """Who a request comes from."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the role is enough."""
        return role == "read" or self.role == "write"


class _Entry(Struct, frozen=True):
    login: Login
    digest: str


def new_token() -> str:
    """Return a new token."""
    return secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return the digest under which a token is kept."""
    return hashlib.blake2b(token.encode(), digest_size=32).hexdigest()


class TokenFile:
    """The tokens of a checkpoint: lines with name, role and digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[int, int] | None = None  # time and size when it was read
        self._entries: tuple[_Entry, ...] = ()

    def entries(self) -> tuple[_Entry, ...]:
        """Return the tokens; the file is read again if it has changed."""
        try:
            status = self.path.stat()
        except OSError:
            return ()
        mark = status.st_mtime_ns, status.st_size
        if mark != self._read:
            self._entries, self._read = tuple(_parsed(self.path.read_text(encoding="utf-8"), self.path)), mark
        return self._entries

    def add(self, name: str, role: Role) -> str:
        """Make a token, and return it; only its digest is kept."""
        if _NAME.fullmatch(name) is None:
            raise HostFault(
                f"{name!r} cannot be the name of a token", hint="use letters, digits, dots, dashes and underscores"
            )
        known = self.entries()
        if any(entry.login.name == name for entry in known):
            raise HostFault(f"there is a token {name!r} already", hint=f"revoke it first: headrace token revoke {name}")
        token = new_token()
        self._write((*known, _Entry(Login(name, role), digest_of(token))))
        return token

    def revoke(self, name: str) -> None:
        """Forget a token; from now on it opens nothing."""
        known = self.entries()
        kept = tuple(entry for entry in known if entry.login.name != name)
        if len(kept) == len(known):
            names = ", ".join(entry.login.name for entry in known)
            hint = f"there are {names}" if names else "no token was made yet: headrace token new"
            raise HostFault(f"there is no token {name!r}", hint=hint)
        self._write(kept)

    def logins(self) -> tuple[Login, ...]:
        """Return the names and roles."""
        return tuple(entry.login for entry in self.entries())

    def _write(self, entries: tuple[_Entry, ...]) -> None:
        files.make_directory(self.path.parent)
        lines = [f"{entry.login.name} {entry.login.role} {entry.digest}\n" for entry in entries]
        files.replace(self.path, "".join(lines).encode())
        self._read = None


def _parsed(text: str, path: Path) -> list[_Entry]:
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[1] not in get_args(Role):
            raise HostFault(f"{path}, line {number}: expected a name, a role (read, write) and a digest")
        entries.append(_Entry(Login(words[0], "write" if words[1] == "write" else "read"), words[2]))
    return entries


class Keys:
    """Says who a token belongs to."""

    def __init__(self, file: TokenFile, owner: str) -> None:
        self._file = file
        self._owner = _Entry(Login("owner", "write"), digest_of(owner))
        self._failures: deque[float] = deque(maxlen=FAILURES)

    def login(self, token: str) -> Login | None:
        """Return whose token it is; every comparison takes the same time."""
        digest, found = digest_of(token), None
        for entry in (self._owner, *self._file.entries()):
            if hmac.compare_digest(digest, entry.digest):
                found = entry.login
        if found is None:
            self._failures.append(time.monotonic())
        return found

    @property
    def is_guessed(self) -> bool:
        """Return whether there were too many wrong tokens in the last second."""
        return len(self._failures) == FAILURES and time.monotonic() - self._failures[0] < 1.0

    def logins(self) -> tuple[Login, ...]:
        """Return the names and roles of all tokens."""
        return (self._owner.login, *self._file.logins())


def token_path(checkpoint: Path) -> Path:
    """Return where the tokens of a checkpoint are kept, unless an option says otherwise."""
    return scratch_of(checkpoint) / TOKENS


def write_owner_token(checkpoint: Path) -> str:
    """Make the owner's token of a server that begins, and leave it where the same user finds it."""
    token = new_token()
    files.replace(scratch_of(checkpoint) / OWNER, token.encode(), durable=False)
    return token


def remove_owner_token(checkpoint: Path) -> None:
    """Forget the owner's token of a server that ends."""
    files.remove(scratch_of(checkpoint) / OWNER, durable=False)
