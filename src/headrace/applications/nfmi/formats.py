"""The formats of the network's messages, for `FROM FILES (format 'python:headrace.applications.nfmi.formats:...')`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files

from headrace.applications.nfmi.cursor import Rejected, extract
from headrace.applications.nfmi.script import parse


def reading(scripts: str) -> Callable[[str], Mapping[str, str]]:
    """Return a function that extracts fields with the first script that accepts a message; ValueError if none does."""
    parsed = parse(scripts)

    def read(message: str) -> Mapping[str, str]:
        match extract(message, parsed):
            case Rejected() as rejected:
                raise ValueError(str(rejected))
            case fields:
                return fields

    return read


def _packaged(name: str) -> Callable[[str], Mapping[str, str]]:
    return reading(files("headrace.applications.nfmi").joinpath(f"{name}.cursor").read_text())


transport = _packaged("transport")
circuits = _packaged("circuits")
traps = _packaged("traps")
switches = _packaged("switches")
