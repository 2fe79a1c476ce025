"""Write the corpus: `python -m tests.conformance` asks DuckDB for the answers; review what differs from before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conformance.expected import answers
from tests.conformance.grammar import Grammar
from tests.conformance.logic_test import Record

HERE = Path(__file__).parent
#: Files, and statements in each.
FILES, STATEMENTS = 20, 100


def main() -> None:
    known = set[str]()
    for number in range(FILES):
        _write(f"generated_{number:02d}", Grammar(number).statement, known, f"with seed {number}")
    _write("sub_queries", Grammar(FILES).sub_query, known, "with sub-queries for values")
    _write("window_functions", Grammar(FILES + 1).window_function, known, "with functions of places and frames")
    _write(
        "money", Grammar(FILES + 2).money, known, "with quotients and medians of DECIMALs, and approximate aggregates"
    )
    _write("window_offsets", Grammar(FILES + 3).offset, known, "with windows that have an offset")
    _write("ordered_values", Grammar(FILES + 5).ordered, known, "with aggregates whose values have an order")
    _write("shadowed_names", Grammar(FILES + 6).shadowed, known, "with names that both SELECT and FROM have")
    _write("frames", Grammar(FILES + 7).frame, known, "with extremes over frames of a window")
    _write("untyped_nulls", Grammar(FILES + 8).untyped, known, "with NULL in one part of a UNION")
    _write("window_totals", Grammar(FILES + 4).totals, known, "with aggregates of the results of a window")


def _write(name: str, draw: Callable[[], tuple[str, str]], known: set[str], which: str) -> None:
    texts = dict[str, str]()
    while len(texts) < 2 * STATEMENTS:
        kinds, sql = draw()
        if sql not in known:
            texts.setdefault(sql, kinds)
    both = zip(texts.items(), answers(texts), strict=True)
    records = [Record(kinds, sql, expected) for (sql, kinds), expected in both if expected is not None][:STATEMENTS]
    known.update(record.sql for record in records)
    head = f"# Statements of tests/conformance/grammar.py {which}, and DuckDB's answers.\n\n"
    (HERE / "corpus" / f"{name}.test").write_text(head + "\n".join(record.write() for record in records))


if __name__ == "__main__":
    main()
