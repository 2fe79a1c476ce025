"""Which Spark is used, as far as it can be said without starting one."""

import os
import site
import socket
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext

from headrace.errors import HostFault
from headrace.hosts.spark.starting import context, installation
from headrace.hosts.spark.starting.context import session_for
from headrace.hosts.spark.starting.given import given_settings, parse_properties, submitted_master
from headrace.hosts.spark.starting.launch import (
    GATEWAY,
    Launch,
    is_local,
    launch_of,
    local_cores,
    parse_settings,
    places,
)
from headrace.hosts.spark.starting.masters import check_listening
from headrace.hosts.spark.starting.settings import ANYWHERE, NEEDED, ONE_MACHINE, chosen_settings, session_settings
from headrace.session import Session

MASTERS = {
    "local": [],
    "local[4]": [],
    "local[*, 4]": [],
    "local-cluster[2,1,1024]": [],
    "yarn": [],
    "spark://10.0.0.5:7077": [("10.0.0.5", 7077)],
    "spark://a:7077,b:7078": [("a", 7077), ("b", 7078)],
    "spark://[::1]:7077": [("::1", 7077)],
    "k8s://https://10.0.0.5:6443": [("10.0.0.5", 6443)],
    "k8s://api.example.com": [],
}


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch, tmp_path):
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "MASTER", "SPARK_REMOTE", "SPARK_DRIVER_MEMORY", GATEWAY):
        monkeypatch.delenv(name, raising=False)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "MALLOC_ARENA_MAX"):  # a start sets them
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(context, "start_jvm", lambda *_: pytest.fail("Spark starts"))


@pytest.mark.parametrize("master", MASTERS)
def test_masters_of_spark_are_known(master):
    assert Launch(master=master).master == master
    assert is_local(master) == (master.startswith("local") and not master.startswith("local-"))
    assert places(master) == MASTERS[master]


@pytest.mark.parametrize(
    "master", ["", "spark", "spark://host", "spark://host:port", "local[x]", "mesos://a:1", "ssh://a"]
)
def test_another_master_is_refused_with_examples(master):
    with pytest.raises(HostFault, match="is not a master of Spark") as raised:
        Launch(master=master)
    assert "spark://host:7077" in raised.value.hint


def test_a_local_master_says_how_many_tasks_run_at_once():
    assert [local_cores(master, 8) for master in ("local", "local[3]", "local[*]", "local[5, 2]")] == [1, 3, 8, 5]


def test_settings_are_names_and_values():
    assert parse_settings(["spark.a=1", "spark.b = x=y", "spark.c="]) == {
        "spark.a": "1",
        "spark.b": "x=y",
        "spark.c": "",
    }
    assert launch_of(conf={"spark.a": True, "spark.b": 2}).conf == {"spark.a": "true", "spark.b": "2"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["spark.a"], "'spark.a' is not a setting"),
        (["=1"], "'=1' is not a setting"),
        (["memory=1g"], "'memory' is not a setting of Spark"),
        (["spark.a=1", "spark.a=2"], "spark.a is given twice: 1 and 2"),
    ],
)
def test_a_malformed_setting_is_named(texts, message):
    with pytest.raises(HostFault, match=message):
        parse_settings(texts)


def test_a_session_and_a_master_contradict_each_other():
    with pytest.raises(HostFault, match="a Spark session was given"):
        Launch(spark=object(), master="yarn")
    with pytest.raises(HostFault, match=r"spark\.master=yarn is not a setting here") as raised:
        Launch(conf={"spark.master": "yarn"})
    assert "--master yarn" in raised.value.hint


def test_a_driver_that_runs_here_is_not_one_of_the_cluster():
    Launch(conf={"spark.submit.deployMode": "client"})
    with pytest.raises(HostFault, match=r"spark\.submit\.deployMode=cluster is not a setting here") as raised:
        Launch(master="spark://a:7077", conf={"spark.submit.deployMode": "cluster"})
    assert "headrace submit --deploy-mode cluster" in raised.value.hint


def test_the_local_host_takes_no_spark(tmp_path):
    with pytest.raises(HostFault, match="are for the host 'spark'"):
        Session(tmp_path / "state", host="local", master="yarn")
    with pytest.raises(HostFault, match="is not a master of Spark"):
        Session(tmp_path / "state", master="nowhere")
    assert not (tmp_path / "state").exists()


def test_files_of_properties_are_read_as_java_reads_them():
    text = "# spark.no 1\nspark.a 1\nspark.b=2 \n spark.c : three words\nspark.d  x\\\n   y\nother 1\nspark.e\n"
    assert parse_properties(text) == {
        "spark.a": "1", "spark.b": "2", "spark.c": "three words", "spark.d": "xy", "spark.e": ""
    }  # fmt: skip


