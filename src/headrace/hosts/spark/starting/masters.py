"""Asks a standalone master whether it is one, before Spark starts with it.

Spark itself would try for more than a minute to register at whatever listens there, and say why in its log only.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf

from headrace.errors import HostFault
from headrace.hosts.spark.starting.launch import places

#: How long a master may take to accept a connection.
CONNECT_SECONDS = 10.0
#: How long a master may take to answer.
ANSWER_SECONDS = 20
#: The name under which Spark finds a master among what listens at a port.
_ENDPOINT = "Master"


def check_listening(master: str) -> None:
    """Raise a HostFault if no process accepts connections where a master should be."""
    failures = []
    for host, port in places(master):
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise HostFault(
            f"no master of Spark answers at {master} ({'; '.join(failures)})",
            hint="start it, or correct the address; for one machine leave --master out",
        )


def check_answering(jvm: Any, master: str, conf: SparkConf, *, seconds: int = ANSWER_SECONDS) -> None:
    """Raise a HostFault if what listens where a standalone master should be is something else.

    The question is asked as Spark will ask it, with its settings, so that a master may want encryption or a secret.
    """
    if not master.startswith("spark://"):
        return
    try:
        failures = _failures(jvm, places(master), conf, seconds)
    except Py4JError:  # Spark has other classes: let it find out itself
        return
    if failures:
        raise HostFault(
            f"what listens at {master} is not a master of Spark, or has another version ({'; '.join(failures)})",
            hint="the log of the master begins with its address; 7077 is its port unless another was chosen, and 8080 "
            "that of its web page",
        )


def _failures(jvm: Any, addresses: Sequence[tuple[str, int]], conf: SparkConf, seconds: int) -> list[str]:
    """Return why none of several addresses is that of a master; nothing if one is."""
    spark = jvm.org.apache.spark
    settings = spark.SparkConf()
    for name, value in conf.getAll():
        settings.set(name, value)
    settings.set("spark.rpc.lookupTimeout", f"{seconds}s")
    no_key = jvm.scala.Option.empty()
    secret_file = getattr(spark.SecurityManager, "$lessinit$greater$default$3")()
    security = spark.SecurityManager(settings, no_key, secret_file)
    client = spark.rpc.RpcEnv.create("headrace", "localhost", 0, settings, security, True)
    failures = []
    try:
        for host, port in addresses:
            try:
                client.setupEndpointRef(spark.rpc.RpcAddress(host, port), _ENDPOINT)
                return []
            except Py4JJavaError as error:
                failures.append(f"{host}:{port}: {_reason(error, seconds)}")
    finally:
        client.shutdown()
    return failures


def _reason(error: Py4JJavaError, seconds: int) -> str:
    """Return why a question failed: the innermost exception says it."""
    cause: Any = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    if "TimeoutException" in cause.getClass().getName():
        return f"no answer within {seconds} s"
    return str(cause.getMessage() or cause.toString()).splitlines()[0]
