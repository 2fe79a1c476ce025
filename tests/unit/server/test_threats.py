"""Threats that no other module covers: eavesdropping, addresses, sockets, cookies, logs, floods, formulas.

The table in docs/server.md says which test is for which threat; `test_every_threat_has_a_test` reads it.
"""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import ssl
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.server.conftest import SQL, Client, end, serve
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as connect_live

from headrace import errors
from headrace.cli.main import app
from headrace.cli.serving.serve import Address
from headrace.client import connect
from headrace.errors import HeadraceError, HostFault, InternalError
from headrace.server import live
from headrace.server.fence import Policy, fence_for, is_reading
from headrace.server.problems import problem_of
from headrace.server.routes.results import _csv
from headrace.server.server import Options
from headrace.server.tokens import Login
from headrace.session import Session
from headrace.testing.fuzz import corpus

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_with_tls_nothing_is_answered_in_clear(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    file, key = certificate
    server = serve(tmp_path / "state", SQL, Options(port=0, certificate=file, key=key))
    try:
        assert server.url.startswith("https://")
        token = server.owner_url.partition("#token=")[2]
        with connect(server.url, token=token, cafile=str(file)) as session:
            assert [outcome.rows for outcome in session.execute("SHOW TABLES")] == [()]
        with pytest.raises(HostFault, match="does not answer"), connect(server.url, token=token) as other:
            other.execute("SHOW TABLES")  # a certificate that nobody vouches for
        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        plain.request("GET", "/health/live")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        trusting = ssl.create_default_context(cafile=str(file))
        secure = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=trusting)
        secure.request("POST", "/api/v1/login", f'{{"token": "{token}"}}', {"Content-Type": "application/json"})
        answer = secure.getresponse()
        assert "; Secure" in answer.headers["set-cookie"]
        assert "max-age" in answer.headers["strict-transport-security"]
        secure.close()
        context = server._web.config.ssl
        assert context is not None
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    finally:
        end(server)


@pytest.mark.parametrize(
    ("bind", "options", "is_refused"),
    [
        ("127.0.0.1:0", [], False),
        ("localhost:0", [], False),
        ("[::1]:0", [], False),
        ("unix:x.sock", [], False),
        ("0.0.0.0:0", [], True),
        ("[::]:0", [], True),
        ("192.0.2.1:0", [], True),
        ("stream.example.org:0", [], True),
        ("0.0.0.0:0", ["--behind-proxy"], False),
        ("0.0.0.0:0", ["--insecure"], False),
        ("0.0.0.0:0", ["--tls-cert", "cert.pem"], True),
        ("127.0.0.1:0", ["--tls-key", "key.pem"], True),
    ],
)
def test_beyond_this_machine_a_server_needs_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bind: str, options: list[str], is_refused: bool
) -> None:
    """A text with an error ends a command that would start, before it listens."""
    monkeypatch.chdir(tmp_path)
    for name in ("cert.pem", "key.pem"):
        Path(name).write_text("")
    Path("wrong.sql").write_text("CREATE NOTHING;")
    command = ["serve", "wrong.sql", "--host", "local", "--bind", bind, *options]
    said = CliRunner().invoke(app, command)
    assert said.exit_code != 0
    assert ("SyntaxFault" not in said.output) == is_refused, said.output
    assert Address.parse(bind).is_loopback == ((not is_refused and not options) or "--tls-key" in options)


def test_the_default_address_is_of_this_machine_only(client: Client) -> None:
    assert Options().host == "127.0.0.1"
    assert client.server._socket.getsockname()[0] == "127.0.0.1"


def test_a_unix_socket_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    server = serve(tmp_path / "state", SQL, Options(unix=path))
    try:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        token = (tmp_path / "state" / "owner.token").read_text().strip()
        with connect(f"unix:{path}", token=token) as session:
            assert session.execute("SHOW TABLES")
        with connect(f"unix:{path}", token="wrong") as session, pytest.raises(HeadraceError):
            session.execute("SHOW TABLES")
    finally:
        end(server)
    assert not path.exists()


def test_a_cookie_ends_with_the_server_and_with_its_token(tmp_path: Path) -> None:
    first = serve(tmp_path / "state")
    client = Client(first)
    cookie = client.ask("POST", "login", {"token": client.token}).headers["set-cookie"].partition(";")[0]
    client.token = None
    assert client.ask("GET", "deployment", headers={"Cookie": cookie}).status == 200
    end(first)
    second = serve(tmp_path / "state", "")
    try:
        again = Client(second)
        again.token = None
        name = f"headrace_{second.port}={cookie.partition('=')[2]}"  # even if the port were the same
        assert again.ask("GET", "deployment", headers={"Cookie": name}).status == 401
    finally:
        end(second)


