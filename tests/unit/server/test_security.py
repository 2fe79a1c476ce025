"""Who may do what: hosts, origins, tokens, roles, limits, and what is left in files."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.unit.server.conftest import SQL, Client, end, raw, serve

from headrace.server import guard, tokens
from headrace.server.place import served_at
from headrace.server.server import Options
from headrace.server.tokens import TokenFile, token_path

EVIL = ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "a@localhost", "localhost/x", "[::1", "*"]


@pytest.mark.parametrize("host", EVIL)
def test_a_host_that_is_not_ours_is_refused_before_anything_else(shared: Client, host: str) -> None:
    port = shared.server.port
    for path, more in (("/api/v1/deployment", ""), ("/api/v1/live", "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n")):  # fmt: skip
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Authorization: Bearer {shared.token}\r\n\r\n"
        answer = raw(port, head.encode())
        assert answer.split(b" ")[1] in (b"400", b"403"), answer[:200]


def test_names_of_this_machine_are_answered(shared: Client) -> None:
    for host in ("localhost", "LOCALHOST:1", "[::1]:4280", "127.0.0.1", "localhost."):
        assert shared.ask("GET", "deployment", headers={"Host": host}).status == 200


def test_pages_of_other_origins_change_nothing(client: Client) -> None:
    token, client.token = client.token, None
    answer = client.ask("POST", "login", {"token": token})
    assert answer.body == {"name": "owner", "role": "write"}
    cookie = answer.headers["set-cookie"]
    assert f"headrace_{client.server.port}=" in cookie
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    sent = {"Cookie": cookie.partition(";")[0]}
    ours = {"Origin": f"http://127.0.0.1:{client.server.port}"}
    body = {"text": "SHOW QUERIES"}
    assert client.ask("GET", "deployment", headers=sent).status == 200
    assert client.ask("POST", "statements", body, sent | ours).status == 200
    assert client.ask("POST", "statements", body, sent).status == 403
    for origin in ("http://evil.example", f"http://localhost:{client.server.port + 1}", "null", "http://127.0.0.1"):
        assert client.ask("POST", "statements", body, sent | {"Origin": origin}).status == 403
    assert client.ask("POST", "logout", {}, sent | ours).status == 200
    assert client.ask("GET", "deployment", headers=sent).status == 401


def test_wrong_tokens_are_limited(client: Client) -> None:
    right, client.token = client.token, "wrong"
    answers = [client.ask("GET", "deployment").status for _ in range(tokens.FAILURES + 3)]
    assert answers[0] == 401
    client.token = right
    client.until(lambda: client.ask("GET", "deployment").status == 200)


def test_a_role_decides_what_a_token_may_do(client: Client) -> None:
    file = TokenFile(token_path(client.server.service.directory))
    reader = Client(client.server)
    reader.token = file.add("dash", "read")
    for text in ("SHOW QUERIES", "DESCRIBE bids", "EXPLAIN SELECT item FROM bids"):
        assert reader.run(text).status == 200
    for text in (
        "CREATE VIEW v AS SELECT item FROM bids",
        "SELECT item FROM bids",
        "DROP QUERY best",
        "STOP QUERY best",
        "ALTER SYSTEM SET scheduler = fifo",
        "DEMAND best WHERE item = 1",
        "ASSUME best WHERE item = 1",
        "SHOW QUERIES; DROP QUERY best",
    ):
        assert reader.run(text).status == 403, text
        assert reader.run(text).body["code"] == "HR302"
    assert reader.push({"item": 1}).status == 403
    assert reader.ask("POST", "stop", {}).status == 403
    assert reader.ask("GET", "tokens").status == 403
    assert {token["name"] for token in client.get("tokens")} == {"owner", "dash"}
    file.revoke("dash")
    assert reader.ask("GET", "deployment").status == 401


def test_a_read_only_server_changes_nothing(tmp_path: Path) -> None:
    server = serve(tmp_path / "state", options=Options(port=0, read_only=True))
    try:
        client = Client(server)
        assert client.run("SHOW QUERIES").status == 200
        assert client.run("DROP QUERY best").status == 403
    finally:
        end(server)


def test_limits_are_answered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    large = b"x" * (guard.BODY + 1)
    head = {"Content-Type": "application/json"}
    assert client.ask("POST", "statements", large[:100], head).status == 400
    port, token = client.server.port, client.token
    start = f"POST /api/v1/statements HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    declared = raw(port, f"{start}Content-Type: application/json\r\nContent-Length: {len(large)}\r\n\r\n".encode())
    assert declared.split(b" ")[1] == b"413"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    undeclared = raw(port, f"{start}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
                     + chunk * 20 + b"0\r\n\r\n")  # fmt: skip
    assert undeclared.split(b" ")[1] == b"413"
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    slow = raw(port, f"{start}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n12".encode())
    assert slow.split(b" ")[1] == b"408"
    monkeypatch.setattr(guard, "REQUESTS", 0)
    assert client.ask("GET", "deployment").status == 429


def test_files_are_private_and_hold_no_token(tmp_path: Path) -> None:
    server = serve(tmp_path / "state")
    client = Client(server)
    made = TokenFile(token_path(server.service.directory)).add("dash", "read")
    client.get("deployment")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            data = path.read_bytes()
            assert made.encode() not in data
            assert (client.token or "").encode() not in data or path.name == "owner.token"
    assert served_at(server.service.directory) is not None
    end(server)
    assert served_at(server.service.directory) is None
    assert not (tmp_path / "state" / "owner.token").exists()
    again = serve(tmp_path / "state", "")
    try:
        later = Client(again)
        later.token = client.token
        assert later.ask("GET", "deployment").status == 401
    finally:
        end(again)


def test_answers_show_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "hunter2hunter2")
    text = SQL + "CREATE EVENT e AS SELECT item FROM bids WHERE price > 1e9;"
    text += "CREATE RULE r ON e DO CALL webhook('http://localhost:1/?token=${env:HOOK}');"
    server = serve(tmp_path / "state", text)
    try:
        client = Client(server)
        for path in ("rules", "graph", "queries", "streams", "/metrics", "/plain"):
            assert b"hunter2" not in client.ask("GET", path, raw=True).body
    finally:
        end(server)


def test_the_plain_page_escapes_names_and_works_without_script(client: Client) -> None:
    client.run('CREATE STREAM "<img x>" (a INT) FROM MEMORY; CREATE QUERY "<b>" AS SELECT a FROM "<img x>"')
    client.until(lambda: any(query["name"] == "<b>" for query in client.get("deployment")["beat"]["queries"]))
    answer = client.ask("GET", "/plain")
    assert b"&lt;b&gt;" in answer.body
    assert b"<b>on" not in answer.body
    assert b"<img" not in answer.body
    assert b"<script" not in answer.body
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    nobody = Client(client.server)
    nobody.token = None
    assert nobody.ask("GET", "/plain").status == 401
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{client.server.port}"}
    assert b"best" in client.ask("POST", "/plain", b"text=SHOW+QUERIES", form).body


def test_static_files_do_not_climb(client: Client) -> None:
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../views.py"):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = raw(client.server.port, head.encode())
        assert b"root:" not in answer
        assert b"class View" not in answer


def test_an_unexpected_error_gives_an_id_and_no_trace(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise KeyError("inner secret")

    monkeypatch.setattr(client.server.service.session, "check", broken)
    answer = client.ask("POST", "check", {"text": "SHOW QUERIES"})
    assert answer.status == 500
    assert set(answer.body) == {"type", "title", "status", "code", "detail", "id"}
    assert "inner" not in json.dumps(answer.body)
