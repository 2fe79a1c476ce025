"""The alarm container: alarms that operators share, with tickets, locks on fields, and views.

An alarm has versions. An operator locks a field to edit it, and appends a version with the new value. A version stays
as long as a lock that was taken on it. Views show the newest version of each alarm, so an edited alarm replaces the old
one on every screen. A cleared alarm goes to the archive after some time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from headrace.applications.nfmi.store import Store, Work
from headrace.errors import NameFault, RunError

#: Fields that experts may edit.
EDITABLE = ("severity", "status", "owner", "note")
COLUMNS = (
    "alarm",
    "version",
    "ticket",
    "parent",
    "domain",
    "source",
    "kind",
    "severity",
    "status",
    "owner",
    "note",
    "opened",
    "changed",
)
_TYPES = ("TEXT", "INTEGER", "INTEGER", *["TEXT"] * 10)
_TABLE = ", ".join(f"{name} {type_}" for name, type_ in zip(COLUMNS, _TYPES, strict=True))
_NAMES = ", ".join(COLUMNS)
_SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS alarm ({_TABLE}, PRIMARY KEY (alarm, version))",
    f"CREATE TABLE IF NOT EXISTS archive ({_TABLE}, PRIMARY KEY (alarm, version))",
    "CREATE TABLE IF NOT EXISTS lock"
    " (alarm TEXT, field TEXT, holder TEXT, version INTEGER, PRIMARY KEY (alarm, field))",
    "CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER)",
    "CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY)",
    f"CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, {_TABLE}, gone INTEGER)",
    "INSERT INTO counter VALUES ('ticket', 0), ('change', 0), ('journal', 0) ON CONFLICT DO NOTHING",
)
_NEWEST = (
    f"SELECT {_NAMES} FROM alarm AS a WHERE version = (SELECT max(version) FROM alarm AS b WHERE b.alarm = a.alarm)"
)
OPEN, CLEAR = "OPEN", "CLEAR"
SEVERITIES = ("MINOR", "MAJOR", "CRITICAL")


@dataclass(frozen=True, slots=True)
class Alarm:
    """The newest version of an alarm; a consequence has the alarm that caused it as its parent."""

    alarm: str
    version: int
    ticket: int
    parent: str | None
    domain: str
    source: str
    kind: str
    severity: str
    status: str
    owner: str | None
    note: str | None
    opened: str
    changed: str


class Locked(RunError):
    """Another operator edits the field."""


class Container:
    """Alarms in a database; every method is one transaction."""

    def __init__(self, place: str | Path) -> None:
        self._store = Store(place)
        self._store.prepare(_SCHEMA)

    def open(
        self,
        alarm: str,
        *,
        at: datetime,
        domain: str,
        source: str,
        kind: str,
        severity: str,
        parent: str | None = None,
        key: str | None = None,
    ) -> None:
        """Open an alarm with a new ticket, unless it exists. A second call with the same key does nothing."""
        with self._once(key) as work:
            if work is None or work.rows(
                "SELECT 1 FROM alarm WHERE alarm = ? UNION SELECT 1 FROM archive WHERE alarm = ?", alarm, alarm
            ):
                return
            work.do("UPDATE counter SET value = value + 1 WHERE name = 'ticket'")
            ((ticket,),) = work.rows("SELECT value FROM counter WHERE name = 'ticket'")
            _put(
                work,
                Alarm(alarm, 1, ticket, parent, domain, source, kind, severity, OPEN, None, None, f"{at}", f"{at}"),
            )

    def update(self, alarm: str, *, at: datetime, key: str | None = None, **fields: str) -> None:
        """Append a version with new values, except for fields that an operator is editing."""
        with self._once(key) as work:
            if work is None:
                return
            held = {field for (field,) in work.rows("SELECT field FROM lock WHERE alarm = ?", alarm)}
            _append(work, alarm, at, {name: value for name, value in fields.items() if _editable(name) not in held})

    def edit(self, alarm: str, field: str, holder: str) -> str | None:
        """Lock a field for an operator and return its value."""
        with self._change() as work:
            newest = _newest(work, alarm)
            for (other,) in work.rows("SELECT holder FROM lock WHERE alarm = ? AND field = ?", alarm, _editable(field)):
                if other != holder:
                    raise Locked(f"{other} is editing {field} of {alarm}", hint="other fields can be edited")
                work.do("DELETE FROM lock WHERE alarm = ? AND field = ?", alarm, field)
            work.do("INSERT INTO lock VALUES (?, ?, ?, ?)", alarm, field, holder, newest.version)
            value: str | None = getattr(newest, field)
            return value

    def finish(self, alarm: str, field: str, holder: str, value: str, *, at: datetime) -> None:
        """End an edit: append a version with the value, and delete versions on which no lock was taken."""
        with self._change() as work:
            if not work.rows("SELECT 1 FROM lock WHERE alarm = ? AND field = ? AND holder = ?", alarm, field, holder):
                raise Locked(f"{holder} has not locked {field} of {alarm}", hint="call edit first")
            work.do("DELETE FROM lock WHERE alarm = ? AND field = ?", alarm, field)
            _append(work, alarm, at, {field: value})

    def clear(self, alarm: str, *, at: datetime, key: str | None = None) -> None:
        """Mark an alarm and its consequences as cleared; they stay visible until they are purged."""
        with self._once(key) as work:
            if work is None:
                return
            for (name,) in work.rows("SELECT DISTINCT alarm FROM alarm WHERE alarm = ? OR parent = ?", alarm, alarm):
                _append(work, name, at, {"status": CLEAR})

    def purge(self, *, now: datetime, lifetime: timedelta) -> list[str]:
        """Archive alarms that have been cleared for a lifetime and that no operator edits; return their names."""
        with self._change() as work:
            idle = "alarm NOT IN (SELECT alarm FROM lock)"
            over = work.rows(
                f"SELECT alarm FROM ({_NEWEST}) AS n WHERE status = ? AND changed < ? AND {idle}",
                CLEAR,
                f"{now - lifetime}",
            )
            for (alarm,) in over:
                _journal(work, _newest(work, alarm), gone=True)
                work.do(f"INSERT INTO archive SELECT {_NAMES} FROM alarm WHERE alarm = ?", alarm)
                work.do("DELETE FROM alarm WHERE alarm = ?", alarm)
            return sorted(alarm for (alarm,) in over)

    def define_view(self, name: str, condition: str, columns: tuple[str, ...] = COLUMNS) -> None:
        """Define a database view: some columns of the alarms that satisfy a condition."""
        unknown = [column for column in columns if column not in COLUMNS]
        if not name.isidentifier() or unknown:
            raise NameFault(f"{(unknown or [name])[0]!r} is not a valid name here", hint=f"columns are {_NAMES}")
        with self._change() as work:
            work.do(f"DROP VIEW IF EXISTS view_{name}")
            work.do(f"CREATE VIEW view_{name} AS SELECT {', '.join(columns)} FROM ({_NEWEST}) AS n WHERE {condition}")

    def view(self, name: str) -> list[tuple[object, ...]]:
        """Return the rows of a view."""
        with self._store.transaction() as work:
            return sorted(work.rows(f"SELECT * FROM view_{name}"), key=str)

    def alarms(self) -> Mapping[str, Alarm]:
        """Return the newest versions of all alarms that are not archived, by name."""
        with self._store.transaction() as work:
            return {row[0]: Alarm(*row) for row in work.rows(_NEWEST)}

    def changes(self, after: int = 0) -> list[dict[str, object]]:
        """Return the versions that came, and the alarms that went to the archive, after a number, in order."""
        names = ("number", *COLUMNS, "gone")
        with self._store.transaction() as work:
            rows = work.rows(f"SELECT {', '.join(names)} FROM journal WHERE number > ? ORDER BY number", after)
        return [{**dict(zip(names, row, strict=True)), "gone": bool(row[-1])} for row in rows]

    def versions(self, alarm: str) -> list[int]:
        """Return the versions of an alarm that are kept."""
        with self._store.transaction() as work:
            return [
                version for (version,) in work.rows("SELECT version FROM alarm WHERE alarm = ? ORDER BY version", alarm)
            ]

    def archived(self) -> list[str]:
        """Return the names of archived alarms."""
        with self._store.transaction() as work:
            return sorted({alarm for (alarm,) in work.rows("SELECT alarm FROM archive")})

    @contextmanager
    def _change(self) -> Iterator[Work]:
        """Run a transaction that waits for other changes."""
        with self._store.transaction() as work:
            work.do(
                "UPDATE counter SET value = value + 1 WHERE name = 'change'"
            )  # the row is locked until the transaction ends
            yield work

    @contextmanager
    def _once(self, key: str | None) -> Iterator[Work | None]:
        """Run a changing transaction; yield None if the key has been used before."""
        with self._change() as work:
            if key is not None and work.rows("SELECT 1 FROM done WHERE key = ?", key):
                yield None
                return
            if key is not None:
                work.do("INSERT INTO done VALUES (?)", key)
            yield work


class Screen:
    """An operator's screen: rows of a view by alarm, and the changes since the last look."""

    def __init__(self, container: Container, view: str) -> None:
        self._container = container
        self._view = view
        self.rows: dict[object, tuple[object, ...]] = {}

    def look(self) -> tuple[list[object], list[object]]:
        """Return the alarms that are new or changed, and those that are gone."""
        now = {row[0]: row for row in self._container.view(self._view)}
        changed = sorted((alarm for alarm, row in now.items() if self.rows.get(alarm) != row), key=str)
        gone = sorted(self.rows.keys() - now.keys(), key=str)
        self.rows = now
        return changed, gone


