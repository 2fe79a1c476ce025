"""Every event operator in every mode gives what its definition gives over the whole history."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.graph.losses import creates_by_loss
from headrace.model.events.event import (
    PREVIOUS,
    Absent,
    Alias,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Context,
    Event,
    Mode,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Repetition,
    Retention,
    Sequence,
    Times,
    Within,
    constituents,
    operands,
    primitives,
)
from headrace.model.events.output import Aggregated, Count, Output, Pick, Started
from headrace.model.expressions.expression import Call, Cast, Column, Expr, Literal
from headrace.model.page import Element, Page, Punctuation, page_of
from headrace.model.schema import Schema
from headrace.model.time import END
from headrace.model.types import ArrayType, Type
from headrace.model.window import AggregateCall
from headrace.operators.capabilities import held_by
from headrace.operators.events.chain import is_chain
from headrace.operators.events.detect import Detect
from headrace.operators.events.filled import is_filled
from headrace.operators.operator import Operator
from headrace.testing.oracle.events import detections
from headrace.testing.oracle.occurrences import Occurrence
from headrace.testing.oracle.rows import Row
from headrace.testing.oracle.rows import rows_of as rows_of_page

pytestmark = pytest.mark.slow

SCHEMA = Schema.of(id=Type.BIGINT, k=Type.BIGINT, v=Type.BIGINT, since=Type.TIMESTAMP)
LAST = 14  # of the instants of a history
UNTIL = 20
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "5"))
NAMES = "abcdef"

Tuples = list[tuple[int, int, int | None, int]]  # port, instant, k, v

LINK = Call(
    "<>",
    (Column("v", Type.BIGINT), Column(f"{PREVIOUS}v", Type.BIGINT)),
    Type.BOOLEAN,
)
SHAPES: dict[str, Any] = {
    "or": lambda a, b, c, n: Or(a, b),
    "and": lambda a, b, c, n: And(a, b),
    "sequence": lambda a, b, c, n: Sequence(a, b),
    "not": lambda a, b, c, n: Not(b, a, c),
    "absent": lambda a, b, c, n: Absent(b, a, n),
    "any": lambda a, b, c, n: AnyOf(2, (a, b, c)),
    "all": lambda a, b, c, n: AnyOf(3, (a, b, c)),
    "times": lambda a, b, c, n: Times(1 + n % 3, a),
    "aperiodic": lambda a, b, c, n: Aperiodic(a, b, c),
    "aperiodic star": lambda a, b, c, n: AperiodicStar(a, b, c),
    "repetition": lambda a, b, c, n: Repetition(a, (b,), ((n % 3, None if n % 2 else n % 3 + 1),), c),
    "repetition in order": lambda a, b, c, n: Repetition(None, (a, b), ((n % 2, None), (0, n % 3 + 1)), c),
    "linked repetition": lambda a, b, c, n: Repetition(a if n % 2 else None, (b,), ((n % 3, None),), c, ((LINK,),)),
    "periodic": lambda a, b, c, n: Periodic(a, n, c),
    "periodic star": lambda a, b, c, n: PeriodicStar(a, n, c),
    "plus": lambda a, b, c, n: Plus(a, n),
}


@st.composite
def histories(draw: st.DrawFn, ports: int, most: int = 14) -> Tuples:
    one = st.tuples(st.integers(0, ports - 1), st.integers(0, LAST), st.none() | st.integers(0, 1), st.integers(0, 3))
    return draw(st.lists(one, max_size=most))


@st.composite
def leaves(draw: st.DrawFn) -> list[Primitive]:
    """Six primitive events, some of them with a mask, some of them not only the instants of their tuples."""
    masks = [None, None, "<="]
    starts = [None, None, "since"]
    found = []
    for port, name in enumerate(NAMES):
        mask = draw(st.sampled_from(masks))
        found.append(
            Primitive(
                name, port, None if mask is None else compare(f"{name}.v", mask, 2), draw(st.sampled_from(starts))
            )
        )
    return found


@st.composite
def events(draw: st.DrawFn, shape: str, *, nested: bool) -> Event:
    """An operator over primitive events, or over one that is composed itself, perhaps with a limit."""
    parts: list[Event] = list(draw(leaves()))
    a, b, c = parts[:3]
    if nested:
        inner = SHAPES[draw(st.sampled_from(sorted(SHAPES)))](parts[3], parts[4], parts[5], draw(st.integers(1, 6)))
        place = draw(st.integers(0, 2))
        a, b, c = [inner if i == place else part for i, part in enumerate((a, b, c))]
    made: Event = SHAPES[shape](a, b, c, draw(st.integers(1, 6)))
    return Within(made, draw(st.integers(0, 8))) if draw(st.booleans()) else made


@st.composite
def contexts(draw: st.DrawFn, mode: Mode, event: Event) -> Context:
    names = [part.name for part in primitives(event)]
    retentions = []
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        # a number of what waits is a statement about the history only if nothing is used up
        keeps = (
            st.none() | st.integers(1, 2) if mode in (Mode.RECENT, Mode.UNRESTRICTED) and plain(event) else st.none()
        )
        by = draw(st.sampled_from([(), ("k",)])) if plain(event) else ()
        retentions.append(
            Retention(name, by, draw(keeps), draw(st.none() | st.integers(0, 6)) if plain(event) else None)
        )
    return Context(mode, tuple(retentions), point=draw(st.booleans()))


@st.composite
def conditions(draw: st.DrawFn, event: Event) -> tuple[Expr, ...]:
    names = [part.name for part in primitives(event)]
    if len(names) < 2 or isinstance(event.event if isinstance(event, Within) else event, Aperiodic):
        return ()
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda pair: pair[0] != pair[1]),
            max_size=1,
        )
    )
    operator = draw(st.sampled_from(["=", "<", "<>"]))
    return tuple(
        Call(operator, (Column(f"{a}.v", Type.BIGINT), Column(f"{b}.v", Type.BIGINT)), Type.BOOLEAN) for a, b in pairs
    )


def plain(event: Event) -> bool:
    """Return whether retention is as defined: SEQUENCE, AND, and between a start and an end, except for A*."""
    inner = event.event if isinstance(event, Within) else event
    return isinstance(inner, Sequence | And | Not | Absent | Aperiodic | Periodic | PeriodicStar)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("shape", sorted(SHAPES))
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_an_operator_gives_what_its_definition_gives(mode: Mode, shape: str, data: st.DataObject) -> None:
    event = data.draw(events(shape, nested=False))
    check(
        event,
        data.draw(contexts(mode, event)),
        data.draw(conditions(event)),
        data.draw(histories(3)),
        data.draw(st.booleans()),
    )


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("shape", sorted(SHAPES))
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_operators_nest(mode: Mode, shape: str, data: st.DataObject) -> None:
    event = data.draw(events(shape, nested=True))
    check(event, Context(mode, point=data.draw(st.booleans())), (), data.draw(histories(6)), data.draw(st.booleans()))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("shape", ["and", "sequence", "not", "absent", "aperiodic", "periodic", "periodic star"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_composite_operands_are_kept_as_the_context_says(mode: Mode, shape: str, data: st.DataObject) -> None:
    """By a column of a constituent, by number and by age; the operand is composed itself and has an alias."""
    a, b, c, d, e, _ = data.draw(leaves())
    inner = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))](c, d, e, data.draw(st.integers(1, 6)))
    event = SHAPES[shape](Alias(inner, "x"), a, b, data.draw(st.integers(1, 6)))
    event = Within(event, data.draw(st.integers(0, 8))) if data.draw(st.booleans()) else event
    column = f"{data.draw(st.sampled_from([part.name for part in constituents(inner)]))}.v"
    keep = data.draw(st.none() | st.integers(1, 2)) if mode in (Mode.RECENT, Mode.UNRESTRICTED) else None
    kept = Retention("x", data.draw(st.sampled_from([(), (column,)])), keep, data.draw(st.none() | st.integers(0, 6)))
    check(event, Context(mode, (kept,)), (), data.draw(histories(5)), data.draw(st.booleans()))


@pytest.mark.parametrize("mode", [Mode.UNRESTRICTED, Mode.RECENT])
@pytest.mark.parametrize("shape", sorted(SHAPES))
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_an_event_that_is_shed_has_no_occurrence_that_it_would_not_have_otherwise(
    mode: Mode, shape: str, data: st.DataObject
) -> None:
    """In the other modes nothing is shed before an event."""
    event = data.draw(events(shape, nested=data.draw(st.booleans())))
    names = [part.name for part in primitives(event)]
    outputs: list[Output] = [
        output for name in names for output in (Pick(f"{name}.id", name, "id"), Count(f"{name}.n", name))
    ]
    ports = len(NAMES)
    context, terms = data.draw(contexts(mode, event)), data.draw(conditions(event))
    spec = Detect(event, context, (SCHEMA,) * ports, ((),) * ports, terms, (*outputs, Started("began")))
    elements = script(data.draw(histories(ports, 20)), ports)
    lost = data.draw(st.sets(st.integers(0, len(elements) - 1)))
    remaining = [
        (port, element)
        for place, (port, element) in enumerate(elements)
        if place not in lost or not isinstance(element, Page) or creates_by_loss(spec, port)
    ]
    assert results(spec, remaining, END, restart=-1) <= results(spec, elements, END, restart=-1)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.CUMULATIVE])
@settings(max_examples=max(60, EXAMPLES), deadline=None)
@given(data=st.data())
def test_a_chain_on_columns_gives_what_its_definition_gives(mode: Mode, data: st.DataObject) -> None:
    a, b, c = (
        replace(part, start=part.start if place == 0 else None) for place, part in enumerate(data.draw(leaves())[:3])
    )
    first: Event = Sequence(a, b)
    first = Within(first, data.draw(st.integers(0, 8))) if data.draw(st.booleans()) else first
    event: Event = Sequence(first, c) if data.draw(st.booleans()) else first
    event = Within(event, data.draw(st.integers(0, 8))) if data.draw(st.booleans()) else event
    texts = data.draw(st.booleans())
    spec = check(
        event,
        Context(mode),
        data.draw(conditions(event)),
        data.draw(histories(3, 20)),
        data.draw(st.booleans()),
        texts=texts,
    )
    assert is_chain(spec)


@pytest.mark.parametrize("mode", [Mode.RECENT, Mode.PROXIMAL, Mode.CONTINUOUS])
@settings(max_examples=max(60, EXAMPLES), deadline=None)
@given(data=st.data())
def test_a_repetition_on_columns_gives_what_its_definition_gives(mode: Mode, data: st.DataObject) -> None:
    a, b, c = (replace(part, start=None) for part in data.draw(leaves())[:3])
    least = data.draw(st.integers(0, 2))
    most = data.draw(st.none() | st.integers(max(1, least), 4))
    event = Within(Repetition(a, (b,), ((least, most),), c), data.draw(st.integers(0, 10)))
    texts = data.draw(st.booleans())
    spec = check(event, Context(mode), (), data.draw(histories(3, 24)), data.draw(st.booleans()), texts=texts)
    assert is_filled(spec)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"linked repetition"}))  # what is named has no v
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_an_event_with_a_name_within_another_is_what_its_expression_is_in_its_place(
    mode: Mode, shape: str, data: st.DataObject
) -> None:
    context, span = Context(mode, point=data.draw(st.booleans())), data.draw(st.integers(1, 6))
    inner: Event = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))](
        *(Primitive(name, NAMES.index(name)) for name in "def"), span
    )
    limit, more = data.draw(st.none() | st.integers(0, 8)), data.draw(st.none() | st.integers(0, 8))
    inner = inner if limit is None else Within(inner, limit)
    place = data.draw(st.integers(0, 2))

    def around(part: Event) -> Event:
        parts = [part if i == place else Primitive(name, i) for i, name in enumerate("abc")]
        made: Event = SHAPES[shape](*parts, span)
        # a shorter WITHIN around the whole would hold inside as well, of which a name knows nothing
        return made if limit is None or more is None else Within(made, limit + more)

    tuples = [(port, ts, None, 0) for port, ts, *_ in data.draw(histories(6))]
    ends: list[tuple[int, Element]] = [(port, Punctuation(UNTIL)) for port in range(len(NAMES))]
    pages = [(port, page_of(SCHEMA, [{"id": number}], [ts])) for number, (port, ts, *_) in enumerate(tuples)]
    whole, outer = around(inner), around(Primitive("x", 3, start="began"))
    # of several the newest is shown, which is not that of the newest
    single = (
        mode is not Mode.CUMULATIVE
        and shape not in ("times", "aperiodic star", "repetition", "repetition in order")
        and any(part.name == "x" for part in primitives(outer))
    )
    inside = [part.name for part in primitives(inner)] if single else []
    first = detection(inner, context, (SCHEMA,) * len(NAMES), *(Pick(name, name, "id") for name in inside))
    found = [(3, page) for page in emitted(first, [*pages, *ends])]
    second = detection(
        outer, context, (*(SCHEMA,) * 3, *(first.schema,) * 3), *(Pick(name, "x", name) for name in inside)
    )
    named = emitted(second, [*(each for each in pages if each[0] < 3), *found, *ends])
    written = detection(whole, context, (SCHEMA,) * len(NAMES), *(Pick(name, name, "id") for name in inside))
    assert told(named) == told(emitted(written, [*pages, *ends]))


def detection(event: Event, context: Context, schemas: tuple[Schema, ...], *more: Output) -> Detect:
    """Without keys and conditions, showing when it began and which and how many tuples of a, b and c it has."""
    names = [part.name for part in primitives(event) if part.name in "abc"]
    outputs: list[Output] = [output for name in names for output in (Pick(name, name, "id"), Count(f"{name}s", name))]
    return Detect(event, context, schemas, ((),) * len(schemas), (), (*outputs, *more, Started("began")))


def emitted(spec: Detect, elements: list[tuple[int, Element]]) -> list[Page]:
    operator = spec.build()
    found: list[Page] = []
    for port, element in elements:
        out = operator.on_element(port, element)
        found += [each for each in out if isinstance(each, Page)]
    return found


def told(pages: list[Page]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items())) for page in pages for row in page.rows.iter_rows(named=True))


def check(
    event: Event, context: Context, terms: tuple[Expr, ...], tuples: Tuples, keyed: bool, *, texts: bool = False
) -> Detect:
    """The operator's results are the oracle's."""
    names = [part.name for part in primitives(event)]
    outputs: list[Output] = [
        output for name in names for output in (Pick(f"{name}.id", name, "id"), Count(f"{name}.n", name))
    ]
    if not is_chain(Detect(event, context, (SCHEMA,) * len(NAMES), ((),) * len(NAMES), terms, tuple(outputs))):
        collect = AggregateCall("all", "collect_list", Column("id", Type.BIGINT), ArrayType(Type.BIGINT))
        outputs += [Aggregated(f"{name}.all", name, replace(collect, name=f"{name}.all")) for name in names]
    key = Column("k", Type.BIGINT)
    keys: tuple[Expr, ...] = (Cast(key, Type.STRING) if texts else key,) if keyed else ()
    ports = len(NAMES)
    spec = Detect(event, context, (SCHEMA,) * ports, (keys,) * ports, terms, (*outputs, Started("began")))
    until = END if ends_by_itself(event) else UNTIL
    found = results(spec, script(tuples, ports), until, restart=len(tuples))
    expected: Counter[Any] = Counter()
    for value in {row[2] for row in tuples} if keyed else {0}:
        if value is None:
            continue  # NULL equals nothing
        mine = {part.name: rows_of(tuples, part.port, value if keyed else None) for part in primitives(event)}
        every = detections(event, context, mine, terms, until=until)
        expected += Counter(visible(one, names, collected=len(outputs) > 2 * len(names)) for one in every)
    assert found == expected
    return spec


def results(spec: Detect, elements: list[tuple[int, Element]], until: int, *, restart: int) -> Counter[Any]:
    """What comes out, the operator being saved and restored once; `test_detect` checks the whole contract."""
    operator: Operator = spec.build()
    found: Counter[Any] = Counter()
    for place, (port, element) in enumerate([*elements, *((port, Punctuation(END)) for port in range(len(NAMES)))]):
        if place == restart:
            held, state = held_by(operator), operator.state()
            operator = spec.build()
            operator.restore(state)
            assert held_by(operator) == held
        for out in operator.on_element(port, element):
            if isinstance(out, Page):
                rows = rows_of_page(out.rows.iter_rows(named=True))
                found.update(
                    (row.ts, *(hashable(row.values[name]) for name in sorted(row.values)))
                    for row in rows
                    if row.ts < until
                )
    return found


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def script(tuples: Tuples, ports: int) -> list[tuple[int, Element]]:
    """Each tuple in a page of its own, the frontier following at its distance."""
    made: list[tuple[int, Element]] = []
    bound = 0
    for number, (port, ts, k, v) in enumerate(tuples):
        made.append((port, page_of(SCHEMA, [{"id": number, "k": k, "v": v, "since": ts - v}], [ts])))
        ahead = min((later[1] for later in tuples[number + 1 :]), default=LAST)
        if ahead > bound:
            bound = ahead
            made += [(each, Punctuation(bound)) for each in range(ports)]
    return [*made, *((port, Punctuation(UNTIL)) for port in range(ports))]


def rows_of(tuples: Tuples, port: int, key: int | None) -> list[Row]:
    numbered = list(enumerate(tuples))
    rows = [
        Row(ts, {"id": number, "k": k, "v": v, "since": ts - v})
        for number, (at, ts, k, v) in numbered
        if at == port and key in (None, k)
    ]
    return sorted(rows, key=lambda row: row.ts)


def visible(one: Occurrence, names: list[str], *, collected: bool) -> tuple[Any, ...]:
    values: dict[str, Any] = {"began": one.begin}
    for name in names:
        newest = one.newest(name)
        values[f"{name}.id"] = None if newest is None else newest.values["id"]
        mine = sorted((row.ts, row.values["id"]) for part, row in one.rows if part == name)
        values[f"{name}.n"] = len(mine)
        if collected:
            values[f"{name}.all"] = tuple(number for _, number in mine)
    return (one.end, *(values[name] for name in sorted(values)))


def ends_by_itself(event: Event) -> bool:
    """Whether nothing ticks for ever."""
    return not isinstance(event, Periodic) and all(map(ends_by_itself, operands(event)))


def compare(name: str, operator: str, value: int) -> Expr:
    return Call(operator, (Column(name, Type.BIGINT), Literal(value, Type.BIGINT)), Type.BOOLEAN)
