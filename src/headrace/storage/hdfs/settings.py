"""How to reach HDFS over HTTP: what Hadoop's configuration says of its name nodes.

It is read from `HADOOP_CONF_DIR`, as Spark does, and from Spark's own settings, which win. The driver hands it to its
tasks, whose machines may have no such folder.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: As whom to ask: the user of the driver, also where tasks run as another one.
USER = "hadoop.user.name"
_POLICY = "dfs.http.policy"
_OURS = re.compile(
    r"dfs\.nameservices|dfs\.ha\.namenodes\..+|dfs\.namenode\.https?-address(\..+)?|dfs\.http\.policy|hadoop\.user\.name"
)
_FILES = ("core-site.xml", "hdfs-site.xml")
#: The ports on which name nodes answer by default.
_PORTS = {"http": 9870, "https": 9871}


@dataclass(frozen=True, slots=True)
class Hdfs:
    """The addresses of the name nodes that have the same files, and as whom to ask."""

    addresses: tuple[str, ...]
    user: str

    @property
    def identity(self) -> dict[str, str]:
        return {"user.name": self.user} if self.user else {}


def is_of_hdfs(name: str) -> bool:
    """Return whether a setting of Hadoop says how to reach HDFS."""
    return _OURS.fullmatch(name) is not None


def of_machine() -> dict[str, str]:
    """Return what the configuration of Hadoop on this machine says of HDFS, and who runs this process."""
    folder = os.environ.get("HADOOP_CONF_DIR", "")
    user = os.environ.get("HADOOP_USER_NAME") or _user()
    return {**(_read(folder) if folder else {}), **({USER: user} if user else {})}


def hdfs_of(authority: str, known: Mapping[str, str]) -> Hdfs:
    """Return how to reach the files of `hdfs://<authority>`: a name node with its port, or a name service."""
    scheme = "https" if known.get(_POLICY) == "HTTPS_ONLY" else "http"
    setting = f"dfs.namenode.{scheme}-address"
    nodes = [node.strip() for node in known.get(f"dfs.ha.namenodes.{authority}", "").split(",") if node.strip()]
    given = [known.get(f"{setting}.{authority}.{node}") for node in nodes] or [
        known.get(f"{setting}.{authority}") or known.get(setting)
    ]
    name = authority.rpartition(":")[0] or authority
    addresses = [_reachable(address, name, _PORTS[scheme]) for address in given if address or not nodes]
    return Hdfs(tuple(f"{scheme}://{address}" for address in addresses), known.get(USER, ""))


def _reachable(address: str | None, name: str, port: int) -> str:
    """Return an address for clients: where a server listens on all addresses, that of the name node."""
    host, _, given = (address or f"{name}:{port}").rpartition(":")
    return f"{name if host in ('0.0.0.0', '') else host}:{given}"


@functools.lru_cache(maxsize=4)
def _read(folder: str) -> dict[str, str]:
    from xml.etree import ElementTree  # here: few processes need it

    known: dict[str, str] = {}
    for name in _FILES:
        try:
            root = ElementTree.fromstring((Path(folder) / name).read_bytes())
        except (OSError, ElementTree.ParseError):  # Spark says what is wrong with it
            continue
        for entry in root.iter("property"):
            setting, value = entry.findtext("name", "").strip(), entry.findtext("value", "").strip()
            if is_of_hdfs(setting):
                known[setting] = value
    return known


@functools.cache
def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
