"""Which Spark runs the queries: a session of the caller's program, or a master with settings.

Everything that can be wrong with a master or a setting as a text is found here, before Spark starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import HostFault

#: The variable by which spark-submit tells its program that a JVM is running.
GATEWAY = "PYSPARK_GATEWAY_PORT"

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_PLACE = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):\d+"
_CLUSTER = re.compile(rf"spark://{_PLACE}(?:,{_PLACE})*|yarn|k8s://\S+|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]")
_MASTERS = "local, local[4], spark://host:7077, yarn, k8s://https://host:443"


@dataclass(frozen=True, slots=True)
class Launch:
    """A Spark to use: a running one (`spark`), or one to start; without a master, where Spark's own files say."""

    spark: Any = None  # a pyspark.sql.SparkSession, which this module does not import
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    executors: int | None = None  # wait for so many

    def __post_init__(self) -> None:
        if self.master is not None:
            check_master(self.master)
        if self.spark is not None and self.master is not None:
            raise HostFault(
                f"a Spark session was given, so the master {self.master} cannot be used",
                hint="give either a session or a master",
            )
        for name in self.conf:
            _check_name(name)
        own = self.conf.get("spark.master")
        if own is not None:
            raise HostFault(f"spark.master={own} is not a setting here", hint=f"use --master {own}, or master={own!r}")
        if self.conf.get("spark.submit.deployMode", "client") != "client":
            raise HostFault(
                "spark.submit.deployMode=cluster is not a setting here: the driver is this process",
                hint="on YARN and Kubernetes, headrace submit --deploy-mode cluster lets the cluster run the driver",
            )
        if self.executors is not None and self.executors < 1:
            raise HostFault(f"executors must be 1 or more, not {self.executors}")

    @property
    def is_default(self) -> bool:
        """Return whether nothing was said about Spark."""
        return self == Launch()


def launch_of(
    spark: Any = None,
    master: str | None = None,
    conf: Mapping[str, str | int | float | bool] | None = None,
    executors: int | None = None,
) -> Launch:
    """Return which Spark to use, with settings as Python values."""
    if not isinstance(conf, Mapping | None):
        raise HostFault(f"conf is {conf!r}", hint="give a dictionary: {'spark.executor.memory': '4g'}")
    return Launch(spark, master, {str(name): _text(value) for name, value in (conf or {}).items()}, executors)


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Return settings that were written as `name=value`; a HostFault says what is wrong with one."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise HostFault(f"{text!r} is not a setting", hint="write name=value, as in spark.executor.memory=4g")
        _check_name(name)
        value = value.strip()
        if settings.setdefault(name, value) != value:
            raise HostFault(f"{name} is given twice: {settings[name]} and {value}", hint="give one value")
    return settings


def check_master(master: str) -> None:
    """Raise a HostFault if a text cannot be a master of Spark."""
    if not isinstance(master, str) or (not is_local(master) and _CLUSTER.fullmatch(master) is None):
        raise HostFault(f"{master!r} is not a master of Spark", hint=f"masters look like {_MASTERS}")


def is_local(master: str) -> bool:
    """Return whether all tasks run in the driver's own process."""
    return _LOCAL.fullmatch(master) is not None


def local_cores(master: str, machine: int) -> int:
    """Return how many tasks a local master runs at once, on a machine with so many cores."""
    match = _LOCAL.fullmatch(master)
    assert match is not None
    cores = match[1] or "1"
    return machine if cores == "*" else max(1, int(cores))


def places(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports at which a master must answer; none if the text does not say them."""
    if master.startswith("spark://"):
        texts = master.removeprefix("spark://").split(",")
    else:
        match = re.fullmatch(rf"k8s://(?:https?://)?({_PLACE})/?", master)
        texts = [match[1]] if match else []
    pairs = (text.rpartition(":") for text in texts)
    return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def _check_name(name: str) -> None:
    if not name.startswith("spark.") or re.search(r"\s", name):
        raise HostFault(f"{name!r} is not a setting of Spark", hint="settings begin with 'spark.'")


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
