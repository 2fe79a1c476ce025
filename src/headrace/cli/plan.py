"""`headrace plan`: predict whether the promises of queries would hold, without running them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import typer

from headrace.analysis.forecast.facts import SERVICE
from headrace.analysis.forecast.report import format_report
from headrace.cli.help import examples
from headrace.cli.live_session import allow_python, beside, python_option, statements_in
from headrace.cli.output import PROMISE_BROKEN, faults, out
from headrace.language.names import did_you_mean
from headrace.model.qos import parse_rate
from headrace.session import Session
from headrace.session.forecast import Stated

EXAMPLES = examples(
    ("generated streams declare their own rates", "plan examples/promises.sql"),
    ("at another rate", "plan examples/promises.sql --rate probes=200000/s"),
    ("with measured costs, on a machine twice as fast",
     "plan examples/promises.sql --service join=5us --selectivity filter=0.1 --speedup 2"),
    note="The exit code is 0 if every MUST promise would hold, else 4.",
)  # fmt: skip
_TIME = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*(ns|us|ms|s)\s*", re.IGNORECASE)
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def plan(
    file: Path = typer.Argument(
        ..., exists=True, dir_okay=False, readable=True, help="SQL statements, separated by semicolons."
    ),
    rate: list[str] = typer.Option([], "--rate", metavar="STREAM=N/s", help="Rate of a stream. Repeatable."),
    service: list[str] = typer.Option(
        [], "--service", metavar="KIND=TIME", help="Time per tuple of a kind of operator, such as join=5us."
    ),
    selectivity: list[str] = typer.Option(
        [], "--selectivity", metavar="KIND=N", help="Outputs per input of a kind of operator, such as filter=0.1."
    ),
    groups: float | None = typer.Option(None, "--groups", min=1, help="Number of distinct keys in a window or join."),
    overhead: str = typer.Option(
        "50ms", "--overhead", metavar="TIME", help="Cost of a micro-batch besides its operators."
    ),
    speedup: float = typer.Option(1.0, "--speedup", min=1e-6, help="Assume a processor this many times as fast."),
    python: list[str] = python_option(),
    json: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Also write the forecast to this file, as JSON."
    ),
) -> None:
    """Predict latency, memory and load of the queries of a file, and whether promises would hold. Needs no Java."""
    text = statements_in(file)
    beside(file)
    allow_python(python)
    with faults(text), Session(host="local") as session:
        streams = session.streams_of(text)
        rates = {name: known for name, known in streams.items() if known is not None}
        rates |= dict(_pair(text, "--rate", "2000/s", streams, parse_rate) for text in rate)
        services = dict(_pair(text, "--service", "5us", SERVICE, _seconds) for text in service)
        selectivities = dict(_pair(text, "--selectivity", "0.1", SERVICE, _share) for text in selectivity)
        if missing := [name for name in streams if name not in rates]:
            options = " ".join(f"--rate {name}=1000/s" for name in missing)
            raise typer.BadParameter(f"the rate of {', '.join(missing)} is not known; add {options}")
        stated = Stated(rates, services, selectivities, _time(overhead, "--overhead"), groups)
        report = session.foretell(text, stated, speed=speedup)
    out.print(format_report(report), markup=False)
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if not report.kept:
        raise typer.Exit(PROMISE_BROKEN)


def _pair(
    text: str, option: str, example: str, known: Collection[str], parse: Callable[[str], float]
) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"write {option} {name}={example}")
    if name not in known:
        near = did_you_mean(name, list(known), otherwise=f"there are: {', '.join(sorted(known))}")
        raise typer.BadParameter(f"{option}: there is no {name!r}; {near}")
    try:
        return name, parse(value)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def _time(text: str, option: str) -> float:
    try:
        return _seconds(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def _share(text: str) -> float:
    value = float(text)
    if value < 0:
        raise ValueError("a selectivity must not be negative")
    return value


def _seconds(text: str) -> float:
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a time such as 5us or 0.3ms")
    return float(parts[1]) * _UNITS[parts[2].lower()]
