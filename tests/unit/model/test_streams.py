import pytest

from headrace.model.streams import (
    Side,
    SideStream,
    bad_stream,
    base_stream,
    exchange_of,
    exchange_scan,
    exchange_stream,
    exchange_vertex,
    is_exchange_stream,
    is_system_stream,
    late_stream,
    origin_of_scan,
    side_stream,
)


@pytest.mark.parametrize("side", Side)
def test_a_side_stream_is_found_by_its_name_in_any_case_of_letters(side: Side) -> None:
    stream = SideStream("bids", side)
    assert side_stream(stream.name) == stream
    assert side_stream(f"bids.{side.upper()}") == stream


@pytest.mark.parametrize("name", ["bids", "headrace.shed", ".late", "late", "bids.later"])
def test_other_names_are_no_side_streams(name: str) -> None:
    assert side_stream(name) is None
    assert base_stream(name) == name


def test_the_base_of_late_tuples_and_bad_records_is_their_stream() -> None:
    assert base_stream(late_stream("bids")) == base_stream(bad_stream("bids")) == "bids"
    assert base_stream("rule.failed") == "rule.failed"


def test_an_exchange_has_a_stream_and_two_vertices_by_which_its_origin_is_known() -> None:
    assert exchange_of(exchange_vertex("panes-1")) == "panes-1"
    assert exchange_of("panes-1") is None
    assert origin_of_scan(exchange_scan("panes-1")) == "panes-1"
    assert is_exchange_stream(exchange_stream("panes-1"))
    assert not is_exchange_stream("bids")


def test_streams_of_the_system_are_known_by_their_names() -> None:
    assert is_system_stream("headrace.shed")
    assert not is_system_stream("shed")