@pytest.mark.slow
def test_statements_that_may_be_run_by_readers_change_nothing(tmp_path: Path) -> None:
    from headrace.language.parser import parse

    definitions, statements = corpus(ROOT / "tests" / "golden")
    fence = fence_for(Login("reader", "read"), Policy(tmp_path), read_only=False, reads=False)
    tried = refused = 0

    def written(directory: Path) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in directory.rglob("*.jsonl")}

    with Session(tmp_path / "state", host="local") as session:
        for definition in [*definitions[:20], "CREATE QUERY q AS SELECT * FROM bids"]:
            try:
                session.execute(definition, start=False)
            except HeadraceError:
                continue
        before = written(tmp_path / "state")
        assert before
        for text in statements:
            try:
                parsed = parse(text)
            except HeadraceError:
                continue
            if all(map(is_reading, parsed)):
                fence(text)
                tried += 1
                try:
                    session.execute(text)
                except HeadraceError:
                    continue
            else:
                refused += 1
                with pytest.raises(Exception, match=r"role|needs|read"):
                    fence(text)
        assert written(tmp_path / "state") == before
    assert tried > 10
    assert refused > 100


def test_live_clients_and_their_topics_are_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"ws://127.0.0.1:{client.server.port}/api/v1/live"
    headers = {"Authorization": f"Bearer {client.token}"}
    monkeypatch.setattr(live, "CLIENTS", 2)
    monkeypatch.setattr(live, "TOPICS", 1)
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect_live(url, additional_headers=headers, proxy=None)) for _ in range(2)]
        with (
            pytest.raises((ConnectionClosed, InvalidStatus)),
            connect_live(url, additional_headers=headers, proxy=None) as third,
        ):
            third.recv(timeout=10)
        sockets[0].send('{"watch": [{"t": "catalog"}, {"t": "state"}]}')
        said = [sockets[0].recv(timeout=10) for _ in range(3)]
        assert any('"status":429' in str(message) for message in said)
        sockets[1].send("x" * (live.MESSAGE + 1))
        with pytest.raises(ConnectionClosed):
            list(sockets[1])


def test_followers_that_never_read_hold_nobody_up(client: Client) -> None:
    held = []
    request = "GET /api/v1/queries/dear/results?follow HTTP/1.1\r\nHost: localhost\r\n"
    request += f"Authorization: Bearer {client.token}\r\n\r\n"
    for _ in range(20):
        one = socket.create_connection(("127.0.0.1", client.server.port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.sendall(request.encode())
        held.append(one)
    try:
        for number in range(5):
            rows = [{"item": n, "price": 200.0, "at": "2026-01-01T00:00:00Z"} for n in range(2000)]
            assert client.push(*rows).status == 200, number
        client.until(lambda: client.get("queries/dear")["figures"]["results"] == 10_000)
        assert client.get("deployment")["state"] == "running"
    finally:
        for one in held:
            one.close()


def test_texts_that_are_formulas_are_quoted_in_csv() -> None:
    words = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b", None]
    lines = _csv(pl.DataFrame({"word": words, "n": [-1] * len(words)})).decode().splitlines()
    cells = [line.rpartition(",")[0].strip('"') for line in lines if line.endswith(",-1")]
    assert [cell for cell in cells if cell[:1] in "=+-@\t\r" and cell] == []
    assert "'=1+1" in cells
    assert "plain" in cells


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadraceError)]
)
def test_no_error_tells_of_our_code(kind: type[HeadraceError]) -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise kind("what is wrong") from inner
    except HeadraceError as error:
        problem = problem_of(error)
    text = str(problem)
    assert "Traceback" not in text
    assert "inner" not in text
    assert ".py" not in text
    assert problem.status < 500 or kind is InternalError or problem.status in (500, 503)


def test_every_threat_has_a_test() -> None:
    """The table of the page names tests that exist, and every threat has one."""
    page = (ROOT / "docs" / "server.md").read_text()
    table = page.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 18
    for threat, _, tests in rows:
        named: list[tuple[Any, ...]] = re.findall(r"`(tests/[\w/]+\.py)`(?:: `(\w+)`)?", tests)
        assert named, threat
        for path, name in named:
            assert (ROOT / path).is_file(), path
            assert not name or f"def {name}(" in (ROOT / path).read_text(), (path, name)
