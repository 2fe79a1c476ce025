"""Random queries whose tuples come one by one, at their times, on the local host; and what the oracle says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import HealthCheck, Phase, note, settings

from headrace.catalog.catalog import Catalog
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.plan.binding.binder import bind
from headrace.session import Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.strategies.queries import STREAMS, TABLE_ROWS, stream_statements
from headrace.testing.streams import page
from headrace.worker.ingest import PAGE_TUPLES

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
_SCHEMAS = {stream.name: stream.schema for stream in STREAMS}

Histories: TypeAlias = Mapping[str, Sequence[Row]]
#: When a tuple comes, of which stream, and the tuple: it comes after all before it in its stream.
Arrival: TypeAlias = tuple[int, str, Row]


def examples(count: int) -> settings:
    """Return the settings of a property that runs sessions."""
    return settings(
        deadline=None,
        max_examples=count,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )


def until(run: Callable[[], None], has_shown: Callable[[], bool]) -> None:
    """Run a property, and again with other examples if chance gave none that shows anything."""
    for _ in range(6):
        run()
        if has_shown():
            return
    raise AssertionError("no example has shown anything")


def expected_of(text: str, histories: Histories, catalog: Catalog = CATALOG) -> Counter[object]:
    """Return what the oracle says that a query gives."""
    return as_multiset(expected_rows(text, histories, catalog))


def expected_rows(text: str, histories: Histories, catalog: Catalog = CATALOG) -> Sequence[Row]:
    """Return the rows that the oracle says that a query gives."""
    note(text)
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return answer(bind(statement.select, statement.text, catalog), histories, TABLE_ROWS)


def check_agreement(results: Sequence[Row], expected: Counter[object], label: str = "") -> None:
    """Check that results are those that are expected."""
    found = as_multiset(results)
    assert found == expected, f"{label}missing {dict(expected - found)}, too many {dict(found - expected)}"


@dataclass
class Live:
    """A query that runs, the tuples that are to come, and its results so far."""

    session: Session
    deployment: LocalDeployment
    arrivals: Sequence[Arrival]
    results: list[Row] = field(default_factory=list)
    shed: list[Row] = field(default_factory=list)

    def push(self, arrival: Arrival) -> None:
        """Let a tuple come at its time."""
        time, name, row = arrival
        clock = self.deployment.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(max(0, time - clock.now()))
        self.session.push(name, page(_SCHEMAS[name], [row]).visible().to_dicts())

    def arrive(self, arrival: Arrival) -> None:
        """Let a tuple come at its time, in a micro-batch of its own; note it if it is shed."""
        self.push(arrival)
        self.deployment.step()
        lost = self.session.statistics().queries["live"].shed - len(self.shed)
        assert lost in (0, 1), f"{lost} tuples of one are shed"
        self.shed += [arrival[2]] * lost

    def kept(self, histories: Histories) -> Histories:
        """Return the tuples that were not shed."""
        return {name: [row for row in rows if not any(row is lost for lost in self.shed)]
                for name, rows in histories.items()}  # fmt: skip

    def take(self, batch: int, pages: Sequence[Page]) -> None:
        """Keep results with their timestamps."""
        self.results.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))


@contextmanager
def live(
    text: str,
    histories: Histories,
    buckets: int,
    *,
    setup: str = "",
    options: str = "",
    size: int = PAGE_TUPLES,
    forgetful: bool = False,
) -> Iterator[Live]:
    """Run a query as `live` on the streams of `strategies.queries`; `setup` has statements that come before it."""
    arrivals = arrivals_of(histories)
    with Session(host="local", buckets=buckets, page=size) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = VirtualClock(arrivals[0][0] if arrivals else 0)
        session.deployment.forgetful = forgetful
        session.execute(f"{stream_statements()}; {setup}")
        run = Live(session, session.deployment, arrivals)
        (started,) = session.execute(f"CREATE QUERY live {options} AS {text} INTO MEMORY")
        assert isinstance(started, Started)
        session.deployment.delivery.subscribers.setdefault(started.query, []).append(run.take)
        yield run


def arrivals_of(histories: Histories) -> list[Arrival]:
    """Return the tuples of all streams in the order in which they come."""
    arrivals: list[Arrival] = []
    for name, rows in histories.items():
        newest = -(2**62)
        for row in rows:
            newest = max(newest, row.ts)
            arrivals.append((newest, name, row))
    return sorted(arrivals, key=lambda arrival: arrival[:2])
