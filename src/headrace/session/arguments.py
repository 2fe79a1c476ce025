"""Checks of what programs pass to a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from headrace.errors import HostFault, NameFault
from headrace.hosts.spark.starting.launch import Launch
from headrace.language.names import did_you_mean
from headrace.model.allowed_python import allow


def check_arguments(
    checkpoint: object,
    host: object,
    launch: Launch,
    buckets: object,
    limit: object,
    page: object,
    interval: object,
    live: bool,
) -> None:
    """Raise a fault if a session cannot be made with these arguments."""
    if not callable(host) and host not in ("spark", "local"):
        raise HostFault(
            f"host is {host!r}", hint="it is 'spark' or 'local'; master='spark://host:7077' names a cluster"
        )
    if checkpoint == "":
        raise HostFault("the checkpoint has no name", hint="name a folder, or leave it out for a temporary one")
    if host != "spark" and not launch.is_default:
        raise HostFault(
            "spark, master, conf and executors are for the host 'spark'",
            hint="leave them out, or leave the host out",
        )
    if live and host != "local":
        raise HostFault("live is for the host 'local'", hint="leave it out: Spark always runs in the background")
    for name, count in (("buckets", buckets), ("limit", limit), ("page", page)):
        if not (isinstance(count, int) and count >= 1) and not (name == "buckets" and count is None):
            raise HostFault(f"{name} is {count!r}", hint="give a whole number of 1 or more, or leave it out")
    if interval is not None and not (isinstance(interval, int | float) and interval >= 0):
        raise HostFault(f"interval is {interval!r}", hint="give a number of seconds, or leave it out")


def check_choice(what: str, given: object, choices: Any) -> None:
    """Raise a fault if a value is none of those of a Literal."""
    if given not in get_args(choices):
        known = ", ".join(map(repr, get_args(choices)))
        raise NameFault(f"{what} {given!r} does not exist", hint=f"there are {known}")


def check_callable(function: object) -> None:
    """Raise a fault if what is to be called cannot be."""
    if not callable(function):
        raise NameFault(f"{function!r} is not a function", hint="give the function itself, such as print")


def allow_modules(modules: Sequence[str]) -> None:
    """Let statements name further modules of Python."""
    if isinstance(modules, str):
        raise HostFault(f"python_modules is the text {modules!r}", hint=f"give a list of names: [{modules!r}]")
    try:
        allow(modules)
    except ValueError as error:
        raise HostFault(f"python_modules: {error}", hint="give a list of names of modules") from error


def named(name: str, known: Iterable[str]) -> str:
    """Return the query or rule of this name as it was written when it was created; a fault if there is none."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = by_lower.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        otherwise = f"there are {', '.join(by_lower.values())}" if by_lower else "create it first with CREATE QUERY"
        hint = did_you_mean(str(name), by_lower.values(), otherwise=otherwise)
        raise NameFault(f"query {name!r} does not exist", hint=hint)
    return found
