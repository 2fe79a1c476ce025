"""The fence: what statements from the network may do. Pure: statements and a policy in, a fault out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from headrace.language.parser import parse
from headrace.language.syntax.statements import Describe, Explain, ExplainReplace, Show, Statement
from headrace.server.problems import Fault
from headrace.server.tokens import Login


class Policy(Struct, frozen=True):
    """What is allowed: where files may lie, Spark formats, and addresses."""

    files: Path = Path()
    spark: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()


def is_reading(statement: Statement) -> bool:
    """Return whether a statement changes nothing."""
    return isinstance(statement, Show | Describe | Explain | ExplainReplace)


def fence_for(login: Login, policy: Policy, *, read_only: bool, reads: bool) -> Callable[[str], None]:
    """Return what checks the text of a client before it runs."""

    def check(text: str) -> None:
        for statement in parse(text):
            if not is_reading(statement) and not reads:
                if read_only:
                    raise Fault(403, "this server is read-only", code="HR302")
                if not login.may("write"):
                    raise Fault(
                        403,
                        "this token may only read",
                        code="HR302",
                        hint="SHOW, DESCRIBE and EXPLAIN work; for others use a token with the role write",
                    )

    return check
