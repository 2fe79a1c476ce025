"""Results that a sink cannot hold: they go to `<query>.failed` with the reason, and the others are delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from headrace.catalog.definitions import Connector
from headrace.connectors.connector import SelectiveSink
from headrace.connectors.kinds import refused
from headrace.connectors.spool import stream_spool
from headrace.driver.rules.firing import Failure, as_json, failed_frame, key_of
from headrace.model.calendar import python_rows
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.streams import failed_stream


class FailedResults:
    """The results of one query in one micro-batch that were refused so far."""

    def __init__(self, query: str, batch: int) -> None:
        self._query = query
        self._batch = batch
        self.failures: list[Failure] = []

    def accepted(self, connector: Connector, pages: Sequence[Page], sink: object = None) -> Sequence[Page]:
        """Return the pages without rows that sinks of this kind, or this one, cannot hold; these rows are noted."""
        pages = self._held(connector, pages, lambda rows: refused(connector, rows))
        return self._held(connector, pages, sink.refused) if isinstance(sink, SelectiveSink) else pages

    def _held(
        self, sink: Connector, pages: Sequence[Page], refused: Callable[[pl.DataFrame], pl.Series | None]
    ) -> Sequence[Page]:
        reasons = [refused(page.visible()) for page in pages]
        if all(why is None for why in reasons):
            return pages
        kept = []
        for page, why in zip(pages, reasons, strict=True):
            if why is None:
                kept.append(page)
                continue
            kept.append(Page(page.rows.filter(why.is_null())))
            self._note(f"INTO {sink.kind}", Page(page.rows.filter(why.is_not_null())), why.drop_nulls().to_list())
        return kept

    def put(self, directory: Path) -> int:
        """Leave what was refused in `<query>.failed`, in place of what an earlier try left; return how many rows."""
        if self.failures:
            stream_spool(failed_stream(self._query), directory).put(self._batch, failed_frame(self.failures))
        return len(self.failures)

    def _note(self, action: str, page: Page, reasons: Sequence[str]) -> None:
        instants = page.rows[TS].to_list()
        for row, why, instant in zip(python_rows(page.visible()), reasons, instants, strict=True):
            key = key_of(f"{self._query}/{self._batch}", len(self.failures), action)
            self.failures.append((key, action, why, 0, instant, as_json(row)))
