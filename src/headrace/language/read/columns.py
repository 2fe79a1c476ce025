"""Reads the columns of CREATE STREAM, TABLE and EVENT, with what stands among them: watermark, key, computed ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.errors import NameFault, NotSupported, Span, SyntaxFault
from headrace.language import other_systems
from headrace.language.dialect import parse_expressions
from headrace.language.reader import Reader, span_of
from headrace.language.syntax.names import Name
from headrace.language.syntax.statements import ComputedColumn
from headrace.model.schema import Field, Schema
from headrace.model.types import DataType

_WATERMARK = "write WATERMARK FOR at AS at - INTERVAL '5' SECOND"


@dataclass(slots=True)
class Columns:
    """What stands between the parentheses: `schema` has the columns of the records.

    `watermark` is the column of the time with its skew, `metadata` has the columns that are read from beside the value
    of a record, by Flink's name of what they have.
    """

    schema: Schema = field(default_factory=lambda: Schema(()))
    computed: list[ComputedColumn] = field(default_factory=list)
    watermark: tuple[Name, int] | None = None
    key: tuple[Name, ...] = ()
    metadata: dict[str, Name] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [*self.schema.names, *(column.name.text for column in self.computed)]


def read_columns(reader: Reader) -> Columns:
    """Read `(name TYPE, name AS expression, WATERMARK FOR name AS name - INTERVAL '5' SECOND, PRIMARY KEY (name))`."""
    columns = Columns()
    reader.expect("(")
    while True:
        hint = "columns are separated by commas: (id INT, speed DOUBLE)"
        if not columns.key and (key := read_primary_key(reader)):
            columns.key, hint = key, "write PRIMARY KEY (id) as the last of the columns"
        else:
            hint = _read_part(reader, columns) or hint
        if reader.accept(")"):
            return columns
        reader.expect(",", hint=other_systems.COLUMN_CLAUSES.get(reader.word(), hint))


def read_plain_columns(reader: Reader) -> Schema:
    """Read `(name TYPE, ...)`."""
    start = reader.here()
    columns = read_columns(reader)
    refuse_watermark(columns, start)
    refuse_computed(columns)
    if columns.key:
        raise SyntaxFault("only a table has a PRIMARY KEY", span=columns.key[0].span, hint="leave it out")
    return columns.schema


def read_primary_key(reader: Reader) -> tuple[Name, ...]:
    """Read `PRIMARY KEY (id, ...) [NOT ENFORCED]`, if it is there."""
    if not _accepts_key(reader):
        return ()
    reader.expect("(", hint="write PRIMARY KEY (id)")
    key = [reader.name("a column of the key")]
    while reader.accept(","):
        key.append(reader.name("a column of the key"))
    reader.expect(")", hint="write PRIMARY KEY (id)")
    reader.accept("NOT", "ENFORCED")
    return tuple(key)


def refuse_watermark(columns: Columns, span: Span) -> None:
    """Refuse WATERMARK FOR in what is no stream."""
    if columns.watermark is not None:
        raise SyntaxFault(
            "only a stream has WATERMARK FOR", span=span, hint="write CREATE STREAM, or leave the watermark out"
        )


def refuse_computed(columns: Columns) -> None:
    """Refuse computed columns and METADATA in what is no stream."""
    for name in [*(column.name for column in columns.computed), *columns.metadata.values()]:
        raise NotSupported(
            f"the column {name.text} is computed",
            span=name.span,
            hint="only streams have computed columns; compute it in a query or view",
        )


def _read_part(reader: Reader, columns: Columns) -> str | None:
    """Read a column or a watermark, and return a hint of its own for what does not belong behind it."""
    name = reader.name("a column's name")
    if name.text.upper() == "WATERMARK" and reader.accept("FOR"):
        if columns.watermark is not None:
            raise SyntaxFault("the stream has two watermarks", span=name.span, hint="leave one of them out")
        columns.watermark = _watermark(reader)
        return _WATERMARK
    if name.text.startswith("__"):
        raise NameFault(f"{name.text!r}: names that begin with '__' are reserved", span=name.span)
    if any(other.lower() == name.text.lower() for other in columns.names):
        raise NameFault(f"column {name.text!r} is declared twice", span=name.span)
    if _accepts_computed(reader):
        columns.computed.append(_computed(reader, name, None, len(columns.names)))
        return None
    type_ = reader.type()
    if _accepts_computed(reader):
        columns.computed.append(_computed(reader, name, type_, len(columns.names)))
        return None
    columns.schema = Schema((*columns.schema, Field(name.text, type_)))
    if reader.accept("METADATA"):
        kind = reader.string("the name of what the column has") if reader.accept("FROM") else name.text
        if kind in columns.metadata:
            raise SyntaxFault(f"METADATA {kind!r} is read twice", span=name.span, hint="leave one of them out")
        columns.metadata[kind] = name
        reader.accept("VIRTUAL")
    elif not columns.key and _accepts_key(reader):
        columns.key = (name,)
        reader.accept("NOT", "ENFORCED")
    return None


def _accepts_computed(reader: Reader) -> bool:
    return reader.accept("AS") or reader.accept("GENERATED", "ALWAYS", "AS")


def _computed(reader: Reader, name: Name, type_: DataType | None, place: int) -> ComputedColumn:
    """Read the expression of a computed column."""
    tokens = reader.until(",", ")")
    if not tokens:
        reader.fail("expected an expression", hint="at AS to_timestamp(written, 'dd.MM.yyyy HH:mm')")
    (tree,) = parse_expressions(tokens, reader.text)
    return ComputedColumn(name, type_, tree, Span(span_of(tokens[0]).start, span_of(tokens[-1]).end), place)


def _accepts_key(reader: Reader) -> bool:
    return reader.accept("PRIMARY KEY") or reader.accept("PRIMARY", "KEY")


def _watermark(reader: Reader) -> tuple[Name, int]:
    """Read `at AS at - INTERVAL '5' SECOND` after WATERMARK FOR: the column, and the skew."""
    column = reader.name("the column that holds the time")
    reader.expect("AS", hint=_WATERMARK)
    again = reader.name("the column that holds the time")
    if again.text.lower() != column.text.lower():
        raise SyntaxFault(
            f"the watermark of {column.text} is computed from {again.text}", span=again.span, hint=_WATERMARK
        )
    return column, reader.duration() if reader.accept("-") else 0
