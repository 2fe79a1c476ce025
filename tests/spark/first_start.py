"""Runs a few queries on Spark to their end, if Java has not kept the classes of an earlier run; tests/spark/setup."""

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.spark.conftest import JAVA_OPTIONS
from tests.spark.crash_case import FEW, script_with, write_data

from headrace.cli import java
from headrace.errors import HostFault
from headrace.hosts.spark.starting.context import session_for
from headrace.session import Session


def main() -> None:
    java.prepare()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
    if "-XX:ArchiveClassesAtExit" not in session_for().sparkContext.getConf().get("spark.driver.extraJavaOptions", ""):
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_data(place / "data", 1, parts=4)
        with Session(place / "checkpoint", buckets=2) as session:
            session.execute(script_with(FEW).format(data=place / "data", out=place / "out"))
            session.drain()
    gateway = SparkContext._gateway
    SparkSession.active().stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends, and writes the classes
    gateway.proc.wait()


if __name__ == "__main__":
    try:
        main()
    except HostFault as error:
        sys.exit(error.render())
