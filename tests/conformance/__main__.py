"""Write the corpus: `python -m tests.conformance` asks DuckDB for the answers; review what differs from before."""

from __future__ import annotations

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
        grammar, texts = Grammar(number), dict[str, str]()
        while len(texts) < 2 * STATEMENTS:
            kinds, sql = grammar.statement()
            if sql not in known:
                texts.setdefault(sql, kinds)
        both = zip(texts.items(), answers(texts), strict=True)
        records = [Record(kinds, sql, expected) for (sql, kinds), expected in both if expected is not None][:STATEMENTS]
        known.update(record.sql for record in records)
        head = f"# Statements of tests/conformance/grammar.py with seed {number}, and DuckDB's answers.\n\n"
        (HERE / "corpus" / f"generated_{number:02d}.test").write_text(head + "\n".join(r.write() for r in records))


if __name__ == "__main__":
    main()
