from __future__ import annotations

import json

import pytest

from headrace.errors import NameFault
from headrace.model.python_target import PythonTarget


def test_a_target_is_a_module_and_a_name() -> None:
    target = PythonTarget.parse_prefixed("python:headrace.model.time:parse_duration")
    assert (target.module, target.name, str(target)) == (
        "headrace.model.time",
        "parse_duration",
        "headrace.model.time:parse_duration",
    )


@pytest.mark.parametrize(
    "text", ["json", "json:", ":dumps", "a b:c", "json:dumps:loads", "python:json:dumps", "json.:x"]
)
def test_what_names_no_attribute_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="not written as"):
        PythonTarget.parse(text)


def test_the_prefix_is_required_where_other_things_may_stand() -> None:
    with pytest.raises(ValueError, match="python:module:name"):
        PythonTarget.parse_prefixed("json:dumps")


def test_a_target_is_loaded() -> None:
    assert PythonTarget.parse("json:dumps").load("the function", error=NameFault) is json.dumps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("json:dumbs", "cannot load the function 'json:dumbs': AttributeError"),
        ("no_such_module:f", "cannot load the function 'no_such_module:f': ModuleNotFoundError"),
        ("json:__name__", "the function 'json:__name__' is not a function but a value of type str"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_the_error_of_the_caller(text: str, message: str) -> None:
    with pytest.raises(NameFault, match=message):
        PythonTarget.parse(text).load("the function", error=NameFault, hint="look again")
