"""CAST of a constant text gives what CAST of a column with that text gives."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.model.expressions.expression import Cast, Column, Literal
from headrace.model.types import Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.coerce import cast


def texts(seed: int) -> list[str]:
    draw = random.Random(seed)
    written = set()
    for _ in range(150):
        year, month = draw.choice(["2024", "1969", "0000", "9999", "24", "12024"]), draw.choice(["02", "2", "13", "12"])
        day = draw.choice(["30", "29", "1", "00"])
        text = draw.choice([f"{year}-{month}-{day}", f"{year}-02-29", f"{year}-{month}", year, f"{year}{month}{day}"])
        if draw.random() < 0.7:
            text += draw.choice("T x") + draw.choice(["10", "1", "24"]) + draw.choice(["", ":30", ":60", ":5"])
            text += draw.choice(["", ":59", ":60", ":7"]) + draw.choice(["", ".5", ".1234567", "."])
            text += draw.choice(["", "Z", "+02:00", "-23:59", "+24:00", " UTC", "+0200"])
        written.add(draw.choice(["", "", " "]) + text)
    return sorted(written)


@pytest.mark.parametrize("target", [Type.DATE, Type.TIMESTAMP])
def test_a_text_is_read_alike_as_a_constant_and_in_a_column(target: Type) -> None:
    known = ["2024-02-29", "2024-02-29T10:30:59.5+02:00", "2024-02-29 10:30", "2024-02-30", "soon", ""]
    frame = pl.DataFrame({"x": [*known, "2024-02-29 10:30:60", "2024-02-29 23:60", *texts(1)]})
    (column,) = evaluate(frame, [Cast(Column("x", Type.STRING), target)])
    constants = [
        evaluate(pl.DataFrame({"n": [0]}), [cast(Literal(text, Type.STRING), target)])[0][0] for text in frame["x"]
    ]
    assert constants == column.to_list()
    assert [value is None for value in constants[: len(known)]] == [False, False, False, True, True, True]
