"""What makes a run on Spark impossible is found out before statements take effect."""

import resource
import socket

import pytest

from headrace.errors import HostFault, QueryError
from headrace.hosts.spark.starting.context import check_version, start_fault
from headrace.session import Session

pytest.importorskip("pyspark")
SCRIPT = """
CREATE STREAM s (v INT) FROM MEMORY;
CREATE QUERY q AS SELECT v FROM s INTO MEMORY;
"""
NEEDED = "spark.sql.streaming.noDataMicroBatches.enabled"


@pytest.fixture
def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    """Let a Spark that other tests have started not count."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


def statements_of(directory):
    """Return the files that statements have written."""
    return {path.name for path in directory.rglob("*") if path.is_file()} - {"owner.json", "epoch.json"}


def test_an_unreachable_master(tmp_path, free_port):
    with Session(tmp_path / "state", master=f"spark://127.0.0.1:{free_port}") as session:
        with pytest.raises(HostFault, match=r"no master of Spark answers at spark://127\.0\.0\.1:\d+ \(.*refused"):
            session.execute(SCRIPT)
        assert session.catalog.get("s") is None
    assert statements_of(tmp_path) == set()


def test_a_setting_with_which_queries_cannot_run(tmp_path):
    fault = pytest.raises(HostFault, match=f"the setting {NEEDED} is true, and Headrace needs false")
    with Session(tmp_path / "state", conf={NEEDED: "true"}) as session, fault:
        session.execute(SCRIPT)
    assert statements_of(tmp_path) == set()


@pytest.mark.parametrize("start", [True, False])
def test_wrong_statements_are_told_before_spark_is_started(tmp_path, free_port, start):
    wrong = SCRIPT + "CREATE QUERY r AS SELECT w FROM s INTO MEMORY"
    with Session(tmp_path / "state", master=f"spark://127.0.0.1:{free_port}") as session:
        with pytest.raises(QueryError, match="w"):
            session.execute(wrong, start=start)
        assert session.catalog.get("s") is None
    assert statements_of(tmp_path) == set()


def test_definitions_without_queries_need_no_spark(tmp_path, free_port):
    with Session(tmp_path / "state", master=f"spark://127.0.0.1:{free_port}") as session:
        session.execute("CREATE STREAM s (v INT) FROM MEMORY; SHOW STREAMS")
        assert session.catalog.get("s") is not None


@pytest.mark.parametrize("url", ["viewfs://nn/state", "ftp://nn/state", "S4://a/b"])
def test_an_unknown_scheme(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError, match="which is not supported"):
        Session(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["3.5.5", "4.0.2", "4.2.1"])
def test_a_spark_that_is_too_old(tmp_path, monkeypatch, version):
    monkeypatch.setattr("pyspark.__version__", version)
    fault = pytest.raises(HostFault, match=f"Spark {version} is too old: Headrace needs Spark 4.3")
    with Session(tmp_path / "state") as session, fault:
        session.execute(SCRIPT)
    assert statements_of(tmp_path) == set()


@pytest.mark.parametrize("version", ["4.3.0", "4.10.1", "5.0.0.dev1"])
def test_a_spark_that_is_new_enough(version):
    check_version(version)


def test_a_limit_of_open_files_that_spark_cannot_start_with_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert "the limit is 256" in (start_fault("local[2]", RuntimeError("it ended")).hint or "")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    assert "Java 17" in (start_fault("local[2]", RuntimeError("it ended")).hint or "")
