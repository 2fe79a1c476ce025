"""Functions of ARRAY, MAP and STRUCT, one plain Python function each: an ARRAY is a list, the others are dicts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from headrace.model.time import DAY
from headrace.model.types import ArrayType, DataType, StructType, Type
from headrace.operators.expressions.kernels.nested import json_text, parse_json  # compared with texts elsewhere
from headrace.testing.oracle.values import identity, lift, sort_key

Scalar = Callable[[Sequence[Any], Sequence[DataType], DataType], Any]


def _strict(function: Callable[..., Any]) -> Scalar:
    def scalar(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return scalar


def _item(held: Any, place: Any) -> Any:
    if isinstance(held, dict):
        return held.get(place)
    return held[place] if 0 <= place < len(held) else None


def _element_at(held: Any, place: Any) -> Any:
    if isinstance(held, dict):
        return held.get(place)
    if place == 0 or abs(place) > len(held):
        return None
    return held[place - 1] if place > 0 else held[place]


def _array(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    assert isinstance(result, ArrayType)
    return [None if arg is None else lift(arg, type_, result.element) for arg, type_ in zip(args, types, strict=True)]


def _struct(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    assert isinstance(result, StructType)
    return {name: value for (name, _), value in zip(result.fields, args[1::2], strict=True)}


def _map(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    return None if None in args[::2] else dict(zip(args[::2], args[1::2], strict=True))


def _sequence(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    assert isinstance(result, ArrayType)
    if any(arg is None for arg in args):
        return None
    first, last = args[0], args[1]
    unit = DAY if result.element in (Type.DATE, Type.TIMESTAMP) else 1
    step = args[2] if len(args) == 3 else unit if first <= last else -unit
    if result.element is Type.DATE:
        if step % DAY:
            return None
        step //= DAY
    if first == last:
        return [first]
    if step == 0 or (last - first) * step < 0 or (last - first) // step >= 100_000:
        return None
    return [first + step * place for place in range((last - first) // step + 1)]


def _contains(held: list[Any], wanted: Any) -> bool | None:
    known = [identity(value) for value in held if value is not None]
    return True if identity(wanted) in known else None if len(known) < len(held) else False


def _distinct(held: list[Any]) -> list[Any]:
    return list({identity(value): value for value in held}.values())


def _sorted(held: list[Any]) -> list[Any]:
    return [*sorted((value for value in held if value is not None), key=sort_key), *(v for v in held if v is None)]


def _extreme(place: int) -> Scalar:
    def extreme(held: list[Any]) -> Any:
        known = sorted((value for value in held if value is not None), key=sort_key)
        return known[place] if known else None

    return _strict(extreme)


def _slice(held: list[Any], start: int, length: int) -> list[Any] | None:
    if start == 0 or length < 0:
        return None
    first = start - 1 if start > 0 else len(held) + start
    return [value for place, value in enumerate(held) if first <= place < first + length and first >= 0]


def _join(held: list[str | None], separator: str, instead: str | None = None) -> str:
    shown = [instead if value is None else value for value in held]
    return separator.join(value for value in shown if value is not None)


def _to_json(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if args[0] is None:
        return None
    text = json_text(args[0], types[0])
    assert json.loads(text, parse_float=Decimal) is not None
    return text


def _from_json(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    return None if args[0] is None else parse_json(args[0], result)


def _from_arrays(keys: list[Any], held: list[Any]) -> Any:
    return dict(zip(keys, held, strict=True)) if len(keys) == len(held) and None not in keys else None


def _append(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    return None if args[0] is None else args[0] + [args[1]]


def _position(held: list[Any], wanted: Any) -> int:
    places = [place for place, value in enumerate(held) if identity(value) == identity(wanted)]
    return places[0] + 1 if places else 0


def _members(held: list[Any]) -> list[Any]:
    return [identity(value) for value in held]


def _overlap(left: list[Any], right: list[Any]) -> bool | None:
    common = {value for value in _members(left) if value != identity(None)} & set(_members(right))
    if common:
        return True
    return None if left and right and None in [*left, *right] else False


def _sort_array(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if any(arg is None for arg in args):
        return None
    return sorted(args[0], key=sort_key, reverse=len(args) == 2 and not args[1])


def _split(text: str, pattern: str, limit: int = -1) -> list[str]:
    pieces: list[str] = []
    start = 0
    spots = [found.span() for found in re.finditer(pattern, text)]
    for begin, end in spots:
        full = limit > 0 and len(pieces) == limit - 1
        if not full and end > 0 and not begin == end == len(text):
            pieces.append(text[start:begin])
            start = end
    pieces.append(text[start:])
    if limit == 0:
        while len(pieces) > 1 and pieces[-1] == "":
            del pieces[-1]
    return pieces


def _transformed(held: list[Any], change: Callable[..., Any]) -> list[Any]:
    return [change(value, place) for place, value in enumerate(held)]


def _all_of(answers: Sequence[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any_of(answers: Sequence[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _aggregated(args: Sequence[Any], types: Sequence[DataType], result: DataType) -> Any:
    if args[0] is None:
        return None
    merged = args[1]
    for value in args[0]:
        merged = args[2](merged, value)
    return args[3](merged) if len(args) == 4 else merged


def _with_keys(held: dict[Any, Any], change: Callable[..., Any]) -> Any:
    keys = [change(key, value) for key, value in held.items()]
    return None if None in keys else dict(zip(keys, held.values(), strict=True))


#: Those that take functions, which are given as Python has them.
HIGHER: dict[str, Scalar] = {
    "transform": _strict(_transformed),
    "filter": _strict(lambda held, holds: [v for place, v in enumerate(held) if holds(v, place) is True]),
    "exists": _strict(lambda held, holds: _any_of([holds(value) for value in held])),
    "forall": _strict(lambda held, holds: _all_of([holds(value) for value in held])),
    "aggregate": _aggregated,
    "zip_with": _strict(lambda a, b, pair: [pair(x, y) for x, y in zip_longest(a, b)]),
    "map_filter": _strict(lambda held, holds: {k: v for k, v in held.items() if holds(k, v) is True}),
    "transform_values": _strict(lambda held, change: {k: change(k, v) for k, v in held.items()}),
    "transform_keys": _strict(_with_keys),
}
NESTED: dict[str, Scalar] = {
    "map_from_arrays": _strict(_from_arrays),
    "array_append": _append,
    "array_position": _strict(_position),
    "array_remove": _strict(lambda held, bad: [v for v in held if v is None or identity(v) != identity(bad)]),
    "array_union": _strict(lambda a, b: _distinct(a + b)),
    "array_intersect": _strict(lambda a, b: _distinct([v for v in a if identity(v) in _members(b)])),
    "array_except": _strict(lambda a, b: _distinct([v for v in a if identity(v) not in _members(b)])),
    "arrays_overlap": _strict(_overlap),
    "sort_array": _sort_array,
    "flatten": _strict(lambda held: None if None in held else [v for part in held for v in part]),
    "map_contains_key": _strict(lambda held, key: key in held),
    "split": _strict(_split),
    "field": _strict(lambda held, name: held[name]),
    "item": _strict(_item),
    "element_at": _strict(_element_at),
    "array": _array,
    "named_struct": _struct,
    "map": _map,
    "size": _strict(len),
    "array_contains": _strict(_contains),
    "array_distinct": _strict(_distinct),
    "array_sort": _strict(_sorted),
    "array_min": _extreme(0),
    "array_max": _extreme(-1),
    "array_join": _strict(_join),
    "slice": _strict(_slice),
    "sequence": _sequence,
    "map_concat": _strict(lambda *held: dict(pair for one in held for pair in one.items())),
    "map_keys": _strict(list),
    "map_values": _strict(lambda held: list(held.values())),
    "to_json": _to_json,
    "from_json": _from_json,
}
