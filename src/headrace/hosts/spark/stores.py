"""Spark's own part of a checkpoint in an object store."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.errors import HostFault
from headrace.hosts.spark.starting.context import given_to
from headrace.hosts.spark.starting.jvm import with_log
from headrace.hosts.spark.starting.launch import Launch
from headrace.hosts.spark.starting.settings import LOCAL_FILES
from headrace.storage.location import ObjectPath
from headrace.storage.object_settings import configure

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
#: Writes an entry of a log as one upload that becomes visible when it is complete; a module of Spark that few have.
_ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_PACKAGES = {"s3a": "hadoop-aws", "gs": None, "abfs": "hadoop-azure", "abfss": "hadoop-azure", "hdfs": None}


def learn_stores(launch: Launch) -> None:
    """Take over how Spark reaches stores, before it has started: the checkpoint may be in one."""
    configure({**given_to(launch), **launch.conf})


def store_session(spark: SparkSession, checkpoint: ObjectPath) -> SparkSession:
    """Return a session that keeps its part of a checkpoint in a store; HostFault if Spark cannot reach it."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    try:
        place = jvm.org.apache.hadoop.fs.Path(str(checkpoint))
        place.getFileSystem(conf).exists(place)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        if "ClassNotFoundException" in text or "No FileSystem for scheme" in text:
            raise HostFault(
                f"Spark cannot read {checkpoint.scheme}: URLs", hint=_hint(jvm, checkpoint.scheme)
            ) from error
        raise HostFault(
            f"Spark cannot reach {checkpoint}: {text.splitlines()[0]}",
            hint=with_log("look at the endpoint, the credentials and the name of the bucket"),
        ) from error
    session = spark.newSession()
    manager = session.conf.get(_MANAGER, None)
    if manager == LOCAL_FILES:  # it renames, which a store does by copying
        session.conf.unset(_MANAGER)
    if manager in (None, LOCAL_FILES) and checkpoint.scheme == "s3a" and _has(jvm, _ABORTABLE):
        session.conf.set(_MANAGER, _ABORTABLE)
    return session


def _hint(jvm: Any, scheme: str) -> str:
    version = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    package = _PACKAGES[scheme]
    if package is None:
        return "add the connector of the store to Spark's jars: spark.jars or spark.jars.packages"
    return f"add it to Spark's jars: spark.jars.packages=org.apache.hadoop:{package}:{version}"


def _has(jvm: Any, name: str) -> bool:
    try:
        jvm.java.lang.Class.forName(name)
    except Py4JJavaError:
        return False
    return True
