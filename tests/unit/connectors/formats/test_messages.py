"""Messages that a Python function reads: where they are cut, what becomes of those that it does not understand."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.files.source import FilesSource, check_files
from headrace.connectors.files.tables import infer_schema
from headrace.connectors.formats.messages import Messages, read_messages
from headrace.errors import NameFault, QueryError, SourceFault
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.session import Session

SCHEMA = Schema.of(word=Type.STRING, n=Type.INT, at=Type.TIMESTAMP)
MODULE = "a_users_messages"
CODE = """
import datetime

class Mute(Exception):
    def __str__(self):
        raise RuntimeError

def words(message):
    head, *rest = message.split()
    if head == "SKIP":
        return None
    if head == "BUG":
        return rest[99]
    if head == "MUTE":
        raise Mute
    if head == "HALF":
        raise ValueError("caf\\udce9")
    if not rest:
        raise ValueError(f"{head} stands alone")
    return [{"word": head, "n": n, "ignored": 1} for n in rest]

def typed(message):
    return {"word": message.strip(), "n": 2.0 if message.startswith("f") else 7, "at": datetime.datetime(2026, 1, 1)}

def lazy(message):
    return [message]

NUMBER = 3
"""


@pytest.fixture(autouse=True)
def _module(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path_factory.mktemp("code")
    (folder / f"{MODULE}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop(MODULE, None)


def stream(path: Path, function: str = "words", **options: Any) -> Stream:
    return Stream(
        "s",
        SCHEMA,
        Connector("FILES", {"path": str(path), "format": f"python:{MODULE}:{function}", **options}),
        Timing.LATENT,
    )


def read_all(source: FilesSource, *, limit: int = 1000, parallel: int = 1) -> tuple[list[Any], list[Any]]:
    offset, rows, bad = None, [], []
    source.hurry()  # the last message may have no end
    while not source.finished(offset):
        end = json.loads(json.dumps(source.latest(offset, now=0, limit=limit)))
        for split in json.loads(json.dumps(source.splits(offset, end, parallel=parallel))):
            for piece in pickle.loads(pickle.dumps(source)).read(split):
                assert dict(piece.rows.schema) == SCHEMA.polars()
                rows += [(seq, *row) for seq, row in zip(piece.seq, piece.rows.iter_rows(), strict=True)]
                bad += [] if piece.bad is None else piece.bad.rows()
        offset = end
    return rows, bad


def test_a_message_gives_one_row_or_several_or_none_or_is_bad(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"a 1 2\r\n\x19SKIP it\r\n\x19lonely\r\n\x19\r\n\x19b 3\nc\r\n\x19BUG\r\n\x19\xff\r\n\x19d 4")
    rows, bad = read_all(FilesSource(stream(file, terminator=r"\r\n\031"), tmp_path))
    assert [row[1:3] for row in rows] == [("a", 1), ("a", 2), ("d", 4)]
    assert [row[0] for row in rows] == [0, 1, file.stat().st_size - 3], "numbers grow with arrival"
    assert [(record, reason) for record, reason, _ in bad] == [
        ("lonely", "lonely stands alone"),
        ("b 3\nc", "column n: 'c' is not an INT"),
        ("BUG", "IndexError: list index out of range"),
        ("\ufffd", "the message is not UTF-8"),
    ]
    assert bad[1][2] == f"{file}:5"


def test_values_may_be_of_pythons_types(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("f\ni\n")
    rows, bad = read_all(FilesSource(stream(tmp_path / "in.txt", "typed"), tmp_path))
    assert [(word, n, at.year) for _, word, n, at in rows] == [("f", 2, 2026), ("i", 7, 2026)]
    assert not bad


def test_an_error_that_cannot_be_written_makes_one_message_bad(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("up 1\nMUTE\nHALF\nup 2\n")
    rows, bad = read_all(FilesSource(stream(tmp_path / "words.txt"), tmp_path))
    assert [row[1:3] for row in rows] == [("up", 1), ("up", 2)]
    assert [reason for _, reason, _ in bad] == ["Mute: its message cannot be read (RuntimeError)", "caf\\udce9"]


def test_what_is_no_row_is_bad(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("x\n")
    rows, bad = read_all(FilesSource(stream(tmp_path / "in.txt", "lazy"), tmp_path))
    assert not rows
    assert bad[0][1].startswith("TypeError: the function must return a mapping")


@given(data=st.data(), limit=st.integers(1, 40), parallel=st.integers(1, 3), block=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_any_cutting_gives_the_same_rows_also_within_a_terminator(
    tmp_path_factory: Any, data: Any, limit: int, parallel: int, block: int
) -> None:
    mark = data.draw(st.sampled_from([b"\r\n\x19", b"\r\n\x1b\x05", b"\n", b"END"]))
    texts = data.draw(
        st.lists(
            st.sampled_from([b"a 1", b"b 2 3", b"\r\n", b"c 4\r", b"lonely", b"E 5", b"x 7\r\n8"]),
            min_size=1,
            max_size=12,
        )
    )
    whole = mark.join(texts) + data.draw(st.sampled_from([b"", mark]))
    home = tmp_path_factory.mktemp("messages")
    (home / "in.txt").write_bytes(whole)
    expected = [
        (word, int(n))
        for text in whole.split(mark)
        for word, *numbers in [text.decode().split() or [""]]
        if word not in ("", "lonely")
        for n in numbers
    ]
    written = "".join(f"\\x{byte:02x}" for byte in mark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.connectors.formats.text.BLOCK", block)
        patch.setattr("headrace.connectors.files.source._LEAST_BYTES", 3)
        rows, _ = read_all(
            FilesSource(stream(home / "in.txt", terminator=written), home), limit=limit, parallel=parallel
        )
    assert [row[1:3] for row in rows] == expected
    assert [row[0] for row in rows] == sorted({row[0] for row in rows}), "numbers are unique and grow"


@pytest.mark.parametrize(
    ("form", "options", "error", "words"),
    [
        ("python:nothing", {}, NameFault, "does not name a function"),
        ("python:a b:c", {}, NameFault, "does not name a function"),
        ("csv", {"terminator": "x"}, QueryError, "has no terminator"),
        ("python:m:f", {"terminator": ""}, QueryError, "is empty"),
        ("python:m:f", {"terminator": r"\r\n\r\n"}, QueryError, "overlaps with itself"),
        ("python:m:f", {"terminator": r"\q"}, QueryError, "unknown escape"),
    ],
)
def test_what_cannot_be_is_refused(form: str, options: dict[str, str], error: type[QueryError], words: str) -> None:
    with pytest.raises(error, match=words):
        read_messages(form, options)


@pytest.mark.parametrize(("function", "words"), [("nobody", "AttributeError"), ("NUMBER", "is not a function")])
def test_a_function_that_is_not_there_is_told_when_the_stream_is_made(
    tmp_path: Path, function: str, words: str
) -> None:
    (tmp_path / "in.txt").write_text("")
    with pytest.raises(SourceFault, match=words):
        check_files(stream(tmp_path / "in.txt", function).connector, SCHEMA)


def test_escapes_stand_for_bytes() -> None:
    assert read_messages("python:m:f", {"terminator": r"\033\005\x1b\r\t\\"}) == Messages("m:f", b"\x1b\x05\x1b\r\t\\")


def test_columns_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="columns"):
        infer_schema(stream(tmp_path / "in.txt").connector)


def test_messages_are_read_from_sql_and_bad_ones_can_be_queried(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"a 1\x03lonely\x03b 2 3\x03")
    with Session(host="local", buckets=2) as session:
        session.execute(
            f"CREATE STREAM s (word STRING, n INT) FROM FILES (path '{tmp_path / 'in.txt'}', "
            f"format 'python:{MODULE}:words', terminator '\\003');"
            "CREATE QUERY good AS SELECT word, n FROM s INTO MEMORY; "
            "CREATE QUERY bad AS SELECT reason FROM s.bad INTO MEMORY;"
        )
        session.drain(timeout=30)
        assert sorted((row["word"], row["n"]) for row in session.results("good")) == [("a", 1), ("b", 2), ("b", 3)]
        assert session.results("bad") == [{"reason": "lonely stands alone"}]
