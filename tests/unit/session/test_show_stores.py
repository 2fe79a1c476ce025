"""SHOW STORES: the requests that a deployment makes of object stores."""

from pathlib import Path

from headrace.session import Listing, Session
from headrace.session.listings.show import _stores
from headrace.storage.requests import Requests, added, leave, left


def test_without_a_store_nothing_is_listed_by_another_name() -> None:
    with Session(host="local") as session:
        (listing,) = session.execute("SHOW STORES")
    assert isinstance(listing, Listing)
    assert listing.columns == ("store", "process", "requests", "repeated", "given up", "last fault")


def test_each_store_has_a_row_for_each_kind_of_process() -> None:
    driver = {"s3a://lake": Requests(7, 2, 1, "503"), "gs://sea": Requests(3)}
    assert _stores({"driver": driver, "planning": {}, "tasks": {"s3a://lake": Requests(5)}}).rows == (
        ("gs://sea", "driver", 3, 0, 0, ""),
        ("s3a://lake", "driver", 7, 2, 1, "503"),
        ("s3a://lake", "tasks", 5, 0, 0, ""),
    )


def test_counts_are_added_by_store_and_the_last_fault_stays() -> None:
    first, second = Requests(7, 2, 1, "503"), Requests(3)
    assert added([{"a": first}, {"a": second, "b": second}]) == {"a": Requests(10, 2, 1, "503"), "b": second}


def test_counts_of_another_process_are_read_as_it_left_them(tmp_path: Path) -> None:
    assert left(tmp_path / "requests") == {}
    leave(tmp_path / "requests", {"a": Requests(7, 2, 1, "503")})
    assert left(tmp_path / "requests") == {"a": Requests(7, 2, 1, "503")}
    (tmp_path / "requests").write_bytes(b"{")
    assert left(tmp_path / "requests") == {}
