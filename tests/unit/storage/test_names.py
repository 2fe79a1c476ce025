"""Names and paths of users as names of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.session import Session
from headrace.storage.names import file_name


@pytest.mark.parametrize("name", ["bids", "bids.late", "headrace.shed", "a-b_c", "Bids2"])
def test_an_ordinary_name_stands_for_itself(name: str) -> None:
    assert file_name(name) == name


@given(st.lists(st.text(min_size=1, max_size=300), unique=True, max_size=8))
def test_every_name_is_one_visible_component_of_a_path_and_differs_from_the_others(names: list[str]) -> None:
    encoded = [file_name(name) for name in names]
    assert len(set(encoded)) == len(names)
    for component in encoded:
        assert Path("checkpoint", component).parent == Path("checkpoint")
        assert not component.startswith(".")
        assert len(component) <= 160
        assert component.isascii()
        assert component.isprintable()


def test_a_stream_named_as_a_path_stays_in_its_checkpoint(tmp_path: Path) -> None:
    with Session(tmp_path / "state", host="local") as session:
        for name in ("../../x", "./y", "y", "a/b", ".hidden", "n" * 128):
            session.execute(f'CREATE STREAM "{name}" (v INT) FROM MEMORY')
            session.execute(f'CREATE QUERY "q {name[:90]}" AS SELECT v FROM "{name}" INTO MEMORY')
            session.push(name, [{"v": 1}])
        session.drain(60)
        assert all(session.results(f"q {name}") == [{"v": 1}] for name in ("../../x", "./y", "y", "a/b", ".hidden"))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert len(list((tmp_path / "state" / "sources").iterdir())) == 6