def test_options_win_over_files_and_files_over_variables(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master yarn\nspark.driver.memory 3g\nspark.a 1\n")
    environ = {"MASTER": "local[7]", "SPARK_DRIVER_MEMORY": "9g"}
    assert given_settings(environ, tmp_path / "none") == {"spark.master": "local[7]", "spark.driver.memory": "9g"}
    defaults = given_settings(environ, tmp_path)
    assert defaults == {"spark.master": "yarn", "spark.driver.memory": "3g", "spark.a": "1"}
    assert given_settings({"SPARK_CONF_DIR": str(tmp_path / "conf")}, tmp_path / "none") == defaults
    environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master spark://a:1 --conf spark.a=2 --driver-memory=5g -c spark.b=3 pyspark-shell"
    )
    assert submitted_master(environ) == "spark://a:1"
    assert given_settings(environ, tmp_path) == {
        "spark.master": "spark://a:1", "spark.driver.memory": "5g", "spark.a": "2", "spark.b": "3"
    }  # fmt: skip


def test_a_file_that_the_options_name_takes_the_place_of_the_defaults(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.a 1\n")
    (tmp_path / "mine.conf").write_text("spark.b 2\n")
    environ = {"PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path / 'mine.conf'} pyspark-shell"}
    assert given_settings(environ, tmp_path) == {"spark.b": "2"}
    (tmp_path / "mine.conf").unlink()
    with pytest.raises(HostFault, match=r"mine\.conf, which does not exist"):
        given_settings(environ, tmp_path)


def test_what_the_user_has_set_is_left_alone():
    given = {setting.name: "theirs" for setting in (*ANYWHERE, *ONE_MACHINE)}
    assert chosen_settings(given, is_local=True) == {setting.name: setting.value for setting in NEEDED}


def test_settings_of_one_machine_are_not_those_of_a_cluster():
    local, cluster = chosen_settings({}, is_local=True), chosen_settings({}, is_local=False)
    assert {setting.name for setting in ONE_MACHINE} <= set(local)
    assert not {setting.name for setting in ONE_MACHINE} & set(cluster)
    assert cluster["spark.locality.wait"] == "200ms"


def test_a_session_in_the_spark_of_another_program_gets_only_what_a_session_can_have():
    settings = session_settings({"spark.sql.adaptive.enabled": "true"})
    assert "spark.sql.adaptive.enabled" not in settings
    assert all(name.startswith("spark.sql.") for name in settings)


@pytest.mark.parametrize("where", ["conf", "file"])
def test_a_setting_that_contradicts_what_headrace_needs_is_named(where, tmp_path, monkeypatch):
    name = "spark.sql.streaming.stateStore.providerClass"
    (tmp_path / "spark-defaults.conf").write_text(f"{name} Other\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path) if where == "file" else str(tmp_path / "none"))
    with pytest.raises(HostFault, match=f"{name} is Other, and Headrace needs") as raised:
        session_for(Launch(conf={name: "Other"} if where == "conf" else {}))
    assert f"--conf {name}=" in raised.value.hint


def test_a_master_that_does_not_answer_is_one_sentence_and_nothing_starts():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(HostFault, match=rf"no master of Spark answers at spark://127\.0\.0\.1:{port} \(.*refused"):
        session_for(Launch(master=f"spark://127.0.0.1:{port}"))


def test_one_of_several_masters_is_enough(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = (gone.getsockname()[1], server.getsockname()[1])
        gone.close()
        check_listening(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")


def test_a_master_here_and_another_for_spark_submit_contradict_each_other(monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell")
    with pytest.raises(HostFault, match=r"the master is local\[2\] here and yarn for spark-submit"):
        session_for(Launch(master="local[2]"))


def test_spark_connect_is_refused(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(HostFault, match="SPARK_REMOTE is sc://host"):
        session_for()
    with pytest.raises(HostFault, match="'spark' cannot run queries"):
        session_for(Launch(spark="spark"))


def test_a_master_in_the_defaults_of_spark_is_used(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://127.0.0.1:1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(HostFault, match="no master of Spark answers at spark://127"):
        session_for()


def test_on_a_cluster_the_python_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    settings = context._settings("spark://a:1", {"spark.app.name": "mine"}, Launch(conf={"spark.executor.cores": "2"}))
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert settings["spark.master"] == "spark://a:1"
    assert settings["spark.executor.cores"] == "2"
    monkeypatch.delenv("PYSPARK_PYTHON")
    context._settings("yarn", {"spark.pyspark.python": "./environment/bin/python"}, Launch())
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


def test_executors_are_asked_for_where_a_cluster_makes_them():
    assert context._settings("yarn", {}, Launch(executors=3))["spark.executor.instances"] == "3"
    given = {"spark.executor.instances": "5"}
    assert "spark.executor.instances" not in context._settings("yarn", given, Launch())


def test_settings_of_the_jvm_are_not_chosen_if_it_runs(monkeypatch):
    monkeypatch.setenv(GATEWAY, "1")
    settings = context._settings("yarn", {}, Launch())
    assert "spark.driver.memory" not in settings


def test_a_folder_of_settings_in_the_installed_spark_is_used(tmp_path: Path, monkeypatch):
    package = tmp_path / "site" / "pyspark"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "spark-submit").write_text("")
    monkeypatch.setattr(pyspark, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path / "site")])
    assert installation.spark_home(tmp_path / "cache") is not None
    (package / "conf").mkdir()
    assert installation.spark_home(tmp_path / "cache") is None
