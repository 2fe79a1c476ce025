"""What rules call: the operations centre's desk, which keeps the alarm container.

The container is in the database that `HEADRACE_ALARMS` names, or in the file alarms.db. A rule may call more than once, always with the same key,
so every change is made once.
"""

from __future__ import annotations

import os
from datetime import datetime
from functools import cache

from headrace.applications.nfmi.container import Container

#: The environment variable that names the database, such as postgresql://user@host/alarms.
PLACE = "HEADRACE_ALARMS"


def container() -> Container:
    """The container that this process works on."""
    return _container(os.environ.get(PLACE) or os.path.abspath("alarms.db"))


def opened(alarm: str, domain: str, source: str, kind: str, severity: str, at: datetime, *, key: str) -> None:
    """A fault: an alarm with a ticket of its own."""
    container().open(alarm, at=at, domain=domain, source=source, kind=kind, severity=severity, key=key)


def attached(alarm: str, domain: str, source: str, kind: str, severity: str, at: datetime, *, key: str) -> None:
    """A consequence of a fault."""
    container().open(
        f"{source} at {at:%Y-%m-%d %H:%M:%S}",
        at=at,
        domain=domain,
        source=source,
        kind=kind,
        severity=severity,
        parent=alarm,
        key=key,
    )


def explained(alarm: str, consequences: int, at: datetime, *, key: str) -> None:
    """How much a fault brought down."""
    container().update(alarm, at=at, note=f"{consequences} consequences", key=key)


def escalated(alarm: str, at: datetime, *, key: str) -> None:
    """A fault that takes too long."""
    container().update(alarm, at=at, severity="CRITICAL", key=key)


def closed(alarm: str, at: datetime, *, key: str) -> None:
    """A fault that was repaired."""
    container().clear(alarm, at=at, key=key)


@cache
def _container(place: str) -> Container:
    return Container(place)
