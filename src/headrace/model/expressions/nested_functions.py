"""The types of functions of ARRAY, MAP and STRUCT.

`field`, `named_struct` and `from_json` are typed by the binder: their types depend on names that are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from headrace.model.types import ArrayType, DataType, MapType, Type, common_type, has_map, is_nested

Types: TypeAlias = Sequence[DataType]
Typing: TypeAlias = Callable[[Types], DataType | None]


def by_binder(types: Types) -> DataType | None:
    """Return no type: the binder knows it."""
    return None


def item_type(types: Types) -> DataType | None:
    """Return the type of x[i]: an element of an ARRAY, or the value of a key of a MAP."""
    match types[0]:
        case ArrayType(element=element):
            return element if types[1].is_integer else None
        case MapType(key=key, of=of):
            return of if common_type(key, types[1]) == key else None
        case _:
            return None


def array_type(types: Types) -> DataType | None:
    """Return the type of an ARRAY of values."""
    element: DataType | None = types[0]
    for type_ in types[1:]:
        element = None if element is None else common_type(element, type_)
    return None if element is None or element is Type.NULL else ArrayType(element)


def map_type(types: Types) -> DataType | None:
    """Return the type of a MAP of keys and values, which take turns."""
    keys, values = array_type(types[::2]), array_type(types[1::2])
    if len(types) % 2 or not isinstance(keys, ArrayType) or not isinstance(values, ArrayType) or has_map(keys.element):
        return None
    return MapType(keys.element, values.element)


def map_of_arrays(types: Types) -> DataType | None:
    """Return the type of a MAP of an ARRAY of keys and one of values."""
    keys, values = types
    if not isinstance(keys, ArrayType) or not isinstance(values, ArrayType) or has_map(keys.element):
        return None
    return MapType(keys.element, values.element)


def of_arrays(result: DataType | None = None, *wants: DataType) -> Typing:
    """Return a typing whose first argument is an ARRAY; the result is that type, if no other is given."""

    def typing(types: Types) -> DataType | None:
        if not isinstance(types[0], ArrayType) or not _fit(types[1:], wants):
            return None
        return result or types[0]

    return typing


def of_text_arrays(types: Types) -> DataType | None:
    """Return STRING for an ARRAY of STRING and texts."""
    return Type.STRING if types[0] == ArrayType(Type.STRING) and _fit(types[1:], (Type.STRING, Type.STRING)) else None


def with_element(result: DataType | None = None) -> Typing:
    """Return a typing of an ARRAY and a value that it may hold."""

    def typing(types: Types) -> DataType | None:
        array, value = types
        if not isinstance(array, ArrayType) or has_map(array) or common_type(array.element, value) != array.element:
            return None
        return result or array

    return typing


def element_of(types: Types) -> DataType | None:
    """Return the type of the elements, if they have an order."""
    return types[0].element if isinstance(types[0], ArrayType) and not is_nested(types[0].element) else None


def in_order(types: Types) -> DataType | None:
    """Return the type of an ARRAY that can be sorted."""
    return types[0] if element_of(types) is not None and _fit(types[1:], (Type.BOOLEAN,)) else None


def two_arrays(result: DataType | None = None) -> Typing:
    """Return a typing of two ARRAYs of one type, whose elements can be compared."""

    def typing(types: Types) -> DataType | None:
        left, right = types
        if not isinstance(left, ArrayType) or left != right or has_map(left):
            return None
        return result or left

    return typing


def flattened(types: Types) -> DataType | None:
    """Return the type of an ARRAY of ARRAYs without its outer level."""
    return types[0].element if isinstance(types[0], ArrayType) and isinstance(types[0].element, ArrayType) else None


def sequence_type(types: Types) -> DataType | None:
    """Return the type of an ARRAY of integers or times, from one to another, with a step."""
    known = {type_ for type_ in types[:2] if type_ is not Type.NULL}
    step = types[2] if len(types) == 3 else Type.NULL
    if known and all(type_.is_integer for type_ in known) and (step is Type.NULL or step.is_integer):
        return ArrayType(Type.BIGINT)
    if known in ({Type.DATE}, {Type.TIMESTAMP}) and step in (Type.NULL, Type.INTERVAL):
        return ArrayType(known.pop())
    return None


def same_maps(types: Types) -> DataType | None:
    """Return the type of MAPs, which must be one."""
    return types[0] if isinstance(types[0], MapType) and all(type_ == types[0] for type_ in types) else None


def keys_of(types: Types) -> DataType | None:
    """Return the type of the keys of a MAP, as an ARRAY."""
    return ArrayType(types[0].key) if isinstance(types[0], MapType) else None


def values_of(types: Types) -> DataType | None:
    """Return the type of the values of a MAP, as an ARRAY."""
    return ArrayType(types[0].of) if isinstance(types[0], MapType) else None


def has_key(types: Types) -> DataType | None:
    """Return BOOLEAN for a MAP and a key that it may have."""
    return (
        Type.BOOLEAN if isinstance(types[0], MapType) and common_type(types[0].key, types[1]) == types[0].key else None
    )


def sized(types: Types) -> DataType | None:
    """Return BIGINT for what has a number of elements."""
    return Type.BIGINT if isinstance(types[0], ArrayType | MapType) else None


def collected(types: Types) -> DataType | None:
    """Return the type of an ARRAY of an aggregate's values."""
    return None if types[0] is Type.NULL else ArrayType(types[0])


def collected_once(types: Types) -> DataType | None:
    """Return the same for values that can be compared."""
    return None if types[0] is Type.NULL or is_nested(types[0]) else ArrayType(types[0])


def joined(types: Types) -> DataType | None:
    """Return the type of the texts that string_agg joins: an ARRAY before it does."""
    return ArrayType(Type.STRING) if all(type_ is Type.STRING for type_ in types) else None


def written(types: Types) -> DataType | None:
    """Return STRING for what can be written as JSON: not a plain value, as in Spark."""
    return Type.STRING if is_nested(types[0]) else None


def _fit(types: Types, wants: Sequence[DataType]) -> bool:
    """Return whether arguments have the types, of which the last ones may be missing; any integer is a BIGINT."""
    return all(
        have == want or have is Type.NULL or (want is Type.BIGINT and have.is_integer)
        for have, want in zip(types, wants, strict=False)
    )
