"""Views of experts as continuous queries over the changes of the alarm container.

The container notes each change in its journal. A feed pushes them to a stream, and a view is a query over that stream
whose results are changes by alarm: an edited alarm replaces the old row, and one that is no longer to be seen is gone.
They are files beside the checkpoint's own, so a view shows the same after a crash.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from headrace.applications.nfmi.container import COLUMNS, Container
from headrace.errors import NameFault
from headrace.session import Session

STREAM = "alarm_changes"
_TYPES = {"version": "INT", "ticket": "INT"}
_COLUMNS = ", ".join(f"{name} {_TYPES.get(name, 'STRING')}" for name in COLUMNS)
_CREATE = f"CREATE STREAM IF NOT EXISTS {STREAM} (number INT, {_COLUMNS}, gone BOOLEAN) FROM MEMORY"


class Feed:
    """Pushes the changes of a container to a session, each once, also after a restart."""

    def __init__(self, container: Container, session: Session) -> None:
        self._container, self._session, self._last = container, session, 0
        session.execute(_CREATE)

    def push(self) -> int:
        """Push what has changed since the last call; return how many changes there were."""
        changes = self._container.changes(self._last)
        for change in changes:
            self._session.push(STREAM, [change], key=f"{STREAM} {change['number']}")
            self._last = int(str(change["number"]))
        return len(changes)


def define_view(session: Session, name: str, condition: str, *, keep: str = "30 days") -> None:
    """Create the query of a view: the alarms whose newest version satisfies a condition over their columns.

    An alarm that has not changed for the time `keep` is forgotten.
    """
    shown = ("number", *COLUMNS, "gone")
    given = ", ".join(f"{column} AS new_{column}" for column in shown if column != "alarm")
    newest = ", ".join(f"last(new_{column}) AS {column}" for column in shown if column != "alarm")
    session.execute(
        f"CREATE QUERY {name} AS SELECT alarm, {newest} FROM (SELECT alarm, {given} FROM {STREAM}) GROUP BY alarm "
        f"HAVING NOT gone AND ({condition}) EMIT CHANGES STATE TTL '{keep}' "
        f"INTO FILES (path '{_folder(session, name).as_uri()}', format 'parquet', keep '{keep}')"
    )


def rows(session: Session, name: str, columns: tuple[str, ...] = COLUMNS) -> list[tuple[object, ...]]:
    """Return what a view shows now."""
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise NameFault(f"{unknown[0]!r} is no column of an alarm", hint=f"columns are {', '.join(COLUMNS)}")
    files = [path for path in _folder(session, name).glob("*.parquet") if not path.name.startswith(".")]
    if not files:
        return []
    changes = pl.concat([pl.read_parquet(path) for path in files]).filter(pl.col("change") != "update_before")
    newest = changes.with_columns(gone=pl.col("change") == "delete").sort("number", "gone").group_by("alarm").last()
    return sorted(newest.filter(~pl.col("gone")).select(columns).rows(), key=str)


def _folder(session: Session, name: str) -> Path:
    return session.directory.absolute() / "views" / name
