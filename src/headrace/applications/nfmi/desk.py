"""The functions that rules call: they keep the alarm container.

The container is in the database that `HEADRACE_ALARMS` names, or in the file alarms.db. A rule may call more than once,
always with the same key, and the container makes each change once.
"""

from __future__ import annotations

import os
from datetime import datetime
from functools import cache

from headrace.applications.nfmi.container import Container

#: The environment variable that names the database, such as postgresql://user@host/alarms.
PLACE = "HEADRACE_ALARMS"


def container() -> Container:
    """Return the container of this process."""
    return _container(os.environ.get(PLACE) or os.path.abspath("alarms.db"))


def opened(alarm: str, domain: str, source: str, kind: str, severity: str, at: datetime, *, key: str) -> None:
    """Open an alarm for a fault, with a ticket of its own."""
    container().open(alarm, at=at, domain=domain, source=source, kind=kind, severity=severity, key=key)


def attached(alarm: str, domain: str, source: str, kind: str, severity: str, at: datetime, *, key: str) -> None:
    """Attach a consequence to the alarm of a fault."""
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
    """Note how many consequences a fault has."""
    container().update(alarm, at=at, note=f"{consequences} consequences", key=key)


def escalated(alarm: str, at: datetime, *, key: str) -> None:
    """Escalate a fault that has lasted too long."""
    container().update(alarm, at=at, severity="CRITICAL", key=key)


def closed(alarm: str, at: datetime, *, key: str) -> None:
    """Close the alarm of a repaired fault."""
    container().clear(alarm, at=at, key=key)


@cache
def _container(place: str) -> Container:
    return Container(place)
