"""The columns of detections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from headrace.model.events.event import Event, always, primitives
from headrace.model.expressions.expression import Column, Expr, columns
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType, Type
from headrace.model.window import AggregateCall


class Pick(Struct, frozen=True, tag_field="output", tag="pick"):
    """A column of a part; of several tuples the newest's, NULL if there is none."""

    name: str
    part: str
    column: str


class Count(Struct, frozen=True, tag_field="output", tag="count"):
    """The number of tuples of a part."""

    name: str
    part: str


class Aggregated(Struct, frozen=True, tag_field="output", tag="aggregated"):
    """An aggregate over the tuples of a part; its arguments are over the part's own columns."""

    name: str
    part: str
    call: AggregateCall


class Started(Struct, frozen=True, tag_field="output", tag="started"):
    """The time of the first constituent."""

    name: str


class Ended(Struct, frozen=True, tag_field="output", tag="ended"):
    """The time of detection, which is also the timestamp."""

    name: str


Output: TypeAlias = Pick | Count | Aggregated | Started | Ended


def read_columns(output: Output) -> frozenset[str]:
    """Return the qualified columns that an output reads."""
    match output:
        case Pick(part=part, column=column):
            return frozenset((f"{part}.{column}",))
        case Aggregated(part=part, call=call):
            return frozenset(f"{part}.{name}" for arg in call.args for name in columns(arg))
        case Count() | Started() | Ended():
            return frozenset()


def output_schema(event: Event, schemas: Sequence[Schema], outputs: Sequence[Output]) -> Schema:
    """Return the visible columns of detections."""
    ports = {part.name: part.port for part in primitives(event)}

    def type_of(output: Output) -> DataType:
        match output:
            case Pick(part=part, column=column):
                field = schemas[ports[part]].find(column)
                assert field is not None, f"no column {column!r} in {part}"
                return field.type
            case Count():
                return Type.BIGINT
            case Aggregated(call=call):
                return call.type
            case Started() | Ended():
                return Type.TIMESTAMP

    return Schema(tuple(Field(output.name, type_of(output)) for output in outputs))


def key_columns(event: Event, keys: Sequence[Sequence[Expr]], outputs: Sequence[Output]) -> dict[str, int]:
    """Return the visible columns that identify the history of an occurrence, with the places of their keys."""
    ports = {part.name: part.port for part in always(event)}
    shown = [output for output in outputs if isinstance(output, Pick) and output.part in ports]
    return {
        output.name: place
        for output in shown
        for place, key in enumerate(keys[ports[output.part]])
        if isinstance(key, Column)
        and key.name == output.column
        # equal numbers with a point may differ, as 0.0 and -0.0 do
        and all(of_port[place].type not in (Type.FLOAT, Type.DOUBLE) for of_port in keys)
    }
