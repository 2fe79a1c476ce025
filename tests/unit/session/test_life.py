"""When a session can be used, by whom, and with what; a mistake is a fault that says what to do."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, HostFault, NameFault, SyntaxFault
from headrace.session import Session

STATEMENTS = """
CREATE STREAM bids (item INT, price DOUBLE) FROM MEMORY;
CREATE QUERY high AS SELECT item FROM bids WHERE price > 10 INTO MEMORY;
"""
BIDS = [{"item": 1, "price": 12.0}]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "state", host="local") as made:
        made.execute(STATEMENTS)
        yield made


CHANGES: dict[str, Callable[[Session], Any]] = {
    "execute": lambda session: session.execute("CREATE STREAM s (a INT) FROM MEMORY"),
    "push": lambda session: session.push("bids", BIDS),
    "start": lambda session: session.start(),
    "drain": lambda session: session.drain(),
    "subscribe": lambda session: session.subscribe("high", lambda batch, rows: None),
    "follow": lambda session: list(session.follow("high")),
    "stop_query": lambda session: session.stop_query("high"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_temporary", [True, False])
def test_a_session_that_was_stopped_changes_nothing_more(change: str, is_temporary: bool, tmp_path: Path) -> None:
    state = None if is_temporary else tmp_path / "state"
    session = Session(state, host="local")
    session.execute(STATEMENTS)
    session.push("bids", BIDS)
    session.wait(0.1)
    session.stop()
    session.stop()
    with pytest.raises(HostFault, match="has been stopped"):
        CHANGES[change](session)
    assert session.wait(0.1)
    assert session.results("high") == [{"item": 1}]
    if is_temporary:
        assert not session.directory.exists()
    else:
        with Session(state, host="local") as later:
            later.start()
            later.push("bids", BIDS)
            later.drain()
            assert later.results("high") == [{"item": 1}]


def test_rows_are_not_pushed_into_streams_that_are_closed(session: Session) -> None:
    session.drain()
    with pytest.raises(HostFault, match="its streams are closed"):
        session.push("bids", BIDS)


def test_queries_of_a_checkpoint_do_not_run_before_they_are_started(session: Session) -> None:
    session.push("bids", BIDS)
    session.wait(0.1)
    session.stop()
    with Session(session.directory, host="local") as later:
        for use in (later.wait, lambda: later.results("high"), lambda: list(later.follow("high"))):
            with pytest.raises(HostFault) as refused:
                use()
            assert refused.value.hint == "call start() first"
        later.start()
        later.push("bids", BIDS)
        later.drain()
        assert later.results("high") == [{"item": 1}]


def test_a_process_that_was_forked_uses_no_session_of_its_parent(session: Session) -> None:
    def use(answers: Any) -> None:
        for act in (lambda: session.push("bids", BIDS), lambda: Session(host="local")):
            try:
                act()
            except HostFault as fault:
                answers.put(fault.message)
        session.stop()
        answers.put("the end")

    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=use, args=(answers,))
    child.start()
    assert "this session belongs to process" in answers.get()
    assert "has had a session" in answers.get()
    assert answers.get() == "the end"
    child.join()
    session.push("bids", BIDS)
    session.drain()
    assert session.results("high") == [{"item": 1}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"host": "flink"},
        {"checkpoint": ""},
        {"buckets": 0},
        {"buckets": "2"},
        {"limit": 0},
        {"page": -1},
        {"interval": "1 s"},
        {"python_modules": "stats"},
        {"python_modules": ["a b"]},
        {"host": "spark", "conf": ["spark.ui.port"]},
        {"host": "spark", "master": 5},
    ],
)
def test_an_argument_that_is_none_is_refused_with_a_hint(arguments: dict[str, Any]) -> None:
    with pytest.raises(HostFault) as refused:
        Session(**{"host": "local", **arguments})
    assert refused.value.hint


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.results("hig"),
        lambda session: session.results("bids"),
        lambda session: session.results("high", "csv"),
        lambda session: session.partials("hig"),
        lambda session: session.follow("hig"),
        lambda session: session.follow_async("hig"),
        lambda session: session.subscribe("high", 5),
        lambda session: session.for_each_batch("high", None),
        lambda session: session.register("f", "print"),
        lambda session: session.push("bid", BIDS),
        lambda session: session.push(None, BIDS),
        lambda session: session.execute(Path("first.sql")),
        lambda session: session.execute(None),
    ],
)
def test_a_name_or_a_function_that_is_none_is_refused_with_a_hint(
    use: Callable[[Session], Any], session: Session
) -> None:
    with pytest.raises((NameFault, SyntaxFault)) as refused:
        use(session)
    assert refused.value.hint


def test_a_query_may_be_subscribed_to_before_it_is_created(session: Session) -> None:
    taken: list[dict[str, Any]] = []
    session.subscribe("low", lambda batch, rows: taken.extend(rows))
    session.execute("CREATE QUERY low AS SELECT item FROM bids WHERE price < 20 INTO CONSOLE")
    session.push("bids", BIDS)
    session.drain()
    assert taken == [{"item": 1}]


def test_the_name_of_a_query_may_be_written_in_any_case(session: Session) -> None:
    followed = session.follow("HIGH", timeout=30)
    session.push("bids", BIDS)
    assert next(followed) == {"item": 1}
    assert session.results("High") == [{"item": 1}]


def test_results_of_a_query_that_has_none_say_why(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute("CREATE QUERY shown AS SELECT item FROM bids INTO CONSOLE")
    with pytest.raises(NameFault, match="has no MEMORY sink"):
        session.results("shown")
    monkeypatch.setattr(session, "failed", lambda: {"shown": "no water"})
    with pytest.raises(HostFault, match="query shown has failed: no water"):
        session.results("shown")


def test_a_traceback_shows_the_hint(session: Session) -> None:
    with pytest.raises(NameFault) as refused:
        session.execute("SELECT prise FROM bids")
    assert traceback.format_exception(refused.value)[-2:] == [
        "headrace.errors.NameFault: column 'prise' does not exist in bids\n",
        "hint: did you mean 'price'?\n",
    ]


def test_an_error_in_the_block_of_a_session_goes_on_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"), Session(host="local") as session:
        raise KeyError("mine")
    assert not session.directory.exists()
    with pytest.raises(HeadraceError):
        session.execute(STATEMENTS)
