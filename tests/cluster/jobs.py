"""What tests let a driver do beside running scripts: applications, golden scripts, random queries, topics."""

from __future__ import annotations

import contextlib
import os
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from tests.cluster.machine import ROOT
from tests.kafka.test_kafka_topics import Topics, readings
from tests.spark.oracle_case import compare

from headrace.applications.application import Application
from headrace.applications.application import run as run_application
from headrace.applications.car_adn.application import CarAdn
from headrace.applications.nfmi.application import Nfmi
from headrace.applications.rfid.application import Rfid
from headrace.errors import HostFault
from headrace.session import Session
from headrace.storage import files
from headrace.storage.location import location
from headrace.testing.golden.runner import run_together

APPLICATIONS: dict[str, Application] = {
    application.name: application for application in (CarAdn(accidents=2, cars=3), Nfmi(repeat=20), Rfid(cases=10))
}


def application(name: str, checkpoint: str, folder: str) -> list[str]:
    """Run an application; return what it did not find."""
    chosen = APPLICATIONS[name]
    with Session(checkpoint, buckets=4) as session:
        results = run_application(chosen, session, Path(folder), 1)
    return [str(check) for check in chosen.checks(1, Path(folder), results) if not check.holds]


def golden(checkpoint: str) -> list[str]:
    """Run the golden scripts of queries in one session; return the lines that differ."""
    scripts = [path.read_text() for path in sorted((ROOT / "tests" / "golden" / "queries").glob("*.txt"))]
    with contextlib.chdir(ROOT / "tests" / "golden"), Session(checkpoint, buckets=4) as session:
        outcomes = run_together(scripts, session)
    return [
        f"{line!r} instead of {expected!r}"
        for script, outcome in zip(scripts, outcomes, strict=True)
        for expected, line in zip(script.splitlines(), outcome.splitlines(), strict=False)
        if line != expected
    ]


def oracle(checkpoint: str, number: int, per_shape: int) -> dict[str, Any]:
    """Run random queries; return how they compare with the oracle."""
    with Session(checkpoint, buckets=4, page=7) as session:
        return asdict(compare(session, number, per_shape=per_shape))


def refused(checkpoint: str, text: str, python: str | None = None, version: str | None = None) -> dict[str, Any]:
    """Run statements as if executors had another Python; return the fault, and what is in the checkpoint then.

    `python` is its path there. With a `version`, it is the driver that has another one than the executors.
    """
    context = SparkContext.getOrCreate()
    before = context.pythonExec, context.pythonVer
    context.pythonExec, context.pythonVer = python or before[0], version or before[1]
    try:
        with Session(checkpoint) as session:
            session.execute(text)
    except HostFault as fault:
        return {"message": fault.message, "hint": fault.hint, "files": sorted(os.listdir(checkpoint))}
    finally:
        context.pythonExec, context.pythonVer = before
    raise AssertionError("the statements were not refused")


def make_topics(address: str, names: list[str], partitions: int) -> None:
    for name in names:
        Topics(address).make(name, partitions)


def send_readings(address: str, topic: str, first: int, last: int) -> None:
    """Send a reading of every segment, ten times a second, from one second to another."""
    Topics(address).send(topic, readings(first, last))


def values(address: str, topic: str, partitions: int) -> list[Any]:
    """Return the values in a topic."""
    return [value for _, _, value in Topics(address).values(topic, partitions)]


def copy_files(source: str, target: str) -> None:
    """Copy the files of a folder and of those in it, from or to a store."""
    here, there = location(source), location(target)
    for name in files.names(here):
        if "." in name:
            files.replace(there / name, files.read(here / name))
        else:
            copy_files(str(here / name), str(there / name))


def make_bucket(endpoint: str, name: str) -> None:
    """Make a bucket in an imitation of S3."""
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
