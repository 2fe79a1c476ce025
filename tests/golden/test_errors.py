"""Golden scripts of errors: a bad statement, `---`, the error as users see it; `====` divides cases.

`pytest tests/golden/test_errors.py --update-golden` rewrites the errors; review the diff.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import (
    define_aggregate,
    define_event,
    define_query,
    define_stream,
    define_table,
    define_view,
)
from headrace.commands.running import Running
from headrace.errors import HeadraceError, QueryError
from headrace.language.parser import parse
from headrace.language.syntax.names import Name
from headrace.language.syntax.rules import CreateRule, DeclareEvent, SwitchRule
from headrace.language.syntax.statements import (
    Alter,
    CreateAggregate,
    CreateEvent,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Detection,
    Drop,
    Explain,
    Select,
    Split,
    Statement,
)
from headrace.model.schema import Schema
from headrace.plan.binding.binder import bind
from headrace.plan.binding.event import bind_event
from headrace.plan.nodes import Scan
from headrace.session.rules import stage_declared, stage_rule, stage_switch
from headrace.session.settings import command_of
from headrace.session.transaction import Staged

SCRIPTS = sorted((Path(__file__).parent / "errors").glob("*.txt"))

SETUP = """
CREATE STREAM detectors (id INT, segment INT, at TIMESTAMP, speed DOUBLE, day DATE, name STRING) TIMESTAMP BY at SKEW 2 SECONDS FROM MEMORY;
CREATE STREAM probes (vehicle BIGINT, segment BIGINT, speed DOUBLE) FROM MEMORY;
CREATE TABLE segments (segment BIGINT, lane INT, kind STRING) FROM MEMORY;
CREATE AGGREGATE geo_mean(DOUBLE) RETURNS DOUBLE FROM PYTHON 'means:Geometric';
CREATE QUERY slow AS SELECT segment, count(*) AS n, geo_mean(speed) AS g FROM detectors [RANGE 1 MINUTE] WHERE speed < 20 GROUP BY segment;
CREATE EVENT pair AS detectors AS a SEQUENCE detectors AS b WITHIN 1 MINUTE;
CREATE EVENT open_pair AS detectors AS a SEQUENCE detectors AS b;
CREATE EVENT alarm (id INT, n INT);
CREATE VIEW hidden AS SELECT id FROM alarm;
"""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_bad_statements_are_explained_as_the_script_shows(path: Path, update_golden: bool) -> None:
    script = path.read_text()
    actual = "====\n".join(_replay(case) for case in script.split("====\n"))
    if update_golden:
        path.write_text(actual)
    assert actual == script or update_golden


def test_the_scripts_cover_every_kind_of_query_error() -> None:
    shown = "".join(path.read_text() for path in SCRIPTS)
    assert all(f"{kind.code} {kind.__name__}: " in shown for kind in QueryError.__subclasses__())


def _replay(case: str) -> str:
    text = case.split("---\n")[0]
    catalog = Catalog()
    for statement in _setup():
        _run(statement, catalog)
    try:
        for statement in parse(text):
            _run(statement, catalog)
    except HeadraceError as error:
        return f"{text}---\n{error.render(text)}\n"
    raise AssertionError(f"no error in {text}")


@cache
def _setup() -> list[Statement]:
    return parse(SETUP)


def _staged(catalog: Catalog) -> Staged:
    return Staged(catalog, Running())


def _run(statement: Statement, catalog: Catalog) -> None:
    match statement:
        case CreateStream():
            catalog.add(define_stream(statement, statement.columns or Schema(())), span=statement.name.span)
        case CreateTable():
            catalog.add(define_table(statement, statement.columns or Schema(())), span=statement.name.span)
        case CreateAggregate():
            catalog.add(define_aggregate(statement), span=statement.name.span)
        case CreateQuery():
            catalog.add(
                define_query(statement, bind(statement.select, statement.text, catalog).schema),
                span=statement.name.span,
            )
        case CreateView():
            catalog.add(
                define_view(statement, bind(statement.select, statement.text, catalog).schema), span=statement.name.span
            )
        case CreateEvent(body=Detection() as body):
            node = bind_event(body, catalog, lambda name: Scan(name, catalog.find(name).schema))
            catalog.add(define_event(statement, node.schema), span=statement.name.span)
        case DeclareEvent():
            stage_declared(statement, _staged(catalog))
        case CreateRule():
            stage_rule(statement, _staged(catalog), ("notify",), lambda command: None)
        case SwitchRule():
            stage_switch(statement, _staged(catalog))
        case Split(views=views):
            for view in views:
                catalog.add(define_view(view, bind(view.select, statement.text, catalog).schema), span=view.name.span)
        case Select():
            bind(statement.select, statement.text, catalog)
        case Drop():
            catalog.remove(statement.name.text, statement.kind, span=statement.name.span)
        case Alter():
            command_of(statement)
        case Explain(target=Name() as name):
            catalog.find(name.text, span=name.span)
        case _:
            pass
