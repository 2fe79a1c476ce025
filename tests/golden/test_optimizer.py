"""Golden scripts of the optimizer: a query, `---`, its plan, `---` and the rules that fired, the optimised plan; `====` divides cases.

`pytest tests/golden/test_optimizer.py --update-golden` rewrites the plans; review the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Connector, Stream, Table, Timing
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.optimizer.optimizer import optimize
from headrace.plan.binding.binder import bind
from headrace.plan.check import check
from headrace.plan.explain import explain

SCRIPTS = sorted((Path(__file__).parent / "optimizer").glob("*.txt"))
BIDS = Schema.of(auction=Type.INT, bidder=Type.INT, price=Type.BIGINT, channel=Type.STRING, at=Type.TIMESTAMP)
ASKS = Schema.of(auction=Type.INT, seller=Type.INT, reserve=Type.BIGINT, note=Type.STRING)
PEOPLE = Schema.of(id=Type.INT, name=Type.STRING, city=Type.STRING)


def catalog() -> Catalog:
    known = Catalog()
    nowhere = Connector("MEMORY", {})
    known.add(Stream("bids", BIDS, nowhere, Timing.EXTERNAL, "at"))
    known.add(Stream("asks", ASKS, nowhere, Timing.INTERNAL))
    known.add(Table("people", PEOPLE, nowhere))
    return known


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_plans_are_optimised_as_the_script_shows(path: Path, update_golden: bool) -> None:
    script = path.read_text()
    actual = "====\n".join(_replay(case) for case in script.split("====\n"))
    if update_golden:
        path.write_text(actual)
    assert actual == script or update_golden


def test_there_is_a_script_for_every_subject() -> None:
    assert {path.stem for path in SCRIPTS} >= {
        "filters_aggregates",
        "filters_joins",
        "filters_unary",
        "constants",
        "projections",
    }


def _replay(case: str) -> str:
    query = case.split("---\n")[0]
    (statement,) = parse(query)
    assert isinstance(statement, Select)
    plan = bind(statement.select, statement.text, catalog())
    steps = optimize(plan)
    for step in steps:
        check(step.plan)
    rules = ", ".join(dict.fromkeys(step.rule for step in steps[1:]))
    return f"{query}---\n{explain(plan)}\n--- {rules or 'nothing to do'}\n{explain(steps[-1].plan)}\n"
