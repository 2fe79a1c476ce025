"""The promises of a query, checked against the streams that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.analysis.forecast.facts import kind_of
from headrace.catalog.definitions import Stream
from headrace.commands.command import AddQuery, SetPromises
from headrace.commands.shedders_in_force import parts_of, share_of_each, unsheddable
from headrace.errors import NameFault, NotSupported, QueryError, Span, TypeFault
from headrace.graph.losses import creating_arcs
from headrace.graph.naming import Names
from headrace.language.names import did_you_mean
from headrace.language.read.options import NONE
from headrace.language.syntax.statements import AlterPromises
from headrace.model.qos import OPTIONS, Metric, Qos, qos_of
from headrace.model.schema import WEIGHT
from headrace.operators.specs import Scan


def promises_of(statement: AlterPromises, query: AddQuery) -> SetPromises:
    """Return the command that changes the promises of a running query; those that are not named stay."""
    given = qos_of({name: value for name, value in statement.options.items() if name != "force" and value != NONE})
    check_promises(given, query.streams, statement.option_spans)
    named = {name: getattr(given, name) for name in OPTIONS if name in statement.options}
    return SetPromises(query.query, msgspec.structs.replace(query.qos, **named))


def unscaled_note(qos: Qos, query: AddQuery) -> str:
    """Return the note that aggregates are not scaled up, for a query that was planned without an error."""
    aggregates = any(kind_of(vertex.spec).endswith("aggregate") for vertex in query.graph)
    weighs = any(isinstance(vertex.spec, Scan) and WEIGHT in vertex.spec.columns for vertex in query.graph)
    if not qos.error or not aggregates or weighs or (qos.shed is not None and qos.shed.attribute is not None):
        return ""
    return "; its aggregates cover what is kept and are not scaled up, because it was created without an error"


def unshed_places(query: AddQuery) -> list[str]:
    """Return the operators, with numbers of inputs, before which nothing is shed since a loss would create results."""
    arcs, vertices, names = creating_arcs(query.graph), query.graph.by_id(), Names(query.graph)
    places = []
    for creator in dict.fromkeys(arcs.values()):
        ports = [port for reader, port in arcs if reader == creator]
        some = 0 < len(ports) < len(vertices[creator].inputs)
        inputs = ", ".join(str(port + 1) for port in ports)
        places.append(f"{names[creator]}, input {inputs}" if some else names[creator])
    return places


def unshed_note(qos: Qos, query: AddQuery) -> str:
    """Return the note that nothing is shed before some operators, for a query that may lose tuples."""
    places = [f"'{place}'" for place in unshed_places(query)] if qos.error else []
    return f"; nothing is shed before {', '.join(places)}, where a loss would create results" if places else ""


def check_promises(qos: Qos, streams: Iterable[Stream], spans: Mapping[str, Span]) -> None:
    """Raise if tuples are to be shed by anything but a number that one of the query's streams has."""
    if qos.shed is None or qos.shed.attribute is None:
        return
    fields = [field for stream in streams for field in stream.schema]
    named = [field for field in fields if field.name.lower() == qos.shed.attribute.lower()]
    if not named:
        hint = did_you_mean(
            qos.shed.attribute,
            [field.name for field in fields],
            otherwise=f"columns are {', '.join(field.name for field in fields)}",
        )
        raise NameFault(
            f"no stream of the query has a column {qos.shed.attribute!r}", span=spans.get("shed"), hint=hint
        )
    if not any(field.type.is_numeric for field in named):
        raise TypeFault(
            f"{named[0].name!r} is {named[0].type.value}, not a number",
            span=spans.get("shed"),
            hint="shed by a number, or RANDOM",
        )


def check_on_demand(qos: Qos, spans: Mapping[str, Span]) -> None:
    """Raise if a query whose results wait until somebody asks promises when they come."""
    measures: tuple[Metric, ...] = ("latency", "throughput", "smoothness")
    for measure in measures:
        if qos.promise(measure) is not None:
            raise NotSupported(
                f"a query on demand cannot promise a {measure}: its results wait until somebody asks",
                span=spans.get(measure),
                hint="leave the promise out, or ON DEMAND",
            )


def check_shed_share(share: float, query: AddQuery, span: Span) -> None:
    """Raise if a share that a user sets is more than the error that the query declares."""
    error = query.qos.error
    if error is None:
        hint = f"declare one first: ALTER QUERY {query.query} SET (error {share:g})"
        raise QueryError(f"{query.query} declares no error, so nothing may be shed for it", span=span, hint=hint)
    creator = unsheddable(query.graph)
    if creator is not None:
        raise QueryError(
            f"nothing can be shed for {query.query}: without some of its tuples, "
            f"'{Names(query.graph)[creator]}' would give results that are not there otherwise",
            span=span,
            hint="shed other queries; docs/promises.md says which operators this is true of",
        )
    parts = parts_of(query.graph, query.output)
    lost = 1.0 - (1.0 - share) ** parts
    if lost > error + 1e-9:
        of_each = "" if parts == 1 else f", the result of a share of {share:g} of each of {parts} inputs"
        hint = (
            f"shed {share_of_each(error, parts):.3g} at most, or first ALTER QUERY {query.query} SET (error {lost:.3g})"
        )
        raise QueryError(f"{query.query} declares an error of {error:g}, not {lost:.3g}{of_each}", span=span, hint=hint)
