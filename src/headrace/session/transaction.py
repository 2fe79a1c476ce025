"""A transaction: what the statements of a text do together once all of them are checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import (
    ON_DEMAND,
    RAISED,
    Aggregate,
    Definition,
    Function,
    Query,
    Rule,
    Sink,
    Stream,
    Table,
)
from headrace.catalog.journal import Entry
from headrace.commands import settings
from headrace.commands.command import AddQuery, Command, DropQuery, Set, Steer, incarnated
from headrace.commands.running import Running
from headrace.errors import NameFault
from headrace.graph.graph import VertexId
from headrace.language.names import did_you_mean
from headrace.language.parser import parse
from headrace.language.syntax import rules, statements, stints
from headrace.language.syntax.names import Name
from headrace.model.expressions.text import format_name
from headrace.model.patterns.feedback import Intent
from headrace.model.qos import format_qos
from headrace.model.time import BEGIN, END
from headrace.session.alter import setting_of
from headrace.session.inserting import goes_on_note
from headrace.session.outcome import Message, Outcome, Started
from headrace.session.promises import check_on_demand, check_shed_share, promises_of, unscaled_note, unshed_note
from headrace.session.redefined import check_stream, earlier_note
from headrace.session.stints import start_query, stop_query

Create: TypeAlias = (
    statements.CreateStream
    | statements.CreateTable
    | statements.CreateAggregate
    | statements.CreateFunction
    | statements.CreateQuery
    | statements.CreateView
    | statements.CreateEvent
    | rules.DeclareEvent
    | rules.CreateSink
)


#: Streams whose records are in numbered files that only we write.
_NUMBERED = ("MEMORY", "SPARK", RAISED)


class Transaction:
    """A copy of the catalog as it will be, and the journal entries, commands and outcomes that take it there."""

    def __init__(
        self,
        catalog: Catalog,
        running: Running,
        bounds: Mapping[VertexId, int] | None = None,
        begin_of: Callable[[str], int] = lambda stream: 0,
    ) -> None:
        self.catalog = catalog
        self._begin_of = begin_of  # the first number of new files of a stream, by name
        self.running = {query.query: query for query in running.queries}
        self.deployed = running  # with queries that are off
        self._first = running.commands
        self._bounds = bounds or {}  # of results, by output
        self.entries: list[Entry] = []
        self.commands: list[Command] = []
        self.outcomes: list[Callable[[], Outcome]] = []
        self.checks_admission = True  # False for a forecast, which tells what would be refused

    @property
    def number(self) -> int:
        """Return a number that no other command has: one more than there are, unless others are sent meanwhile."""
        return self._first + len(self.commands)

    def define(
        self, definition: Definition, statement: Create, what: str, note: str = "", command: AddQuery | None = None
    ) -> bool:
        """Add a definition; return whether it is new, or a query that is defined but not deployed by this `command`.

        `note` follows the message that it was created. A definition that is the same as before stays (a script that
        runs again).
        """
        known = self._known(definition)
        is_same = known is not None and _as_written(known) == _as_written(definition)
        if is_same or (known is not None and statement.if_not_exists):
            self.outcomes.append(lambda: Message(f"{what} already exists{self.failure_note(definition.name)}"))
            # a crash may have come between the catalog and the command log
            return command is not None and is_same and not self.is_deployed_by(command)
        if isinstance(definition, Stream) and definition.connector.kind in _NUMBERED:
            definition = self._begun(definition, known)
        if statement.or_replace:
            self.catalog.replace(definition, span=statement.name.span)
            if isinstance(definition, Stream):
                check_stream(definition, self.deployed, statement.name.span)
            note += "" if known is None else earlier_note(definition, self.catalog, self.deployed)
        else:
            self.catalog.add(definition, span=statement.name.span)
        self.entries.append(Entry(statement.text, definition))
        if not isinstance(definition, Query) or definition.is_view:
            self.outcomes.append(lambda: Message(f"{what} created{note}"))
        return True

    def has(self, definition: Definition) -> bool:
        """Return whether a definition is there as it is written, so that a script that runs again changes nothing."""
        known = self._known(definition)
        return known is not None and _as_written(known) == _as_written(definition)

    def goes_on(self, query: Query) -> bool:
        """Return whether a query is defined and deployed as it is written, and say so: it needs no look at its data."""
        digest = digest_of(query)
        deployed = any(known.query == query.name and known.definition == digest for known in self.deployed.added)
        if not deployed or not self.has(query):
            return False
        self.outcomes.append(lambda: Message(f"query {query.name} already exists{self.failure_note(query.name)}"))
        return True

    def _begun(self, stream: Stream, known: Definition | None) -> Stream:
        """Return a new stream without what is left of an earlier one of its name; one that is replaced goes on."""
        recorded = stream.recorded.schema
        if isinstance(known, Stream) and known.connector == stream.connector and known.recorded.schema == recorded:
            return msgspec.structs.replace(stream, begin=known.begin)
        return msgspec.structs.replace(stream, begin=self._begin_of(stream.name))

    def failure_note(self, name: str) -> str:
        """Return what to say besides of a query or rule that has failed; nothing of others."""
        failed = next((failed for failed in self.deployed.failed if failed.query == name), None)
        if failed is None:
            return ""
        again = f"START QUERY {name}" if failed.added.reaction is None else f"ENABLE RULE {name}"
        return f", and has failed: {failed.reason} ({again} runs it again)"

    def is_deployed_by(self, command: AddQuery) -> bool:
        """Return whether a query was added to the deployment with the definition of a command, on or off."""
        return any(
            query.query == command.query and query.definition in ("", command.definition)
            for query in self.deployed.added
        )

    def start(self, command: AddQuery, reads: Iterable[str], note: str = "") -> None:
        """Run a query over these relations; one that runs unchanged goes on."""
        if note:
            self.outcomes.append(lambda: Message(note))
        self.outcomes.append(lambda: Started(command.query))
        self.run(command, reads)

    def run(self, command: AddQuery, reads: Iterable[str], *, goes_on: bool = False) -> None:
        """Send the command of a query or rule, unless it runs unchanged; one that `goes_on` keeps its state.

        Of the queries that it `reads` it sees what they deliver, so it shares their state.
        """
        known = self.running.get(command.query)
        unchanged = None if known is None else incarnated(command, known.incarnation, [known])
        if (
            known is not None
            and unchanged is not None
            and msgspec.structs.replace(unchanged, tables=known.tables) == known
        ):
            return
        # the queries of one transaction share their state: they see the same first tuple
        others = [self.running.get(name) for name in self.catalog.queries_in(reads)]
        before = [query for query in (*others, known) if query is not None and not self.lacks_state(query)]
        if goes_on and known is not None and unchanged is not None:
            made = msgspec.structs.replace(unchanged, graph=known.graph, stint=known.stint)
        else:
            made = incarnated(command, self._first + 1, before)
        self.send(made)
        self.running[command.query] = made

    def lacks_state(self, query: AddQuery) -> bool:
        """Return whether an assumption in force may have removed state that another query would need."""
        bound = self._bounds.get(query.output, BEGIN)
        return any(
            sent.query == query.query and sent.feedback.intent is Intent.ASSUMED and (sent.until or END) > bound
            for sent in self.deployed.feedback
        )

    def turn(self, statement: stints.TurnQuery, now: int) -> None:
        """Start or stop a query."""
        name = statement.name.text
        commands = (start_query if statement.on else stop_query)(self.deployed, statement.name, now)
        for command in commands:
            self.send(command)
        self.running = {query.query: query for query in self.deployed.queries}
        if statement.on:
            said = f"query {name} started" if commands else f"query {name} is already on"
        else:
            said = f"query {name} stopped" if commands else f"query {name} is already off"
        self.outcomes.append(lambda: Message(said))

    def send(self, command: Command) -> None:
        """Note a command, and what is in force after it."""
        self.commands.append(command)
        self.deployed = self.deployed.after(command)

    def alter(self, statement: statements.Alter) -> None:
        """Change a setting of a query or of the system."""
        query = None if statement.query is None else statement.query.text
        altered = None if statement.query is None else self.altered(statement.query)
        setting = setting_of(statement)
        if isinstance(setting, settings.ShedShare) and altered is not None and setting.share:
            check_shed_share(setting.share, altered, statement.value.span)
        self.send(Set(query, setting))
        said = f"{statement.setting.text.lower()} set to {statement.value.text}"
        self.outcomes.append(lambda: Message(f"{'all queries' if query is None else query}: {said}"))

    def promise(self, statement: statements.AlterPromises) -> None:
        """Change the promises of a query."""
        query = self.altered(statement.query)
        command = promises_of(statement, query)
        definition = self.catalog.get(query.query)
        if isinstance(definition, Query) and ON_DEMAND in definition.options:
            check_on_demand(command.qos, statement.option_spans)
        self.send(command)
        if query.query in self.running:
            self.running[query.query] = msgspec.structs.replace(query, qos=command.qos)
        promises = ", ".join(f"{name} {value}" for name, value in format_qos(command.qos)) or "nothing"
        note = unscaled_note(command.qos, query) + unshed_note(command.qos, query)
        self.outcomes.append(lambda: Message(f"{query.query} promises {promises}{note}"))

    def drop(self, statement: statements.Drop) -> None:
        """Delete a definition, and stop it if it is a running query or rule."""
        name = statement.name.text
        known, kind, note = self.catalog.get(name), self._dropped_kind(statement), ""
        if kind in ("QUERY", "RULE") and known is None and not self.catalog.has_rule(name) and self._is_deployed(name):
            removed = name  # an unnamed SELECT, or a crash came between the catalog and the command log
        elif statement.if_exists and not self._exists(name, kind):
            self.outcomes.append(lambda: Message(f"{statement.kind.lower()} {name} does not exist"))
            return
        else:
            gone = self.catalog.remove(name, kind, span=statement.name.span)
            removed = gone.name
            note = goes_on_note(gone, self.catalog) if isinstance(gone, Sink) else ""
            self.entries.append(Entry(statement.text))
            if isinstance(gone, Rule):
                self._drop_inline(gone)
            if isinstance(gone, Stream) and self.deployed.steering(gone) is not None:
                self.send(Steer(gone.name, gone.source, None, paused=False))  # a later one begins as it is defined
        if kind in ("QUERY", "RULE") and self._is_deployed(removed):  # a view is not
            self.running.pop(removed, None)
            self.send(DropQuery(removed))
        self.outcomes.append(lambda: Message(f"{statement.kind.lower()} {removed} dropped{note}"))

    def _drop_inline(self, rule: Rule) -> None:
        """Drop the event of a rule that has no name of its own, unless something else reads it."""
        (written,) = parse(rule.text)
        if (
            isinstance(written, rules.CreateRule)
            and written.inline is not None
            and not self.catalog.readers(rule.event)
        ):
            self.catalog.remove(rule.event, "query")
            self.entries.append(Entry(f"DROP EVENT {format_name(rule.event)}"))

    def _known(self, definition: Definition) -> Definition | None:
        """Return what the catalog has under the name of a definition, among those of its kind."""
        match definition:
            case Aggregate():
                return self.catalog.aggregate(definition.name)
            case Function():
                return self.catalog.function(definition.name)
            case Sink():
                return self.catalog.sink(definition.name)
            case Stream() | Table() | Query() | Rule():
                return self.catalog.get(definition.name)

    def _is_deployed(self, name: str) -> bool:
        """Return whether a query or rule was added to the deployment, on or off."""
        return any(query.query == name for query in self.deployed.added)

    def _dropped_kind(self, statement: statements.Drop) -> str:
        """Return the kind of definition that a DROP means: an event that rules raise is a stream."""
        known = self.catalog.get(statement.name.text)
        is_raised = isinstance(known, Stream) and known.connector.kind == RAISED
        if statement.kind == "TABLE" and known is None and self.catalog.sink(statement.name.text) is not None:
            return "SINK"  # which was written as a table of Flink
        return "STREAM" if statement.kind == "QUERY" and is_raised else statement.kind

    def altered(self, name: Name) -> AddQuery:
        """Return the query that ALTER names, which may be off."""
        known = {query.query: query for query in self.deployed.stopped} | self.running
        if name.text not in known:
            hint = did_you_mean(name.text, list(known))
            raise NameFault(f"no running query {name.text!r}", span=name.span, hint=hint)
        return known[name.text]

    def _exists(self, name: str, kind: str) -> bool:
        match kind:
            case "RULE":
                return self.catalog.has_rule(name)
            case "SINK":
                return self.catalog.sink(name) is not None
            case "FUNCTION":
                return self.catalog.function(name) is not None
            case _:
                return self.catalog.get(name) is not None or self.catalog.aggregate(name) is not None


def digest_of(definition: Query | Rule) -> str:
    """Return a short text by which definitions can be told apart, as they are written."""
    fields = msgspec.to_builtins(definition)
    fields.pop("basis", None)
    return hashlib.blake2b(msgspec.json.encode(fields), digest_size=8).hexdigest()


def _as_written(definition: Definition) -> Definition:
    """Return a definition without what its query took over from others, and without where its files begin."""
    match definition:
        case Query():
            return msgspec.structs.replace(definition, basis=())
        case Stream():
            return msgspec.structs.replace(definition, begin=0)
        case _:
            return definition
