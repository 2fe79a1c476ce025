"""Where WebHDFS is, by what Hadoop's configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.storage import object_settings
from headrace.storage.hdfs.settings import hdfs_of, of_machine

HA = {
    "dfs.nameservices": "lake",
    "dfs.ha.namenodes.lake": "nn1, nn2",
    "dfs.namenode.http-address.lake.nn1": "one:9870",
    "dfs.namenode.http-address.lake.nn2": "two:9870",
}


@pytest.mark.parametrize(
    ("authority", "known", "addresses"),
    [
        ("nn:8020", {}, ("http://nn:9870",)),
        ("nn", {}, ("http://nn:9870",)),
        ("nn:8020", {"dfs.namenode.http-address": "0.0.0.0:50070"}, ("http://nn:50070",)),
        ("nn:8020", {"dfs.namenode.http-address": "web:1"}, ("http://web:1",)),
        ("nn:8020", {"dfs.http.policy": "HTTPS_ONLY"}, ("https://nn:9871",)),
        ("lake", HA, ("http://one:9870", "http://two:9870")),
        ("other:8020", HA, ("http://other:9870",)),
        ("lake", {"dfs.ha.namenodes.lake": "nn1,nn2"}, ()),
    ],
)
def test_an_address_is_found_for_every_authority(
    authority: str, known: dict[str, str], addresses: tuple[str, ...]
) -> None:
    assert hdfs_of(authority, known).addresses == addresses


def test_spark_settings_win_over_the_files_of_hadoop_and_tasks_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")  # damaged
    (tmp_path / "hdfs-site.xml").write_text(
        "<configuration><property><name>dfs.namenode.http-address</name><value> web:1 </value></property>"
        "<property><name>dfs.replication</name><value>3</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", "ada")
    monkeypatch.setattr(object_settings, "_given", {})
    assert of_machine() == {"dfs.namenode.http-address": "web:1", "hadoop.user.name": "ada"}
    assert object_settings.for_spark() == {}  # it reads these files itself
    object_settings.configure({"spark.hadoop.dfs.namenode.http-address": "web:2", "spark.hadoop.dfs.replication": "1"})
    known = object_settings.configured()
    assert known["dfs.namenode.http-address"] == "web:2"
    assert "dfs.replication" not in known
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("HADOOP_USER_NAME", "yarn")  # a task
    monkeypatch.setattr(object_settings, "_given", {})
    object_settings.configure(known)
    assert hdfs_of("nn:8020", object_settings.configured()) == hdfs_of("nn:8020", known)
    assert hdfs_of("nn:8020", object_settings.configured()).identity == {"user.name": "ada"}
