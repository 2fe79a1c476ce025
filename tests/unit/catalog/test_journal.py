"""Entries of the journal, as versions before this one wrote them."""

from __future__ import annotations

import msgspec

from headrace.catalog.definitions import Aggregate
from headrace.catalog.journal import Entry
from headrace.model.types import Type


def test_an_aggregate_of_an_earlier_version_is_read() -> None:
    text = '{"text": "CREATE ...", "definition": {"type": "aggregate", "name": "geo", "arg": "DOUBLE", '
    entry = msgspec.json.decode(text + '"result": "DOUBLE", "target": "means:Geo"}}', type=Entry)
    assert entry.definition == Aggregate("geo", Type.DOUBLE, Type.DOUBLE, "means:Geo")
