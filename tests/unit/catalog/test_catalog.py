"""Definitions by name, and the journal that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_stream
from headrace.catalog.definitions import BAD, Aggregate, Connector, Query, Stream, Table, Timing
from headrace.catalog.journal import Entry, Journal
from headrace.catalog.references import references
from headrace.errors import HostFault, NameFault, TypeFault
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateStream
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.model.types import Type

BIDS = Schema.of(auction=Type.BIGINT, price=Type.DOUBLE, at=Type.TIMESTAMP)
MEMORY = Connector("MEMORY", {})


def query(name: str, text: str) -> Query:
    return Query(name, text, Schema.of(price=Type.DOUBLE), (MEMORY,))


def catalog(*queries: Query) -> Catalog:
    known = Catalog()
    known.add(Stream("Bids", BIDS, MEMORY, Timing.EXTERNAL, "at", SECOND))
    known.add(Table("people", Schema.of(id=Type.INT), MEMORY))
    known.add(Aggregate("geo", Type.DOUBLE, Type.DOUBLE, "means:Geo"))
    for each in queries:
        known.add(each)
    return known


def test_names_are_found_whatever_their_case_and_keep_their_spelling() -> None:
    known = catalog()
    assert known.find("BIDS").name == "Bids"
    assert "bIdS" in known
    assert known.names() == ["Bids", "people"]
    assert [type(each) for each in known] == [Stream, Table, Aggregate]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(NameFault) as caught:
        catalog().find("bidz")
    assert caught.value.hint == "did you mean 'Bids'?"


def test_every_stream_has_side_streams() -> None:
    late, bad = catalog().find("bids.LATE"), catalog().find("bids.bad")
    assert isinstance(late, Stream)
    assert (late.name, late.schema, late.time_column) == ("Bids.late", BIDS, None)
    assert bad.schema == BAD
    assert catalog().get("bids.other") is None
    assert catalog().get("people.late") is None


def test_a_name_is_taken_once_but_may_be_replaced() -> None:
    known = catalog()
    with pytest.raises(NameFault, match="already a stream"):
        known.add(Table("BIDS", Schema.of(id=Type.INT), MEMORY))
    known.replace(Table("BIDS", Schema.of(id=Type.INT), MEMORY))
    assert [table.name for table in known.tables()] == ["BIDS", "people"]
    known.add(Aggregate("people", Type.INT, Type.INT, "means:People"))  # aggregates have names of their own
    assert len(known.aggregates()) == 2


def test_what_a_query_reads_cannot_be_dropped() -> None:
    known = catalog(
        query("q", "SELECT geo(price) FROM bids [NOW]"),
        query("r", "SELECT * FROM q"),
        query("l", "SELECT * FROM bids.late"),
    )
    for name, reader in (("bids", "q, l"), ("q", "r")):
        with pytest.raises(NameFault, match=f"is used by {reader}"):
            known.remove(name)
    with pytest.raises(NameFault, match="is used by q"):
        known.remove("GEO", "aggregate")
    for name, kind in (("r", "QUERY"), ("q", "QUERY"), ("l", None), ("Bids", "STREAM"), ("geo", "AGGREGATE")):
        assert known.remove(name, kind).name.lower() == name.lower()
    assert known.names() == ["people"]


def test_drop_wants_the_right_kind() -> None:
    with pytest.raises(NameFault) as caught:
        catalog().remove("people", "STREAM")
    assert caught.value.hint == "'people' is a table: write DROP TABLE people"


def test_a_query_cannot_come_to_read_itself() -> None:
    known = catalog(query("a", "SELECT * FROM bids"), query("b", "SELECT * FROM a"))
    with pytest.raises(NameFault, match="would read itself"):
        known.replace(query("a", "SELECT * FROM b"))
    assert known.readers("b") == []


def test_references_see_unions_windows_and_sub_queries_but_not_names_of_with() -> None:
    text = (
        "WITH x AS (SELECT * FROM a) SELECT f(y) FROM x, (SELECT * FROM b [WHILE g(z) > 1]) [NOW] AS c, d [NOW] "
        "UNION e.late [NOW]"
    )
    found = references(text)
    assert found.relations == {"a", "b", "d", "e.late"}
    assert found.functions == {"f", "g"}


def test_a_stream_stamped_by_a_column_needs_that_column_as_timestamp() -> None:
    for column, error in (("att", NameFault), ("auction", TypeFault)):
        (statement,) = parse(f"CREATE STREAM s TIMESTAMP BY {column} FROM MEMORY")
        assert isinstance(statement, CreateStream)
        with pytest.raises(error):
            define_stream(statement, BIDS)
    (statement,) = parse("CREATE STREAM s TIMESTAMP BY AT SKEW 1 SECOND FROM MEMORY")
    assert isinstance(statement, CreateStream)
    assert define_stream(statement, BIDS) == Stream("s", BIDS, MEMORY, Timing.EXTERNAL, "at", SECOND)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.text(max_size=30), max_size=4), st.integers(0, 20))
def test_a_journal_gives_back_what_was_appended_even_after_a_torn_write(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], torn: int
) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal") / "deep" / "catalog.jsonl")
    for text in texts:
        journal.append(Entry(text))
    assert journal.read() == [Entry(text) for text in texts]
    journal.append(Entry("lost"))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[: len(whole) - 1 - torn % len(b'{"text":"lost"}')])
    assert journal.read() == [Entry(text) for text in texts]
    journal.append(Entry("kept"))
    assert journal.read() == [Entry(text) for text in [*texts, "kept"]]


def test_a_damaged_journal_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "catalog.jsonl"
    path.write_bytes(b'{"text":"SHOW TABLES"}\nnonsense\n')
    with pytest.raises(HostFault, match="damaged"):
        Journal(path).read()
    assert Journal(tmp_path / "absent").read() == []
