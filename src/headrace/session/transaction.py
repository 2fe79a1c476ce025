"""What checked statements will do once all of them are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import RAISED, Aggregate, Definition, Query, Sink, Stream
from headrace.catalog.journal import Entry
from headrace.commands import settings
from headrace.commands.command import AddQuery, Command, DropQuery, Set
from headrace.commands.running import Running
from headrace.errors import NameFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import CreateSink, DeclareEvent
from headrace.language.syntax.statements import (
    Alter,
    AlterPromises,
    CreateAggregate,
    CreateEvent,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Drop,
)
from headrace.language.syntax.stints import TurnQuery
from headrace.model.qos import format_qos
from headrace.session.alter import setting_of
from headrace.session.outcome import Message, Outcome, Started
from headrace.session.promises import caution, check_shed_share, promises_of
from headrace.session.stints import turned_off, turned_on

Create: TypeAlias = (
    CreateStream | CreateTable | CreateAggregate | CreateQuery | CreateView | CreateEvent | DeclareEvent | CreateSink
)


class Staged:
    """A copy of the catalog as it will be, and the journal entries, commands and outcomes that take it there."""

    def __init__(self, catalog: Catalog, running: Running) -> None:
        self.catalog = catalog
        self.running = {query.query: query for query in running.queries}
        self.deployed = running  # with queries that are off
        self.entries: list[Entry] = []
        self.commands: list[Command] = []
        self.outcomes: list[Callable[[], Outcome]] = []

    def define(self, definition: Definition, statement: Create, what: str, said: str = "") -> bool:
        """Add a definition; False if it was there already, just so (a file that is run again). `said` is told of it beside that it is there."""
        taken: Definition | None
        match definition:
            case Aggregate():
                taken = self.catalog.aggregate(definition.name)
            case Sink():
                taken = self.catalog.sink(definition.name)
            case _:
                taken = self.catalog.get(definition.name)
        if taken == definition or (taken is not None and statement.if_not_exists):
            self.outcomes.append(lambda: Message(f"{what} is there already"))
            known = {query.query for query in self.deployed.known}
            return (
                isinstance(definition, Query)
                and taken == definition
                and definition.name not in self.running.keys() | known
            )
        if statement.or_replace:
            self.catalog.replace(definition, span=statement.name.span)
        else:
            self.catalog.add(definition, span=statement.name.span)
        self.entries.append(Entry(statement.text, definition))
        if not isinstance(definition, Query) or definition.is_view:
            self.outcomes.append(lambda: Message(f"{what} created{said}"))
        return True

    def start(self, command: AddQuery) -> None:
        """Run a query, unless it runs already just so."""
        self.outcomes.append(lambda: Started(command.query))
        if self.running.get(command.query) != command:
            self.send(command)
            self.running[command.query] = command

    def turn(self, statement: TurnQuery, now: int) -> None:
        """Turn a query on or off."""
        found = (
            turned_on(self.deployed, statement.name, now)
            if statement.on
            else turned_off(self.deployed, statement.name, now)
        )
        for command in found:
            self.send(command)
        self.running = {query.query: query for query in self.deployed.queries}
        name, word = statement.name.text, "on" if statement.on else "off"
        self.outcomes.append(lambda: Message(f"query {name} is {word}" if found else f"query {name} is {word} already"))

    def send(self, command: Command) -> None:
        """Note a command, and what runs after it."""
        self.commands.append(command)
        self.deployed = self.deployed.after(command)

    def alter(self, statement: Alter) -> None:
        """Set something of a query or of all."""
        query = None if statement.query is None else statement.query.text
        if statement.query is not None:
            self._check_running(statement.query)
        setting = setting_of(statement)
        if isinstance(setting, settings.ShedShare) and query is not None and setting.share:
            check_shed_share(setting.share, self.running[query], statement.value.span)
        self.commands.append(Set(query, setting))
        said = f"{statement.setting.text.lower()} {statement.value.text}"
        self.outcomes.append(lambda: Message(f"{'all queries' if query is None else query}: {said}"))

    def promise(self, statement: AlterPromises) -> None:
        """Change what a running query promises."""
        self._check_running(statement.query)
        query = self.running[statement.query.text]
        command = promises_of(statement, query)
        self.commands.append(command)
        self.running[query.query] = msgspec.structs.replace(query, qos=command.qos)
        said = ", ".join(f"{name} {value}" for name, value in format_qos(command.qos)) or "nothing"
        but = caution(command.qos, query)
        self.outcomes.append(lambda: Message(f"{query.query} promises {said}{but}"))

    def _check_running(self, query: Name) -> None:
        if query.text not in self.running:
            raise NameFault(
                f"no running query {query.text!r}", span=query.span, hint=did_you_mean(query.text, list(self.running))
            )

    def drop(self, statement: Drop) -> None:
        """Forget a definition, and stop it if it is a running query."""
        name = statement.name.text
        known = self.catalog.get(name)
        kind = (
            "STREAM"
            if statement.kind == "QUERY" and isinstance(known, Stream) and known.connector.kind == RAISED
            else statement.kind
        )
        if kind == "QUERY" and name in self.running and known is None and not self.catalog.has_rule(name):
            removed = name  # an unnamed SELECT
        elif statement.if_exists and not self._is_there(name, kind):
            self.outcomes.append(lambda: Message(f"no {statement.kind.lower()} {name}"))
            return
        else:
            removed = self.catalog.remove(name, kind, span=statement.name.span).name
            self.entries.append(Entry(statement.text))
        if kind in ("QUERY", "RULE") and any(
            query.query == removed for query in self.deployed.known
        ):  # a view does not run
            self.running.pop(removed, None)
            self.send(DropQuery(removed))
        self.outcomes.append(lambda: Message(f"{statement.kind.lower()} {removed} dropped"))

    def _is_there(self, name: str, kind: str) -> bool:
        match kind:
            case "RULE":
                return self.catalog.has_rule(name)
            case "SINK":
                return self.catalog.sink(name) is not None
            case _:
                return self.catalog.get(name) is not None or self.catalog.aggregate(name) is not None
