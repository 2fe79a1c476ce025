"""Definitions by name.

Streams, tables, queries and rules share one set of names, aggregates and sinks have their own. Look-up ignores case;
the written name is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from msgspec.structs import replace as changed

from headrace.catalog.definitions import (
    BAD,
    CLOCK,
    FAILED,
    FAILURES,
    SHED,
    Aggregate,
    Connector,
    Definition,
    Function,
    Query,
    Rule,
    Sink,
    Stream,
    Table,
    Timing,
)
from headrace.catalog.references import references
from headrace.errors import NameFault, Span
from headrace.language.names import did_you_mean
from headrace.model.schema import Schema
from headrace.model.streams import Side, SideStream, bad_stream, failed_stream, late_stream, side_stream
from headrace.model.types import Type
from headrace.model.wall_clock import times_named

Relation: TypeAlias = Stream | Table | Query
_D = TypeVar("_D", Stream, Table, Query)


class Catalog:
    """The definitions of a session, by name."""

    def __init__(self) -> None:
        self._relations: dict[str, Relation] = {}
        self._aggregates: dict[str, Aggregate] = {}
        self._functions: dict[str, Function] = {}
        self._rules: dict[str, Rule] = {}
        self._sinks: dict[str, Sink] = {}

    def copy(self) -> Catalog:
        """Return a catalog that changes by itself; the definitions never change."""
        other = Catalog()
        other._relations, other._aggregates = dict(self._relations), dict(self._aggregates)
        other._functions = dict(self._functions)
        other._rules, other._sinks = dict(self._rules), dict(self._sinks)
        return other

    def get(self, name: str) -> Relation | None:
        """Return the stream, side stream, table or query of this name, if there is one."""
        return self._relations.get(name.lower()) or self._side_stream(name) or _clock_stream(name)

    def find(self, name: str, *, span: Span | None = None) -> Relation:
        """Return the stream, side stream, table or query of this name; NameFault if there is none."""
        relation = self.get(name)
        if relation is None:
            raise NameFault(f"stream, table or query {name!r} does not exist", span=span, hint=self._hint_for(name))
        return relation

    def _hint_for(self, name: str) -> str | None:
        known = self.names()
        if (sink := self.sink(name)) is not None:
            begin = "'scan.startup.mode' = 'earliest-offset' in WITH makes it a stream"
            read = f"write CREATE STREAM {sink.name}_in (...) FROM KIND (options) to read what is there"
            is_topic = sink.schema is not None and sink.connector.kind == "KAFKA"
            return f"{sink.name} is a sink, which INSERT INTO writes; {begin if is_topic else read}"
        if "." in name and (sides := self._side_names()):
            last = name.rpartition(".")[2]
            one_catalog = f"write {last}: all names are in one catalog" if last in known else None
            otherwise = one_catalog or f"side streams are {', '.join(sides)}"
            return did_you_mean(name, [*known, *sides], otherwise=otherwise)
        otherwise = f"there are {', '.join(known)}" if known else "create it first with CREATE STREAM"
        return did_you_mean(name, known, otherwise=otherwise)

    def _side_names(self) -> list[str]:
        """Return the names of all side streams that can be read."""
        of_streams = [side(stream.name) for stream in self.streams() for side in (late_stream, bad_stream)]
        of_queries = [late_stream(query.name) for query in self.queries() if references(query.text).is_paced]
        return [SHED.name, *of_streams, *of_queries, *(failed_stream(rule.name) for rule in self.rules())]

    def aggregate(self, name: str) -> Aggregate | None:
        """Return the user-defined aggregate of this name, if there is one."""
        return self._aggregates.get(name.lower())

    def function(self, name: str) -> Function | None:
        """Return the user-defined scalar function of this name, if there is one."""
        return self._functions.get(name.lower())

    def functions(self) -> list[Function]:
        return list(self._functions.values())

    def rule(self, name: str, *, span: Span | None = None) -> Rule:
        """Return the rule of this name."""
        definition = self._rules.get(name.lower())
        if definition is None:
            known = [rule.name for rule in self.rules()]
            raise NameFault(
                f"rule {name!r} does not exist",
                span=span,
                hint=did_you_mean(name, known, otherwise="create it first with CREATE RULE"),
            )
        return definition

    def has_rule(self, name: str) -> bool:
        return name.lower() in self._rules

    def sink(self, name: str) -> Sink | None:
        """Return the named sink, if there is one."""
        return self._sinks.get(name.lower())

    def add(self, definition: Definition, *, span: Span | None = None) -> None:
        """Take in a new definition; its name must be free."""
        taken = self._taken(definition)
        if taken is not None:
            raise NameFault(
                f"{definition.name!r} is already a {_kind(taken)}",
                span=span,
                hint="choose another name, DROP it first, or write CREATE OR REPLACE",
            )
        self.replace(definition, span=span)

    def replace(self, definition: Definition, *, span: Span | None = None) -> None:
        """Take in a definition, in place of one of the same name; its columns must stay if something reads it."""
        key = definition.name.lower()
        other = self._taken(definition)
        if other is not None and isinstance(other, Rule) != isinstance(definition, Rule):
            raise NameFault(
                f"{definition.name!r} is already a {_kind(other)}",
                span=span,
                hint="choose another name, or DROP it first",
            )
        if isinstance(definition, Rule):
            self._rules[key] = definition
            return
        if isinstance(definition, Sink):
            self._sinks[key] = definition
            return
        before: Relation | Aggregate | Function | None
        match definition:
            case Aggregate():
                before = self._aggregates.get(key)
            case Function():
                before = self._functions.get(key)
            case _:
                before = self._relations.get(key)
        if before is not None and _promise(before) != _promise(definition):
            is_called = isinstance(definition, Aggregate | Function)
            readers = self.callers(key) if is_called else self.readers(key)
            if readers:
                what = "types" if is_called else "marks" if _marks(before) != _marks(definition) else "columns"
                raise NameFault(
                    f"the {what} of {before.name!r} cannot change: "
                    f"it is {'called' if is_called else 'read'} by {', '.join(readers)}",
                    span=span,
                    hint=self._first(readers[0]),
                )
        if isinstance(definition, Query) and key in self._reached(definition):
            raise NameFault(f"query {definition.name!r} would read itself", span=span, hint="give it another name")
        if isinstance(definition, Aggregate):
            self._aggregates[key] = definition
        elif isinstance(definition, Function):
            self._functions[key] = definition
        else:
            self._relations[key] = definition

    def remove(self, name: str, kind: str | None = None, *, span: Span | None = None) -> Definition:
        """Forget a definition that no query reads; `kind` (stream, table, query, aggregate ...) must fit if given."""
        definition = self._of_kind(name, None if kind is None else kind.lower(), span)
        readers = self._readers_of(definition)
        if readers:
            raise NameFault(
                f"{_kind(definition)} {definition.name!r} cannot be dropped: it is used by {', '.join(readers)}",
                span=span,
                hint=self._first(readers[0]),
            )
        del self._shelf(definition)[name.lower()]
        return definition

    def _of_kind(self, name: str, kind: str | None, span: Span | None) -> Definition:
        """Return the definition of this name and kind; without a kind the stream, table or query."""
        shelves: dict[str | None, Mapping[str, Definition]] = {
            "aggregate": self._aggregates,
            "function": self._functions,
            "rule": self._rules,
            "sink": self._sinks,
        }
        definition = shelves.get(kind, self._relations).get(name.lower())
        if definition is None or (kind is not None and _kind(definition) != kind):
            known = [other.name for other in self if kind is None or _kind(other) == kind]
            raise NameFault(
                f"{kind or 'definition'} {name!r} does not exist",
                span=span,
                hint=did_you_mean(name, known, otherwise=_other_kind(definition)),
            )
        return definition

    def _readers_of(self, definition: Definition) -> list[str]:
        """Return the queries and rules that could not run without a definition."""
        match definition:
            case Aggregate(name=name) | Function(name=name):
                return self.callers(name)
            case Sink(name=name):
                return [rule.name for rule in self.rules() if name in rule.parts]
            case Rule(name=name):
                failed = failed_stream(name.lower())
                queries = [query.name for query in self.queries() if failed in references(query.text).relations]
                return queries + [rule.name for rule in self.rules() if rule.event.lower() == failed]
            case Stream(name=name) | Table(name=name) | Query(name=name):
                return self.readers(name) + [rule.name for rule in self.rules() if name in rule.turns]

    def _first(self, reader: str) -> str:
        kind = "RULE" if self.has_rule(reader) else "TABLE" if isinstance(self.get(reader), Table) else "QUERY"
        return f"first DROP {kind} {reader}"

    def readers(self, name: str) -> list[str]:
        """Return the queries and rules that name this stream, table or query directly."""
        key = name.lower()
        sides = {key, bad_stream(key), late_stream(key), failed_stream(key)}
        queries = [
            query.name
            for query in self.queries()
            if sides & (references(query.text).relations | {watched.lower() for watched in query.watched})
        ]
        rules = [
            rule.name for rule in self.rules() if rule.event.lower() in sides or key in map(str.lower, rule.raises)
        ]
        tables = [table.name for table in self.tables() if table.origin is not None and table.origin.lower() in sides]
        return queries + tables + [name for name in rules if name.lower() != key]

    def sources(self, name: str) -> set[str]:
        """Return the names that a relation depends on, also through rules that raise events, in lower case.

        The relation itself is one of them.
        """
        reached: set[str] = set()
        pending = [name.lower()]
        while pending:
            key = pending.pop()
            if key in reached:
                continue
            reached.add(key)
            pending += _read_by(self._relations.get(key))
            pending += [rule.event.lower() for rule in self.rules() if key in map(str.lower, rule.raises)]
        return reached

    def queries_in(self, relations: Iterable[str]) -> list[str]:
        """Return the queries, other than views, of which a SELECT over these relations consists."""
        queries: dict[str, str] = {}
        pending, reached = [name.lower() for name in relations], set[str]()
        while pending:
            key = pending.pop()
            relation = self._relations.get(key)
            if key not in reached:
                pending += _read_by(relation)
                if isinstance(relation, Query) and not relation.is_view:
                    queries[key] = relation.name
            reached.add(key)
        return list(queries.values())

    def callers(self, name: str) -> list[str]:
        """Return the queries that call this aggregate or function."""
        return [query.name for query in self.queries() if name.lower() in references(query.text).functions]

    def streams(self) -> list[Stream]:
        return self._of(Stream)

    def tables(self) -> list[Table]:
        return self._of(Table)

    def queries(self) -> list[Query]:
        return self._of(Query)

    def aggregates(self) -> list[Aggregate]:
        return list(self._aggregates.values())

    def rules(self) -> list[Rule]:
        return list(self._rules.values())

    def names(self) -> list[str]:
        """Return the names of all streams, tables and queries, as written."""
        return [relation.name for relation in self._relations.values()]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[Definition]:
        yield from self._relations.values()
        yield from self._aggregates.values()
        yield from self._functions.values()
        yield from self._rules.values()
        yield from self._sinks.values()

    def _of(self, kind: type[_D]) -> list[_D]:
        return [relation for relation in self._relations.values() if isinstance(relation, kind)]

    def _reached(self, query: Query) -> set[str]:
        """Return the names that a query reads, directly or through other queries."""
        reached: set[str] = set()
        pending: list[Relation | None] = [query]
        while pending:
            for name in _read_by(pending.pop()) - reached:
                reached.add(name)
                pending.append(self.get(name))
        return reached

    def _taken(self, definition: Definition) -> Definition | None:
        """Return the definition that already has the name of this one."""
        key = definition.name.lower()
        match definition:
            case Aggregate() | Function():
                return self._aggregates.get(key) or self._functions.get(key)
            case Sink():
                return self._sinks.get(key)
            case Rule():
                return self._rules.get(key) or self._relations.get(key)
            case Stream() | Table() | Query():
                return self._relations.get(key) or self._rules.get(key)

    def _shelf(
        self, definition: Definition
    ) -> dict[str, Aggregate] | dict[str, Function] | dict[str, Relation] | dict[str, Rule] | dict[str, Sink]:
        match definition:
            case Aggregate():
                return self._aggregates
            case Function():
                return self._functions
            case Sink():
                return self._sinks
            case Rule():
                return self._rules
            case Stream() | Table() | Query():
                return self._relations

    def _side_stream(self, name: str) -> Stream | Query | None:
        if name.lower() == SHED.name:
            return SHED
        parts = side_stream(name)
        if parts is None:
            return None
        if parts.side is Side.FAILED:
            rule = self._rules.get(parts.base.lower())
            if rule is not None:
                return Stream(failed_stream(rule.name), FAILED, Connector(FAILURES, {}), Timing.INTERNAL)
            query = self._relations.get(parts.base.lower())
            if isinstance(query, Query) and not query.is_view:
                return Stream(failed_stream(query.name), FAILED, Connector(FAILURES, {}), Timing.INTERNAL)
            return None
        base = self._relations.get(parts.base.lower())
        if isinstance(base, Query) and parts.side is Side.LATE and references(base.text).is_paced:
            return changed(base, name=late_stream(base.name), sinks=())
        if not isinstance(base, Stream):
            return None
        return changed(
            base,
            name=SideStream(base.name, parts.side).name,
            schema=BAD if parts.side is Side.BAD else base.schema,
            timing=Timing.INTERNAL,
            time_column=None,
            skew=0,
            ahead=None,
            behind=False,
            **({} if parts.side is Side.LATE else {"mark": None, "delimited": ()}),
        )


def _clock_stream(name: str) -> Stream | None:
    """Return the stream that AT '...' stands for."""
    times = times_named(name)
    if times is None:
        return None
    return Stream(name, Schema.of(at=Type.TIMESTAMP), Connector(CLOCK, {"at": times}), Timing.EXTERNAL, "at")


def _promise(definition: Relation | Aggregate | Function) -> object:
    """Return what readers of a definition rely on."""
    if isinstance(definition, Aggregate):
        return definition.arg, tuple(param.type for param in definition.params), definition.result
    if isinstance(definition, Function):
        return definition.args, definition.result
    return definition.key if isinstance(definition, Table) else None, definition.schema, _marks(definition)


def _marks(definition: Relation | Aggregate | Function) -> object:
    """Return which records of a stream are no tuples, and what they are about."""
    return (definition.mark, definition.delimited) if isinstance(definition, Stream) else None


def _read_by(relation: Relation | None) -> frozenset[str]:
    """Return the names that a relation reads, in lower case."""
    match relation:
        case Query(text=text):
            return references(text).relations
        case Table(origin=str() as origin):
            return frozenset({origin.lower()})
        case _:
            return frozenset()


def _kind(definition: Definition) -> str:
    return type(definition).__name__.lower()


def _other_kind(definition: Definition | None) -> str | None:
    return (
        None
        if definition is None
        else f"{definition.name!r} is a {_kind(definition)}: write DROP {_kind(definition).upper()} {definition.name}"
    )