def _newest(work: Work, alarm: str) -> Alarm:
    rows = work.rows(f"SELECT {_NAMES} FROM ({_NEWEST}) AS n WHERE alarm = ?", alarm)
    if not rows:
        raise NameFault(f"no alarm {alarm!r}", hint="it may have been archived")
    return Alarm(*rows[0])


def _append(work: Work, alarm: str, at: datetime, fields: Mapping[str, str]) -> None:
    """Append a version with new values; delete older versions on which no lock was taken."""
    newest = _newest(work, alarm)
    values = (
        {name: getattr(newest, name) for name in COLUMNS}
        | dict(fields)
        | {"version": newest.version + 1, "changed": f"{at}"}
    )
    _put(work, Alarm(**values))
    work.do(
        "DELETE FROM alarm WHERE alarm = ? AND version <= ?"
        " AND version NOT IN (SELECT version FROM lock WHERE lock.alarm = ?)",
        alarm, newest.version, alarm,
    )  # fmt: skip


def _put(work: Work, alarm: Alarm) -> None:
    work.do(f"INSERT INTO alarm VALUES ({', '.join('?' * len(COLUMNS))})", *(getattr(alarm, name) for name in COLUMNS))
    _journal(work, alarm, gone=False)


def _journal(work: Work, alarm: Alarm, *, gone: bool) -> None:
    """Note a change for those who follow them."""
    work.do("UPDATE counter SET value = value + 1 WHERE name = 'journal'")
    ((number,),) = work.rows("SELECT value FROM counter WHERE name = 'journal'")
    values = (number, *(getattr(alarm, name) for name in COLUMNS), int(gone))
    work.do(f"INSERT INTO journal VALUES ({', '.join('?' * len(values))})", *values)


def _editable(field: str) -> str:
    if field not in EDITABLE:
        raise NameFault(f"{field!r} cannot be edited", hint=f"editable fields: {', '.join(EDITABLE)}")
    return field
