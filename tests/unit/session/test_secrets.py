"""Secrets: statements refer to them, they are read where they are used, and nothing shows or keeps them."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from headrace import redaction
from headrace.applications.nfmi.store import Store
from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.kafka.source import layout
from headrace.connectors.kinds import SOURCES, make_source
from headrace.connectors.secrets import with_secrets
from headrace.connectors.spool import stream_spool
from headrace.errors import HeadraceError, HostFault, QueryError
from headrace.model.schema import Schema
from headrace.model.streams import failed_stream
from headrace.model.types import Type
from headrace.session import Session
from headrace.session.outcome import Listing, Message

TOKEN = "t0p-s3cret-t0ken"
STREAM = "CREATE STREAM s (x INT) FROM MEMORY;"


@pytest.fixture(autouse=True)
def forget_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_values", set())


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)
    return TOKEN


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a server that refuses a POST without the token, and the paths that were asked for."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(200 if TOKEN in self.path else 403)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}", paths
    listening.shutdown()
    listening.server_close()


def everything_written(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def texts(session: Session, statement: str) -> str:
    return "\n".join(
        outcome.text if isinstance(outcome, Message) else repr(outcome) for outcome in session.execute(statement)
    )


def test_a_webhook_gets_its_token_and_no_file_of_the_checkpoint_has_it(
    tmp_path: Path, token: str, server: tuple[str, list[str]]
) -> None:
    address, paths = server
    rule = f"CREATE RULE r ON s DO CALL webhook('{address}/hook?token=${{env:HOOK_TOKEN}}');"
    with Session(tmp_path / "state", host="local") as session:
        assert "warning" not in texts(session, STREAM + rule)
        session.push("s", [{"x": 1}])
        session.drain()
        assert paths == [f"/hook?token={token}"]
        shown = texts(session, "DESCRIBE r") + texts(session, "SHOW RULES")
    assert "${env:HOOK_TOKEN}" in shown
    assert token not in shown
    assert token.encode() not in everything_written(tmp_path / "state")


def test_a_file_holds_a_secret_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "path").write_text(f"{tmp_path}/in\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n7\n")
    source = f"FROM FILES (path '${{file:{tmp_path}/path}}', format 'csv')"
    with Session(tmp_path / "state", host="local") as session:
        session.execute(f"CREATE STREAM s (x INT) {source}; CREATE TABLE t {source};")
        session.execute(
            "CREATE QUERY q AS SELECT s.x AS x FROM s INTO MEMORY;"
            f"CREATE QUERY w AS SELECT x FROM s INTO FILES (path '${{file:{tmp_path}/path}}/../out');"
        )
        session.drain()
        assert session.results("q") == [{"x": 7}]
    assert pl.read_parquet(tmp_path / "out" / "*.parquet").rows() == [(7,)]
    assert f"{tmp_path}/in".encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "state" / "commands").iterdir()
    )


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${env:NO_SUCH_VARIABLE}", "the environment variable NO_SUCH_VARIABLE is not set"),
        ("${file:/no/such/file}", "the file cannot be read: No such file or directory"),
        ("${file:relative}", "the path is not absolute"),
        ("${vault:x}", "there is no kind of secret 'vault'"),
        ("${env:EMPTY_SECRET}", "the secret is empty"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM n (x INT) FROM SOCKET (host '{}', port 9);",
        "CREATE TABLE n (x INT) FROM FILES (path '{}', format 'csv');",
        "CREATE QUERY n AS SELECT x FROM s INTO FILES (path '{}');",
        "SELECT x FROM s INTO FILES (path '{}');",
        "CREATE SINK n INTO FILES (path '{}');",
        "CREATE RULE n ON s DO CALL webhook('{}');",
        "CREATE RULE n ON s DO INSERT INTO FILES (path '{}');",
    ],
)
def test_a_secret_that_cannot_be_read_is_refused_at_once_where_it_stands(
    statement: str, reference: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY_SECRET", "")
    with Session(host="local") as session:
        session.execute(STREAM)
        with pytest.raises(QueryError) as caught:
            session.execute(statement.format(reference))
    assert f"{reference}: {message}" in caught.value.message
    assert caught.value.span is not None
    assert caught.value.hint


def test_a_start_without_the_secret_says_which_query_lacks_it(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STREAM + "CREATE RULE r ON s DO CALL webhook('http://localhost:9/${env:HOOK_TOKEN}');")
    monkeypatch.delenv("HOOK_TOKEN")
    with Session(tmp_path, host="local") as later, pytest.raises(HostFault, match=r"r: the address.*HOOK_TOKEN is not"):
        later.start()


def test_a_webhook_must_have_an_address_once_its_secret_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", "gopher://secret-place")
    with Session(host="local") as session, pytest.raises(QueryError, match="is not the address") as caught:
        session.execute(STREAM + "CREATE RULE r ON s DO CALL webhook('${env:HOOK_URL}');")
    assert "secret-place" not in caught.value.render()


def test_options_of_the_kafka_client_are_resolved_for_the_client_only(token: str) -> None:
    options: dict[str, Any] = {
        "bootstrap": "localhost:9092",
        "topic": "t",
        "format": "json",
        "sasl.password": "${env:HOOK_TOKEN}",
    }
    stream = Stream("s", Schema.of(x=Type.INT), Connector("KAFKA", options), Timing.INTERNAL)
    assert layout(with_secrets(stream).connector, stream.schema).place.client()["sasl.password"] == token
    assert token.encode() not in msgspec.json.encode(stream)


def test_every_kind_of_source_is_made_with_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Connector] = []
    monkeypatch.setenv("PLACE", "there-and-back")
    for kind in SOURCES:
        monkeypatch.setitem(SOURCES, kind, lambda stream, _: made.append(stream.connector))
        stream = Stream("s", Schema.of(x=Type.INT), Connector(kind, {"any": "a ${env:PLACE} b"}), Timing.INTERNAL)
        make_source(stream, tmp_path)
    assert [connector.options for connector in made] == [{"any": "a there-and-back b"}] * len(SOURCES)


def test_an_alarm_container_is_named_by_a_reference(tmp_path: Path) -> None:
    (tmp_path / "place").write_text(f"{tmp_path}/alarms.db\n")
    store = Store(f"${{file:{tmp_path}/place}}")
    store.prepare(["CREATE TABLE alarms (alarm TEXT)"])
    assert (tmp_path / "alarms.db").exists()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE STREAM n (x INT) FROM SPARK (format 'jdbc', password '{}');", "option password of SPARK"),
        ("CREATE STREAM n (x INT) FROM SPARK (format 'jdbc', url 'jdbc:x://u:{}@h/d');", "option url of SPARK"),
        ("CREATE QUERY n AS SELECT x FROM s INTO SPARK (format 'x', fs.s3a.secret.key '{}');", "option fs.s3a.secret"),
        ("CREATE SINK n INTO SPARK (format 'x', authToken '{}');", "option authtoken of SPARK"),
        ("CREATE RULE n ON s DO CALL webhook('http://h/p?access_token={}&x=1');", "the address of the webhook"),
    ],
)
def test_a_secret_in_clear_gets_a_warning_and_is_not_shown(statement: str, what: str) -> None:
    with Session(host="local") as session:
        session.execute(STREAM, start=False)
        said = "\n".join(
            outcome.text
            for outcome in session.execute(statement.format(TOKEN), start=False)
            if isinstance(outcome, Message)
        )
        assert f"warning: {what}" in said
        assert "${env:NAME}" in said
        shown = "".join(texts(session, f"SHOW {kind}") for kind in ("STREAMS", "RULES", "EVENTS"))
        if " RULE " in statement:
            shown += texts(session, "DESCRIBE n")
            assert "webhook('http://h/p?access_token=***&x=1')" in shown
        assert TOKEN not in said + shown


def test_the_excerpt_of_an_error_hides_secrets_and_still_points_at_the_fault() -> None:
    text = f"CREATE STREAM n (x INT) FROM SPARK (password '{TOKEN}', url 'pg://u:{TOKEN}@h', format 'x') NONSENSE"
    with Session(host="local") as session, pytest.raises(HeadraceError) as caught:
        session.execute(text)
    shown = caught.value.render(text)
    assert TOKEN not in shown
    _, excerpt, caret, *_ = shown.splitlines()
    assert excerpt[caret.index("^") :].startswith("NONSENSE")


def test_an_error_of_another_library_does_not_show_a_secret_that_was_used(token: str) -> None:
    stream = Stream("s", Schema.of(x=Type.INT), Connector("SPARK", {"password": "${env:HOOK_TOKEN}"}), Timing.INTERNAL)
    with_secrets(stream)
    assert HostFault(f"cannot log in with {token}", hint=f"try {token}").render() == (
        "HR204 HostFault: cannot log in with ***\n  hint: try ***"
    )


def test_what_rules_failed_to_do_does_not_show_the_token(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(
            f"{STREAM} CREATE RULE r WITH (tries 1) ON s DO CALL webhook('http://127.0.0.1:1/a b?token={TOKEN}');"
        )
        session.push("s", [{"x": 1}])
        session.drain()
    spool = stream_spool(failed_stream("r"), tmp_path)
    (failed,) = [row for file in spool.files() for row in spool.read(file).to_dicts()]
    assert TOKEN not in str(failed)
    assert failed["action"] == "CALL webhook('http://127.0.0.1:1/a b?token=***')"


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.jaas.config", True),
        ("api_key", True),
        ("key", False),
        ("sasl.mechanism", False),
        ("sasl.username", False),
        ("path", False),
    ],
)
def test_the_name_of_an_option_says_whether_it_is_secret(name: str, is_secret: bool) -> None:
    assert redaction.is_secret_name(name) is is_secret


def test_listings_of_rows_are_not_redacted() -> None:
    listing = Listing(("url",), (("http://h/?token=abcdef",),))
    assert listing.rows == (("http://h/?token=abcdef",),)
    assert listing.redacted().rows == (("http://h/?token=***",),)
