"""KAFKA sinks whose results are sent by tasks: as many publishers as the option says.

Tasks leave large results in the checkpoint. The delivery writes down which of these files each publisher sends, and
then lets them be sent side by side. Each publisher has a transaction and a note of its own, as the driver has without
this option:

- A publisher that dies after its transaction is committed is run again, finds its note, and sends nothing.
- One that lives on after it was given up for lost is fenced off by the broker, because its successor has its name.
- A delivery that is repeated sends the files that were written down, whatever the tasks have left this time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import polars as pl
from msgspec import Struct

from headrace.catalog.definitions import Connector
from headrace.connectors.files.sink import is_orphan
from headrace.connectors.kafka.sink import KafkaSink, Sender, target
from headrace.connectors.secrets import resolved
from headrace.errors import SinkFault
from headrace.model.page import Page
from headrace.model.schema import Schema
from headrace.storage import files, sealed
from headrace.storage.names import file_name
from headrace.storage.object_settings import configure

_SUFFIX = ".arrow"
_SENDING = "sending.json"
#: Where tasks leave results, in a checkpoint.
PUBLISHED_STAGING = Path("sinks", "published")


class Sending(Struct, frozen=True, kw_only=True):
    """What is being sent, or was sent last: the files of each publisher."""

    batch: int
    shares: list[list[str]]

    def names(self) -> set[str]:
        return {name for share in self.shares for name in share}


class Publication(Struct, frozen=True):
    """What one publisher sends: files in a directory. `connector` has references instead of secrets."""

    name: str  # of its transactions and notes
    connector: Connector
    schema: Schema
    directory: str
    batch: int
    files: list[str]


#: Lets publications be sent, and returns when all are.
Publish: TypeAlias = Callable[[Sequence[Publication]], None]


def publish(publication: Publication) -> None:
    """Send what one publisher has to send, unless it is in the topic already."""
    connector = resolved(publication.connector)
    sender = Sender(publication.name, target(connector, publication.schema), publication.schema)
    try:
        if not sender.has_sent(publication.batch):
            directory = Path(publication.directory)
            sender.send(publication.batch, lambda: (_rows(directory / name) for name in publication.files))
    finally:
        sender.close()


def publish_elsewhere(storage: Mapping[str, str], publication: Publication) -> None:
    """Send what one publisher has to send, in a process that may not know yet how stores are reached."""
    configure(storage)
    publish(publication)


def publish_in_order(publications: Sequence[Publication]) -> None:
    """Send publications one after the other, in this process."""
    for publication in publications:
        publish(publication)


class PublishingSink(KafkaSink):
    """Lets publishers send the results that tasks have left; `reference` is the connector without its secrets."""

    def __init__(self, query: str, connector: Connector, schema: Schema, checkpoint: Path) -> None:
        super().__init__(query, connector, schema, checkpoint)
        self.staging = checkpoint / PUBLISHED_STAGING / file_name(f"{query}-{self._target.place.topic}")
        self.reference = connector
        self.publish: Publish = publish_in_order
        self._sending: Sending | None = None
        self._is_known = False  # whether what an earlier process was sending has been read

    def stage(self, page: Page, name: str) -> str:
        """Write results from a task; hand the returned name to `write` on the driver."""
        self._put(name, page.visible())
        return name

    def write(self, batch: int, pages: Sequence[Page], staged: Sequence[str] = ()) -> None:
        """Send the results of a micro-batch, unless they are in the topic already."""
        sending = self._read()
        if sending is not None and sending.batch < batch:
            self._forget(batch)
            sending = None
        if sending is None:
            if not staged:
                super().write(batch, pages)
                return
            if self.sender.has_sent(batch):
                return  # an earlier try had them all on the driver
            sending = self._begin(batch, pages, staged)
        if sending.batch == batch:
            self.publish(
                [
                    Publication(f"{self.name}-{number}", self.reference, self._schema, str(self.staging), batch, share)
                    for number, share in enumerate(sending.shares)
                    if share
                ]
            )

    def sweep(self) -> int:
        """Delete what tasks staged and nobody sends, while no task runs."""
        sending = self._read()
        kept = set() if sending is None else sending.names()
        stale = [name for name in files.names(self.staging) if name != _SENDING and name not in kept]
        files.remove(*(self.staging / name for name in stale), durable=False)
        return files.sweep(self.staging) + len(stale)

    def _begin(self, batch: int, pages: Sequence[Page], staged: Sequence[str]) -> Sending:
        """Write down who sends what, so that a repetition does the same."""
        names = [f"{name}{_SUFFIX}" for name in staged]
        frames = [page.visible() for page in pages if len(page)]
        if frames:
            names.append(self._put(f"b{batch}-driver", pl.concat(frames)))
        publishers = self._target.publishers
        sending = Sending(batch=batch, shares=[names[first::publishers] for first in range(publishers)])
        sealed.replace(self.staging / _SENDING, msgspec.json.encode(sending))
        self._sending = sending
        return sending

    def _forget(self, batch: int) -> None:
        """Delete what belongs to micro-batches before this one: they are never repeated."""
        self._sending = None
        old = [name for name in files.names(self.staging) if name == _SENDING or is_orphan(name, batch)]
        files.remove(*(self.staging / name for name in old), durable=False)

    def _read(self) -> Sending | None:
        """Return what is being sent, also by an earlier process."""
        path = self.staging / _SENDING
        if not self._is_known:
            data = sealed.read_if_exists(path)
            try:
                self._sending = None if data is None else msgspec.json.decode(data, type=Sending)
            except ValueError as error:  # DecodeError is one
                raise sealed.damaged(path, error) from error
            self._is_known = True
        return self._sending

    def _put(self, name: str, rows: pl.DataFrame) -> str:
        try:
            sealed.replace(self.staging / f"{name}{_SUFFIX}", Page(rows.select(self._schema.names)).encode())
        except OSError as error:
            raise SinkFault(
                f"results cannot be written to {self.staging}: {error.strerror}", hint="free space; then start again"
            ) from error
        return f"{name}{_SUFFIX}"


def kafka_sink(query: str, connector: Connector, schema: Schema, checkpoint: Path) -> KafkaSink:
    """Return the sink that the options ask for."""
    make = PublishingSink if target(connector, schema).publishers else KafkaSink
    return make(query, connector, schema, checkpoint)


def _rows(path: Path) -> pl.DataFrame:
    try:
        return Page.decode(sealed.read(path)).rows
    except FileNotFoundError:
        raise SinkFault(
            f"the results in {path} were deleted before they were sent",
            hint="do not delete files in a checkpoint that is in use",
        ) from None
    except ValueError as error:
        raise sealed.damaged(path, error) from error
