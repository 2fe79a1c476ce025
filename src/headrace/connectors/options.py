"""Options of a connector: which exist, and reading one as a value of the right kind."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

from headrace.catalog.definitions import Connector
from headrace.errors import NameFault, QueryError, TypeFault
from headrace.model.option import Option
from headrace.model.time import parse_duration

#: Ours, by what options of Spark, Flink and clients of Kafka are called, in lower case.
_ELSEWHERE = {
    "bootstrap.servers": "bootstrap",
    "bootstrap_servers": "bootstrap",
    "brokers": "bootstrap",
    "kafka.bootstrap.servers": "bootstrap",
    "properties.bootstrap.servers": "bootstrap",
    "kafka_topic": "topic",
    "subscribe": "topic",
    "auto.offset.reset": "start",
    "offset": "start",
    "scan.startup.mode": "start",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "value.format": "format",
    "value_format": "format",
    "maxoffsetspertrigger": "max_rows",
    "nullvalue": "null_value",
    "partitionby": "partition_by",
    "sep": "delimiter",
    "location": "path",
}
#: What to do about options that have no counterpart here.
_OTHERWISE = {
    "checkpointlocation": "leave it out: all progress is in the checkpoint of the deployment",
    "failondataloss": "leave it out: records that are gone before they are read are a fault",
    "group": "leave it out: progress is in the checkpoint, and no group is joined",
    "group.id": "leave it out: progress is in the checkpoint, and no group is joined",
    "inferschema": "leave it out: columns that are not declared are inferred",
    "kafka.group.id": "leave it out: progress is in the checkpoint, and no group is joined",
    "latestfirst": "leave it out: files are read in the order of their times",
    "maxfilespertrigger": "write max_rows 100000, a limit of rows whatever the number of files",
    "mode": "leave it out: records that cannot be read go to the stream <name>.bad",
    "properties.group.id": "leave it out: progress is in the checkpoint, and no group is joined",
}


def near(name: str, known: Iterable[str]) -> str:
    """Say what was meant instead of `name`, or what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"


def check_names(connector: Connector, known: Iterable[str], *, prefixes: tuple[str, ...] = ()) -> None:
    """Refuse options that the connector does not have."""
    known = tuple(known)
    for name in connector.options:
        if name not in known and not name.startswith(prefixes or ("\0",)):
            raise NameFault(f"{connector.kind} has no option {name!r}", hint=_instead(connector, name, known))


def _instead(connector: Connector, name: str, known: Collection[str]) -> str:
    ours = _ELSEWHERE.get(name.lower())
    if ours in known:
        return f"write {ours} {str(connector.options[name])!r}"
    return _OTHERWISE.get(name.lower()) or near(name, known)


def require(connector: Connector, name: str, example: str) -> Option:
    """Return the value of an option that must be there."""
    if name not in connector.options:
        raise QueryError(
            f"{connector.kind} needs the option {name!r}", hint=f"write {connector.kind} ({name} {example}, ...)"
        )
    return connector.options[name]


def text(options: Mapping[str, Option], name: str, default: str) -> str:
    """Read an option as text."""
    return str(options.get(name, default))


def delimiter(options: Mapping[str, Option]) -> str:
    """Read the character between the fields of CSV."""
    separator = text(options, "delimiter", ",").replace("\\t", "\t")
    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise QueryError(
            f"the delimiter {separator!r} is not a single character", hint="write one such as ',' or ';' or '\\t'"
        )
    return separator


#: Microseconds in the units in which numbers count from 1970.
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def epoch(options: Mapping[str, Option], form: str) -> int:
    """Read in which unit numbers in TIMESTAMP columns count from 1970, as microseconds."""
    unit = text(options, "epoch", "us")
    if unit not in _UNITS:
        raise NameFault(f"option 'epoch' is {unit!r}", hint="there are: s, ms, us; times since 1970 are in that unit")
    if "epoch" in options and form not in ("csv", "json"):
        raise QueryError(f"the option 'epoch' is for csv and json, not for {form}", hint="leave it out")
    return _UNITS[unit]


def flag(options: Mapping[str, Option], name: str, default: bool) -> bool:
    """Read an option as true or false."""
    value = options.get(name, default)
    if str(value).lower() in ("true", "yes", "on", "1"):
        return True
    if str(value).lower() in ("false", "no", "off", "0"):
        return False
    raise TypeFault(f"option {name!r} is {value!r}", hint="write true or false")


def whole(options: Mapping[str, Option], name: str, default: int, *, least: int = 0) -> int:
    """Read an option as a whole number of at least `least`."""
    value = options.get(name, default)
    try:
        number = int(str(value))
    except ValueError:
        raise TypeFault(f"option {name!r} is {value!r}", hint="write a whole number") from None
    if number < least:
        raise TypeFault(f"option {name!r} is {number}", hint=f"write a whole number from {least}")
    return number


def real(options: Mapping[str, Option], name: str, default: float) -> float:
    """Read an option as a positive number."""
    value = options.get(name, default)
    try:
        number = float(str(value).removesuffix("/s"))
    except ValueError:
        raise TypeFault(f"option {name!r} is {value!r}", hint="write a number") from None
    if not 0 < number < float("inf"):
        raise TypeFault(f"option {name!r} is {value!r}", hint="write a number above 0")
    return number


def duration(options: Mapping[str, Option], name: str, default: str) -> int:
    """Read an option such as '500 ms' as microseconds, at least one."""
    value = options.get(name, default)
    try:
        span = parse_duration(str(value))
    except ValueError as error:
        raise TypeFault(f"option {name!r}: {error}") from None
    if span < 1:
        raise TypeFault(f"option {name!r} is {value!r}", hint="write a duration above 0")
    return span
