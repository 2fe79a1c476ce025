"""The fence: what statements from the network may reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.conftest import Client, end, serve

from headrace.connectors.kinds import SINKS, SOURCES
from headrace.errors import Fenced, HeadraceError
from headrace.language.parser import parse
from headrace.language.syntax.names import FED
from headrace.server.fence import REACH, Policy, check_statement
from headrace.server.server import Options

COLUMNS = "(a INT)"


def check(text: str, policy: Policy, resolve=lambda host: ["203.0.113.7"]) -> None:
    for statement in parse(text):
        check_statement(statement, policy, resolve)


def test_every_kind_of_source_and_sink_has_an_entry() -> None:
    own = {"RAISED", "FAILURES", "SYSTEM"}  # no statement can name them
    assert {*SOURCES, *SINKS} - own == {*REACH} - {FED}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x.csv",
        "data/../../x.csv",
        "file:///etc/*.conf",
        "/etc/*",
        "link/x.csv",
        "data/*/../../../x",
    ],
)
def test_files_outside_the_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "in")
    policy = Policy(tmp_path / "in")
    check(f"CREATE STREAM s {COLUMNS} FROM FILES (path 'data/*.csv', format 'csv')", policy)
    for text in (
        f"CREATE STREAM s {COLUMNS} FROM FILES (path '{path}', format 'csv')",
        f"CREATE TABLE s FROM FILES (path '{path}', format 'csv')",
        f"CREATE QUERY q AS SELECT a FROM s INTO FILES (path '{path}')",
        f"SELECT a FROM s INTO FILES (path '{path}')",
        f"CREATE SINK k INTO FILES (path '{path}')",
        f"CREATE RULE r ON e DO INSERT INTO FILES (path '{path}')",
    ):
        with pytest.raises(Fenced, match="folder"):
            check(text, policy)


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE STREAM s {COLUMNS} FROM SOCKET (host 'db.internal', port 5432)",
        f"CREATE STREAM s {COLUMNS} FROM KAFKA (bootstrap 'localhost:9092,db.internal:9092', topic 't')",
        "CREATE RULE r ON e DO CALL webhook('http://db.internal/x')",
        "CREATE QUERY q AS SELECT a FROM s INTO KAFKA (bootstrap 'db.internal:9092', topic 't')",
        "CREATE QUERY q AS SELECT a FROM s INTO POSTGRES (url 'postgresql://me:x@db.internal:5432/x', table 't')",
        "CREATE QUERY q AS SELECT a FROM s INTO POSTGRES (url 'postgresql://localhost:1,db.internal/x', table 't')",
    ],
)
def test_hosts_must_be_allowed_by_name_and_by_address(text: str) -> None:
    with pytest.raises(Fenced, match=r"db\.internal") as found:
        check(text, Policy())
    assert "--allow-address db.internal" in (found.value.hint or "")
    allowed = Policy(addresses=frozenset({"db.internal"}))
    check(text, allowed, lambda host: ["203.0.113.7"] if host == "db.internal" else ["127.0.0.1"])
    for address in ("169.254.169.254", "fe80::1", "0.0.0.0", "127.0.0.1"):
        with pytest.raises(Fenced):
            check(text, allowed, lambda host, address=address: [address] if host == "db.internal" else ["127.0.0.1"])


def test_loopback_is_allowed_and_spark_formats_and_secrets_are_not() -> None:
    check(f"CREATE STREAM s {COLUMNS} FROM SOCKET (port 9999)", Policy(), lambda host: ["127.0.0.1"])
    spark = f"CREATE STREAM s {COLUMNS} FROM SPARK (format 'jdbc')"
    with pytest.raises(Fenced, match="jdbc"):
        check(spark, Policy())
    check(spark, Policy(spark=frozenset({"JDBC"})))
    secret = (
        f"CREATE STREAM s {COLUMNS} FROM KAFKA "
        "(bootstrap 'localhost:9092', topic 't', sasl.password '${file:/etc/shadow}')"
    )
    with pytest.raises(Fenced, match="file:/etc/shadow"):
        check(secret, Policy(), lambda host: ["127.0.0.1"])
    check(secret, Policy(secrets=frozenset({"file:/etc/*"})), lambda host: ["127.0.0.1"])


@pytest.mark.parametrize("parameter", ["host=db.internal", "hostaddr=10.0.0.1", "passfile=/etc/shadow", "service=x"])
def test_the_url_of_a_database_names_no_other_place_and_no_file(parameter: str) -> None:
    text = "CREATE QUERY q AS SELECT a FROM s INTO POSTGRES (url 'postgresql://localhost/x?{}', table 't')"
    with pytest.raises(Fenced, match=parameter.partition("=")[0]):
        check(text.format(parameter), Policy(), lambda host: ["127.0.0.1"])
    check(text.format("sslmode=require"), Policy(), lambda host: ["127.0.0.1"])


def test_the_operators_own_statements_are_not_fenced_and_those_of_clients_are(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n")
    text = f"CREATE TABLE t FROM FILES (path '{tmp_path}/in.csv', format 'csv');"
    server = serve(tmp_path / "state", text, Options(port=0, policy=Policy(tmp_path / "allowed")))
    try:
        client = Client(server)
        assert [table["name"] for table in client.get("tables")] == ["t"]
        answer = client.run("SHOW TABLES; " + text.replace("TABLE t", "TABLE u"))
        assert (answer.status, answer.body["code"], answer.body["title"]) == (403, "HR207", "Fenced")
        assert answer.body["span"]["start"] > len("SHOW TABLES;")
        for path in ("check", "explain"):
            found = client.ask("POST", path, {"text": text.replace("TABLE t", "TABLE u")}).body
            assert "Fenced" in str(found)
        answered = client.run("SELECT count(*) AS n, max(a) AS most FROM t").body["outcomes"]
        assert [(each["columns"], each["rows"]) for each in answered] == [(["n", "most"], [[1, 1]])]
        fed = "CREATE STREAM s (id INT) FROM MEMORY; CREATE TABLE newest (id INT, PRIMARY KEY (id)) FROM s"
        assert client.run(fed).status == 200
        python = "CREATE AGGREGATE a(DOUBLE) RETURNS DOUBLE FROM PYTHON 'subprocess:Popen'"
        assert client.run(python).status == 422
    finally:
        end(server)


def test_a_fault_of_the_fence_is_an_error_of_ours() -> None:
    assert issubclass(Fenced, HeadraceError)
