"""The invariants of a plan, verified node by node; a broken one is our own mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from headrace.errors import InternalError
from headrace.model.events.event import primitives
from headrace.model.expressions.expression import Call, Column, Expr
from headrace.model.expressions.expression import walk as parts
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.schema import TS, Field, Schema
from headrace.model.suppression import Standing
from headrace.model.types import Type
from headrace.model.window import Extent, While
from headrace.plan import nodes
from headrace.plan.explain import describe
from headrace.plan.nodes import Node
from headrace.plan.traversal import walk, window_expressions


def check(node: Node) -> None:
    """Raise InternalError, naming the node, if any part of the plan breaks an invariant.

    Columns that are read exist and have the stated type, calls name known functions, predicates are BOOLEAN, names are
    unique, inputs of a union have equal schemas, and the two sides of a join key have equal types.
    """
    for part in walk(node):
        for fault in chain(_faults(part), _name_faults(part)):
            raise InternalError(f"{fault}, in plan node: {describe(part)}")


def _faults(node: Node) -> Iterator[str]:
    match node:
        case nodes.Scan() | nodes.Distinct() | nodes.Order() | nodes.Limit():
            pass
        case nodes.Filter(input=below, predicate=predicate):
            yield from _predicate_faults(predicate, below.schema)
        case nodes.Project(input=below, columns=columns):
            yield from _faults_of([expr for _, expr in columns], below.schema)
        case nodes.Punctuate(input=below, mark=mark, keys=keys):
            if not {mark, *keys} <= {*below.schema.names}:
                yield "marks are in columns that are not there"
        case nodes.Condense(input=below, keys=keys, calls=calls):
            if not {*keys} <= {*below.schema.names}:
                yield "condenses by columns that are not there"
            yield from _faults_of([call.arg for call in calls if call.arg is not None], below.schema)
        case nodes.Unnest(input=below, of=of):
            yield from _faults_of([of], below.schema)
        case nodes.Union(inputs=united) | nodes.Pace(inputs=united):
            if any(other.schema != united[0].schema for other in united[1:]):
                yield "inputs of a union differ in schema"
        case nodes.Join(left_extent=left, right_extent=right):
            yield from _join_faults(node)
            yield from _extent_faults(left, node.left.schema)
            yield from _extent_faults(right, node.right.schema)
        case nodes.MultiJoin():
            yield from _multi_join_faults(node)
        case nodes.SequenceJoin():
            yield from _join_faults(node)
        case nodes.Impute(input=below, value=value, keys=keys):
            yield from _faults_of([value, *keys], below.schema)
        case nodes.Suppress(input=below, by=by, rule=rule):
            yield from _faults_of([*by, rule.action] if isinstance(rule, Standing) else by, below.schema)
        case nodes.Deduplicate(input=below, by=by):
            yield from _faults_of(by, below.schema)
        case nodes.Over(input=below, by=by, calls=calls):
            yield from _faults_of([*by, *(arg for call in calls for arg in call.args)], below.schema)
        case nodes.MatchRows():
            yield from _match_faults(node)
        case nodes.Rank(input=below, by=by, order=order):
            yield from _faults_of([*by, *(term.expr for term in order)], below.schema)
        case nodes.WindowOver(input=below, by=by, order=order, calls=calls):
            arguments = [arg for call in calls for arg in call.args]
            yield from _faults_of([*by, *(term.expr for term in order), *arguments], below.schema)
        case nodes.TableJoin():
            yield from _table_join_faults(node)
        case nodes.Membership():
            yield from _membership_faults(node)
        case nodes.Changes(input=below, keys=groups, calls=calls, columns=shown, condition=condition):
            arguments = [arg for call in calls for arg in call.args]
            yield from _faults_of([*(expr for _, expr in groups), *arguments], below.schema)
            yield from _faults_of([expr for _, expr in shown], node.group_schema)
            if condition is not None:
                yield from _predicate_faults(condition, node.group_schema)
        case nodes.Detect():
            yield from _detect_faults(node)
        case nodes.Aggregate():
            yield from _aggregate_faults(node)


def _name_faults(node: Node) -> Iterator[str]:
    names = node.schema.names
    if len(set(names)) != len(names):
        yield f"column names are not unique: {', '.join(names)}"


def _aggregate_faults(node: nodes.Aggregate) -> Iterator[str]:
    schema = node.input.schema
    groups = [expr for _, expr in node.keys]
    arguments = [arg for call in node.calls for arg in call.args]
    yield from _faults_of([*groups, *arguments, *window_expressions(node.window)], schema)
    if isinstance(node.window, While):
        yield from _predicate_faults(node.window.predicate, schema)


def _join_faults(join: nodes.Join | nodes.SequenceJoin) -> Iterator[str]:
    if len(join.right_names) != len(join.right.schema):
        yield "there must be one name for each column of the right input"
        return  # without it there is no schema to go on with
    for mine, theirs in join.keys:
        yield from _faults_of([mine], join.left.schema)
        yield from _faults_of([theirs], join.right.schema)
        if mine.type != theirs.type:
            yield f"a key joins {mine.type.value} with {theirs.type.value}"
    if join.residual is not None:
        yield from _predicate_faults(join.residual, join.schema)


def _match_faults(node: nodes.MatchRows) -> Iterator[str]:
    pattern, below = node.pattern, node.input.schema
    lookups, folds = (*pattern.lookups, *node.lookups), (*pattern.folds, *node.folds)
    arguments = [arg for fold in folds for arg in fold.call.args]
    yield from _faults_of([*node.by, *node.order, *(lookup.of for lookup in lookups), *arguments], below)
    seen = Schema(
        (
            *below.fields,
            *(Field(lookup.name, lookup.of.type) for lookup in pattern.lookups),
            *(Field(fold.call.name, fold.call.type) for fold in pattern.folds),
        )
    )
    yield from _faults_of([variable.condition for variable in pattern.variables], seen)


def _multi_join_faults(join: nodes.MultiJoin) -> Iterator[str]:
    for members in join.classes:
        for expr, origin in zip(members, join.inputs, strict=True):
            yield from _faults_of(() if expr is None else (expr,), origin.schema)
        if len({expr.type for expr in members if expr is not None}) > 1:
            yield "the members of a class differ in type"
    for term in join.terms:
        yield from _predicate_faults(term, join.schema)


def _table_join_faults(join: nodes.TableJoin) -> Iterator[str]:
    if len(join.table_names) != len(join.table_schema):
        yield "there must be one name for each column of the table"
        return
    for expr, column in join.keys:
        yield from _faults_of([expr], join.input.schema)
        field = join.table_schema.find(column)
        if field is None:
            yield f"table {join.table} has no column {column!r}"
        elif field.type != expr.type:
            yield f"a key joins {expr.type.value} with {field.type.value}"
    if join.residual is not None:
        yield from _predicate_faults(join.residual, join.schema)


def _membership_faults(node: nodes.Membership) -> Iterator[str]:
    if len(node.table_names) != len(node.table_schema):
        yield "there must be one name for each column of the table"
        return
    for mine, theirs in (*node.keys, *node.compared):
        yield from _faults_of([mine], node.input.schema)
        yield from _faults_of([theirs], node.table_schema)
        if mine.type != theirs.type:
            yield f"a key compares {mine.type.value} with {theirs.type.value}"
    if node.residual is not None:
        yield from _predicate_faults(node.residual, node.pair_schema)
    yield from _faults_of([arg for call in node.calls for arg in call.args], node.table_schema)
    if node.value is not None:
        called = Schema(tuple(Field(call.name, call.type) for call in node.calls))
        yield from _faults_of([node.value], called)


def _detect_faults(node: nodes.Detect) -> Iterator[str]:
    for part, keys in zip(node.parts, node.keys, strict=True):
        yield from _faults_of(keys, part.schema)
    for keys in zip(*node.keys, strict=True):
        if len({key.type for key in keys}) > 1:
            yield f"a key joins {' with '.join(sorted({key.type.value for key in keys}))}"
    every = (
        Field(f"{part.name}.{field.name}", field.type)
        for part in primitives(node.event)
        for field in node.parts[part.port].schema
    )
    times = (Field(f"{part.name}.{TS}", Type.BIGINT) for part in primitives(node.event))
    named = Schema((*every, *times))
    for primitive in primitives(node.event):
        if primitive.start is not None:
            yield from _column_faults(Column(f"{primitive.name}.{primitive.start}", Type.TIMESTAMP), named)
    for term in (*node.conditions, *(part.mask for part in primitives(node.event) if part.mask is not None)):
        yield from _predicate_faults(term, named)


def _extent_faults(extent: Extent | None, schema: Schema) -> Iterator[str]:
    yield from _faults_of(() if extent is None else extent.by, schema)


def _predicate_faults(predicate: Expr, schema: Schema) -> Iterator[str]:
    yield from _faults_of([predicate], schema)
    if predicate.type is not Type.BOOLEAN:
        yield f"the predicate is {predicate.type.value}, not BOOLEAN"


def _faults_of(exprs: Iterable[Expr], schema: Schema) -> Iterator[str]:
    for part in (part for expr in exprs for part in parts(expr)):
        if isinstance(part, Column):
            yield from _column_faults(part, schema)
        elif isinstance(part, Call):
            yield from _call_faults(part)


def _column_faults(column: Column, schema: Schema) -> Iterator[str]:
    field = schema.find(column.name)
    if field is None and column.name == TS:
        field = Field(TS, Type.BIGINT)
    if field is None:
        yield f"column {column.name!r} is not among {', '.join(schema.names)}"
    elif field.type != column.type:
        yield f"column {column.name!r} is {field.type.value}, but it is read as {column.type.value}"


def _call_faults(call: Call) -> Iterator[str]:
    function = FUNCTIONS.get(call.function)
    if function is None:
        yield f"there is no function {call.function!r}"
    elif len(call.args) < function.least or (function.most is not None and len(call.args) > function.most):
        yield f"function {call.function!r} does not take {len(call.args)} arguments"
