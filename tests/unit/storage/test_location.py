"""Places by text: local paths and URLs of object stores."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headrace.errors import QueryError
from headrace.session import Session
from headrace.storage.location import ObjectPath, absolute, located, location, resolved


@pytest.mark.parametrize(
    ("text", "path"),
    [("file:///a/b%20c", "/a/b c"), ("/a", "/a"), ("a:b", "a:b"), ("data", "data"), ("/s3a:/x", "/s3a:/x")],
)
def test_a_path_or_a_file_url_is_local(text: str, path: str) -> None:
    assert location(text) == Path(path)
    assert not isinstance(location(text), ObjectPath)
    assert absolute(location(text)) == Path.cwd() / path


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://lake/a/b", "s3a://lake/a/b"),
        ("s3a:/lake/a//b/", "s3a://lake/a/b"),
        ("S3N://lake", "s3a://lake"),
        ("gs://lake/%41 b", "gs://lake/%41 b"),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020/a/b"),
        ("abfss://box@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a"),
    ],
)
def test_the_url_of_a_store_is_a_path_whose_text_is_the_url(text: str, url: str) -> None:
    place = location(text)
    assert isinstance(place, ObjectPath)
    assert str(place) == f"{place}" == url
    assert location(str(place)) == located(Path(url)) == place
    assert absolute(place) == resolved(place) == pickle.loads(pickle.dumps(place)) == place
    below = place / "x" / "y.json"
    assert (str(below), below.name, str(below.parent)) == (f"{url}/x/y.json", "y.json", f"{url}/x")
    assert str(below.relative_to(place)) == "x/y.json"
    assert below.bucket == place.bucket
    assert below.key == f"{place.key}/x/y.json".lstrip("/")


def test_the_operating_system_does_not_take_the_path_of_a_store() -> None:
    place = location("s3://lake/a")
    for use in (open, Path.exists, Path.stat, Path.mkdir, Path.resolve, Path.read_bytes, Path.unlink):
        with pytest.raises(TypeError, match="s3a://lake/a is not on the local disk"):
            use(place)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a path is empty"),
        (" ", "a path is empty"),
        ("a\0b", "cannot be a path"),
        ("caf\udce9", "cannot be a path"),
        ("file://host/a", "names a file of the machine host"),
    ],
)
def test_what_is_no_path_is_refused(text: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        location(text)
    assert location("file://localhost/a") == Path("/a")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("viewfs://host/x", "begins with viewfs:, which is not supported"),
        ("hdfs:///x/y", "does not name a name node"),
        ("HTTP://host/x", "begins with http:, which is not supported"),
        ("s3://", "does not name a place"),
        ("s3://lake/../x", "does not name a place"),
        ("s3://key:hush@lake/x", "holds a password"),
    ],
)
def test_other_urls_are_refused_and_nothing_is_made(
    url: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError, match=why) as caught:
        Session(url, host="local")
    assert "hush" not in str(caught.value)
    with Session(host="local") as session:
        session.execute("CREATE STREAM s (v INT) FROM MEMORY")
        for statement in (
            f"CREATE QUERY q AS SELECT v FROM s INTO FILES (path '{url}')",
            f"CREATE STREAM t (v INT) FROM FILES (path '{url}')",
            f"CREATE TABLE u (v INT) FROM FILES (path '{url}')",
        ):
            with pytest.raises(QueryError, match=why) as caught:
                session.execute(statement)
            assert caught.value.span is not None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["viewfs://nn/state", "dbfs://nn:8020/state", "ftp://host/state"])
def test_the_url_of_a_checkpoint_that_is_refused_is_told_as_it_was_written(url: str) -> None:
    with pytest.raises(QueryError) as caught:
        Session(Path(url), host="local")  # a path loses a slash
    assert caught.value.message.startswith(f"'{url}' begins with")
    assert caught.value.hint is not None
    assert "SPARK" not in caught.value.hint
    assert ("mounted" in caught.value.hint) == (not url.startswith("ftp"))


def test_a_password_in_the_url_of_a_checkpoint_is_not_told() -> None:
    with pytest.raises(QueryError, match=r"'s3://\.\.\.@lake/x' holds a password") as caught:
        Session(Path("s3://key:hush@lake/x"), host="local")
    assert "hush" not in str(caught.value)
