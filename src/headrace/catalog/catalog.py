"""Definitions by name.

Streams, tables and queries share one set of names, aggregates have their own. Look-up ignores case; the written name is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from msgspec.structs import replace as changed

from headrace.catalog.definitions import BAD, SHED, Aggregate, Definition, Query, Stream, Table, Timing
from headrace.catalog.references import references
from headrace.errors import NameFault, Span
from headrace.language.names import did_you_mean

Relation: TypeAlias = Stream | Table | Query
_D = TypeVar("_D", Stream, Table, Query)


class Catalog:
    """What a session knows by name."""

    def __init__(self) -> None:
        self._relations: dict[str, Relation] = {}
        self._aggregates: dict[str, Aggregate] = {}

    def get(self, name: str) -> Relation | None:
        """The stream, side stream, table or query of this name, if there is one."""
        return self._relations.get(name.lower()) or self._side_stream(name)

    def find(self, name: str, *, span: Span | None = None) -> Relation:
        """The stream, side stream, table or query of this name."""
        found = self.get(name)
        if found is None:
            known = self.names()
            otherwise = f"known are {', '.join(known)}" if known else "create it first with CREATE STREAM"
            sides = [SHED.name, *(f"{stream.name}.{side}" for stream in self.streams() for side in ("late", "bad"))] if "." in name else []
            sides += [f"{query.name}.late" for query in self.queries() if "." in name and references(query.text).is_paced]
            raise NameFault(f"no stream, table or query {name!r}", span=span, hint=did_you_mean(name, [*known, *sides], otherwise=otherwise))
        return found

    def aggregate(self, name: str) -> Aggregate | None:
        """The user-defined aggregate of this name, if there is one."""
        return self._aggregates.get(name.lower())

    def add(self, definition: Definition, *, span: Span | None = None) -> None:
        """Take in a new definition; its name must be free."""
        taken = self._shelf(definition).get(definition.name.lower())
        if taken is not None:
            raise NameFault(
                f"{definition.name!r} is already a {_kind(taken)}", span=span, hint="choose another name, DROP it first, or CREATE OR REPLACE"
            )
        self.replace(definition, span=span)

    def replace(self, definition: Definition, *, span: Span | None = None) -> None:
        """Take in a definition in place of the one of the same name, if there is one; for those who read it, its columns must stay."""
        key = definition.name.lower()
        before = self._shelf(definition).get(key)
        if before is not None and _promise(before) != _promise(definition):
            readers = self.callers(key) if isinstance(definition, Aggregate) else self.readers(key)
            if readers:
                raise NameFault(
                    f"{before.name!r} is read by {', '.join(readers)}, so its columns must stay", span=span, hint=f"first DROP QUERY {readers[0]}"
                )
        if isinstance(definition, Query) and key in self._reached(definition):
            raise NameFault(f"query {definition.name!r} would read itself", span=span, hint="give it another name")
        if isinstance(definition, Aggregate):
            self._aggregates[key] = definition
        else:
            self._relations[key] = definition

    def remove(self, name: str, kind: str | None = None, *, span: Span | None = None) -> Definition:
        """Forget a definition that no query reads; `kind` (stream, table, query, aggregate) must fit if given."""
        wanted = None if kind is None else kind.lower()
        found: Definition | None = self._aggregates.get(name.lower()) if wanted == "aggregate" else self._relations.get(name.lower())
        if found is None or (wanted is not None and _kind(found) != wanted):
            known = [each.name for each in self if wanted is None or _kind(each) == wanted]
            raise NameFault(f"no {wanted or 'definition'} {name!r}", span=span, hint=did_you_mean(name, known, otherwise=_other_kind(found)))
        readers = self.callers(name) if isinstance(found, Aggregate) else self.readers(name)
        if readers:
            raise NameFault(f"{found.name!r} is read by {', '.join(readers)}", span=span, hint=f"first DROP QUERY {readers[0]}")
        if isinstance(found, Aggregate):
            del self._aggregates[name.lower()]
        else:
            del self._relations[name.lower()]
        return found

    def readers(self, name: str) -> list[str]:
        """The queries that name this stream, table or query directly."""
        key = name.lower()
        sides = {key, f"{key}.bad", f"{key}.late"}
        return [query.name for query in self.queries() if sides & (references(query.text).relations | {each.lower() for each in query.watched})]

    def callers(self, name: str) -> list[str]:
        """The queries that call this aggregate."""
        return [query.name for query in self.queries() if name.lower() in references(query.text).functions]

    def streams(self) -> list[Stream]:
        return self._of(Stream)

    def tables(self) -> list[Table]:
        return self._of(Table)

    def queries(self) -> list[Query]:
        return self._of(Query)

    def aggregates(self) -> list[Aggregate]:
        return list(self._aggregates.values())

    def names(self) -> list[str]:
        """The names of all streams, tables and queries, as written."""
        return [relation.name for relation in self._relations.values()]

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[Definition]:
        yield from self._relations.values()
        yield from self._aggregates.values()

    def _of(self, kind: type[_D]) -> list[_D]:
        return [relation for relation in self._relations.values() if isinstance(relation, kind)]

    def _reached(self, query: Query) -> set[str]:
        """The names that a query reads, directly or through other queries."""
        reached: set[str] = set()
        pending = [query]
        while pending:
            for name in references(pending.pop().text).relations - reached:
                reached.add(name)
                found = self.get(name)
                if isinstance(found, Query):
                    pending.append(found)
        return reached

    def _shelf(self, definition: Definition) -> dict[str, Aggregate] | dict[str, Relation]:
        return self._aggregates if isinstance(definition, Aggregate) else self._relations

    def _side_stream(self, name: str) -> Stream | Query | None:
        base, _, side = name.rpartition(".")
        stream = self._relations.get(base.lower())
        if isinstance(stream, Query) and side.lower() == "late" and references(stream.text).is_paced:
            return changed(stream, name=f"{stream.name}.late", sinks=())
        if name.lower() == SHED.name:
            return SHED
        if not isinstance(stream, Stream) or side.lower() not in ("bad", "late"):
            return None
        schema = BAD if side.lower() == "bad" else stream.schema
        return changed(stream, name=f"{stream.name}.{side.lower()}", schema=schema, timing=Timing.INTERNAL, time_column=None, skew=0)


def _promise(definition: Definition) -> object:
    """What readers of a definition rely on."""
    if isinstance(definition, Aggregate):
        return definition.arg, definition.result
    return isinstance(definition, Table), definition.schema


def _kind(definition: Definition) -> str:
    return type(definition).__name__.lower()


def _other_kind(found: Definition | None) -> str | None:
    return None if found is None else f"{found.name!r} is a {_kind(found)}: write DROP {_kind(found).upper()} {found.name}"
