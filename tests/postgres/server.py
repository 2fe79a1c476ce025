"""A PostgreSQL for tests; `tests/postgres/setup` fetches one."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[2] / ".postgres"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL: that of HEADRACE_TEST_POSTGRES, or of a server that runs as long as the tests."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed: tests/postgres/setup")
    if given := os.environ.get("HEADRACE_TEST_POSTGRES"):
        yield given
        return
    if not (SERVER / "stamp").is_file():
        pytest.skip("no PostgreSQL: tests/postgres/setup, or set HEADRACE_TEST_POSTGRES to a server's address")
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as folder, _running(Path(folder)) as address:
        yield address


@contextmanager
def _running(folder: Path) -> Iterator[str]:
    """A new server on loopback that keeps everything in a folder."""
    programs, cluster, log = SERVER / "bin", folder / "cluster", folder / "log"
    account: dict[str, Any] = {}
    password = folder / "password"  # others on this machine reach the port too
    password.write_text(secrets.token_hex(16))
    if os.geteuid() == 0:  # PostgreSQL refuses to be root, and nobody else may be able to enter the checkout
        programs = shutil.copytree(SERVER, folder / "server", symlinks=True) / "bin"
        owner = pwd.getpwnam("nobody")
        account = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def call(program: str, *arguments: object) -> None:
        command = [str(programs / program), "-D", str(cluster), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **account
        )
        if done.returncode:
            pytest.fail(f"{program} failed: {done.stdout}{log.read_text() if log.exists() else ''}", pytrace=False)

    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    options = (f"--set={name}={value}" for name, value in settings.items())
    call(
        "initdb",
        "-U",
        "headrace",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        *options,
    )
    call("pg_ctl", "start", "--wait", "-l", log)
    try:
        yield f"postgresql://headrace:{password.read_text()}@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "stop", "--wait", "--mode=fast")  # by the process id that the cluster holds


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The address of an empty schema in a PostgreSQL."""
    import psycopg

    schema = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres}{'&' if '?' in postgres else '?'}options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
