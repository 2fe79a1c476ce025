"""Nexmark's queries q0 to q22 beside plain Spark and Flink, from files or Kafka, each compared with DuckDB's answer.

One query runs at a time, with Headrace, then with Spark in the same JVM, then with Flink in a JVM of its own, from the
same rows; all write Parquet files. `benches.parts.beside_peers` says how rates are taken. The notes give the whole time
from the first statement to the last result in a JVM that runs already. Some queries also run as commands, each in a
process of its own. Spark closes no window at the end of its input: queries with state get two more micro-batches of one
row that is far ahead, without which Spark would not give all results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benches.parts import nexmark
from benches.parts.beside_peers import Events, measure, peers_of, prepared, size_of
from benches.parts.dialects import Query
from benches.parts.nexmark import EVENTS, SCHEMAS, generate, side_input
from benches.parts.nexmark_queries import QUERIES
from benches.parts.outcome import Disagreement
from benches.parts.peer_figures import case_of, line_of, seconds_of, summary
from benches.parts.whole_commands import start_once, whole_times

from headrace.errors import HostFault

SEED = 11
#: Queries that also run as commands: without state, with windows, with a join of windows, with a join.
COMMANDS = ("q0", "q5", "q8", "q20")
#: Queries that run before the first one is measured, so that the compilers of all JVMs have done most of their work: a
#: window, a join of windows, none of both, an aggregate of many groups.
WARM_UP = ("q12", "q8", "q0", "q17")


def main(
    quick: bool,
    medium: bool = False,
    large: bool = False,
    queries: str = "",
    peers: str = "",
    input: str = "files",
    earlier: Mapping[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure the named queries beside the named peers; `input` is files or kafka.

    If no query is named, these are the ones that `earlier` figures of the same size lack. `keep` gets the figures so
    far after each query.
    """
    chosen, beside = _chosen(queries), peers_of(peers)
    size = size_of(quick, medium, large)
    title = f"Nexmark from {input}, {size}"
    figures: dict[str, Any] = {"bench": "nexmark", "title": title, "cases": {}, "commands": {}}
    if earlier is not None and earlier.get("title") == title:
        figures |= {part: dict(earlier[part]) for part in ("cases", "commands")}
    due = {name: query for name, query in chosen.items() if queries or name not in figures["cases"]}
    commands = [name for name in COMMANDS if name in chosen and (queries or name not in figures["commands"])]
    if large:  # with so many tuples a command tells little more about starts than the rates do
        commands = []
    if due or commands:
        sources = [__file__, str(nexmark.__file__)]
        warm_up = [QUERIES[name] for name in WARM_UP]
        with prepared("nexmark", events_of, warm_up, size=size, input=input, made_by=sources, peers=beside) as place:
            for name, query in due.items():
                figures["cases"][name] = case_of(query, measure(name, query, place))
                figures["newest"] = line_of(name, figures["cases"][name])
                _keep(figures, keep)
            if commands:
                start_once()
            for name in commands:
                try:
                    figures["commands"][name] = whole_times(name, QUERIES[name], place.given, beside)
                except (HostFault, Disagreement) as error:  # the rates count, and the same command tries again
                    figures["newest"] = f"{name} as a command: {error}"
                else:
                    figures["newest"] = f"{name} as a command: {seconds_of(figures['commands'][name])}"
                _keep(figures, keep)
    summary(figures)
    return figures


def _keep(figures: dict[str, Any], keep: Callable[[dict[str, Any]], None]) -> None:
    """Hand over the figures so far, queries in their order."""
    for part in ("cases", "commands"):
        figures[part] = {name: figures[part][name] for name in QUERIES if name in figures[part]}
    summary(figures)
    keep(figures)


def _chosen(names: str) -> dict[str, Query]:
    """Return the queries of a list such as 'q0, q5'."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in QUERIES]
    if unknown:
        raise HostFault(f"Nexmark has no query {unknown[0]!r}", hint="its queries are q0 to q22, such as q0,q5")
    return {name: query for name, query in QUERIES.items() if not wanted or name in wanted}


def events_of(count: int) -> Events:
    """Return the streams of so many events, and the table beside them."""
    assert count % EVENTS == 0
    return Events(generate(count, seed=SEED), SCHEMAS, {"side": side_input()})
