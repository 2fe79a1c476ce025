"""Texts that nobody would write: each is accepted, or refused by an error of ours that points into it."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.testing import fuzz

#: The first seed and how many; set HEADRACE_FUZZ to other numbers, such as 100000:50000, for a long run.
FIRST, COUNT = map(int, os.environ.get("HEADRACE_FUZZ", "0:2000").split(":"))


def test_random_texts_are_accepted_or_refused_with_a_place() -> None:
    definitions, statements = fuzz.corpus(Path(__file__).parents[1] / "golden")
    assert len(statements) > 500
    with fuzz.prepare(definitions) as session:
        wrong = fuzz.failures(session, statements, range(FIRST, FIRST + COUNT))
    assert not wrong, "\n".join(f"seed {seed}: {reason}\n  {text}" for seed, text, reason in wrong[:20])


def test_a_text_that_is_neither_accepted_nor_refused_is_noticed() -> None:
    class Broken:
        def explain(self, text: str) -> str:
            raise KeyError(text)

    assert fuzz.check(Broken(), "SELECT 1") == "KeyError: 'SELECT 1'"  # type: ignore[arg-type]
