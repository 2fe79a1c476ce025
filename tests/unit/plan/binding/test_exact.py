"""DECIMALs that no DECIMAL holds both of are compared without loss."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from headrace.catalog.catalog import Catalog
from headrace.language.dialect import parse_expressions, tokenize
from headrace.model.expressions.expression import Expr
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, DecimalType, Type, common_type
from headrace.operators.expressions.evaluate import evaluate
from headrace.plan.binding.expressions.expression import ExpressionBinder
from headrace.plan.binding.expressions.scope import Scope, relation_of

MOST, LEAST = Decimal("9" * 38), Decimal("-" + "9" * 38)
TYPES: dict[str, DataType] = {
    "whole": DecimalType(38, 0),
    "price": DecimalType(10, 2),
    "share": DecimalType(38, 38),
    "m": Type.BIGINT,
}
ROWS: list[tuple[Any, ...]] = [
    (Decimal(0), Decimal("0.45"), Decimal("0.45"), 0),
    (Decimal(0), Decimal("-0.45"), Decimal("-0." + "9" * 38), -1),
    (Decimal(-1), Decimal("-0.45"), Decimal("-0." + "0" * 37 + "1"), 0),
    (MOST, Decimal("99999999.99"), Decimal("0." + "9" * 38), 1),
    (LEAST, Decimal("-99999999.99"), Decimal("0." + "0" * 37 + "1"), 2**63 - 1),
    (Decimal(3), Decimal("3.00"), Decimal(0), 0),
    (None, Decimal("1.00"), None, 7),
    (None, None, None, None),
]


def bound(text: str) -> Expr:
    schema = Schema(tuple(Field(name, type_) for name, type_ in TYPES.items()))
    (tree,) = parse_expressions(tokenize(text), text)
    return ExpressionBinder(Scope((relation_of(("r",), schema),)), Catalog()).bind(tree)


def computed(text: str) -> list[Any]:
    columns = zip(*ROWS, strict=True)
    frame = pl.DataFrame(
        [pl.Series(name, values, dtype=TYPES[name].polars) for name, values in zip(TYPES, columns, strict=True)]
    )
    return evaluate(frame, [bound(text)])[0].to_list()


def known(function: Callable[..., bool]) -> Callable[..., bool | None]:
    return lambda *values: None if None in values else function(*values)


@pytest.mark.parametrize(
    ("operator", "holds"),
    [
        ("=", known(lambda x, y: x == y)),
        ("<>", known(lambda x, y: x != y)),
        ("<", known(lambda x, y: x < y)),
        ("<=", known(lambda x, y: x <= y)),
        (">", known(lambda x, y: x > y)),
        (">=", known(lambda x, y: x >= y)),
        ("<=>", lambda x, y: x == y),
    ],
)
@pytest.mark.parametrize(
    ("left", "right"), [("whole", "price"), ("price", "share"), ("share", "whole"), ("share", "m"), ("m", "share")]
)
def test_decimals_are_compared_without_loss(left: str, right: str, operator: str, holds: Callable[..., Any]) -> None:
    places = list(TYPES).index(left), list(TYPES).index(right)
    assert computed(f"{left} {operator} {right}") == [holds(*(row[place] for place in places)) for row in ROWS]


def test_other_forms_of_comparison_lose_nothing_either() -> None:
    assert computed("whole BETWEEN price AND 10")[:4] == [False, True, False, False]
    assert computed("whole IN (price, 0.45)")[5:] == [True, None, None]
    assert computed("nullif(whole, price)")[:6] == [0, 0, -1, MOST, LEAST, None]
    assert computed("CASE whole WHEN price THEN 'same' ELSE 'other' END")[4:6] == ["other", "same"]
    assert computed("share < 100") == [True, True, True, True, True, True, None, None]


def test_a_common_type_keeps_all_digits_before_the_point() -> None:
    assert common_type(TYPES["whole"], TYPES["price"]) == DecimalType(38, 0)
    assert common_type(TYPES["share"], DecimalType(38, 18)) == DecimalType(38, 18)
    assert common_type(TYPES["price"], DecimalType(12, 4)) == DecimalType(12, 4)
    assert computed("coalesce(whole, price)")[3:7] == [MOST, LEAST, 3, 1]
    assert computed("greatest(whole, price)")[3:5] == [MOST, Decimal(-100000000)]
