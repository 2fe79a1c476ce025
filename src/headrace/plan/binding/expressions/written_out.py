"""Functions of other systems that are an expression of ours, written out before they are bound."""

from __future__ import annotations

import re
from functools import cache

from sqlglot import exp

from headrace.errors import TypeFault
from headrace.language.dialect import parse_expressions, tokenize
from headrace.plan.binding.span import place

#: By name and number of arguments: an expression over $0, $1, ...
FORMS: dict[tuple[str, int], str] = {
    ("array_compact", 1): 'filter($0, "$x" -> "$x" IS NOT NULL)',
    ("array_first", 1): "element_at($0, 1)",
    ("array_has", 2): "array_contains($0, $1)",
    ("array_last", 1): "element_at($0, -1)",
    ("array_prepend", 2): "flatten(array(array($1), $0))",
    ("array_repeat", 2): 'CASE WHEN $1 > 0 THEN transform(sequence(1, $1), "$i" -> $0) '
    "WHEN $1 <= 0 THEN slice(array($0), 1, 0) END",
    ("array_reverse", 1): "CASE WHEN size($0) = 0 THEN $0 "
    'ELSE transform(sequence(size($0), 1, -1), "$i" -> element_at($0, "$i")) END',
    ("epoch_ms", 1): "unix_millis($0)",
    ("epoch_us", 1): "unix_micros($0)",
    ("extractjsonfield", 2): "get_json_object($0, $1)",
    ("iff", 3): "CASE WHEN $0 THEN $1 ELSE $2 END",
    ("iif", 3): "CASE WHEN $0 THEN $1 ELSE $2 END",
    ("json_extract_string", 2): "get_json_object($0, $1)",
    ("list_contains", 2): "array_contains($0, $1)",
    ("list_has", 2): "array_contains($0, $1)",
    ("list_reverse", 1): "array_reverse($0)",
    ("list_sort", 1): "array_sort($0)",
    ("map_entries", 1): 'transform(map_keys($0), "$k" -> named_struct(\'key\', "$k", \'value\', element_at($0, "$k")))',
    ("row_to_json", 1): "to_json($0)",
    ("xor", 2): "(($0) OR ($1)) AND NOT (($0) AND ($1))",
}
#: What functions of texts are for an ARRAY.
OF_ARRAYS = {"len": "size", "length": "size", "reverse": "array_reverse"}
NAMES = frozenset(name for name, _ in FORMS)


def written_out(call: exp.Anonymous) -> exp.Expr:
    """Return the expression that a call stands for, with the places of the text that the user wrote."""
    args = call.expressions
    form = FORMS.get((call.name.lower(), len(args)))
    if form is None:
        takes = sorted(number for name, number in FORMS if name == call.name.lower())
        raise TypeFault(
            f"{call.name} takes {' or '.join(map(str, takes))} argument{'s' if takes != [1] else ''}, not {len(args)}",
            span=place(call),
        )
    tree = exp.Paren(this=_parsed(form).copy())
    for part in tree.walk():
        part.meta.update(call.meta)
    for column in list(tree.find_all(exp.Column)):
        if column.name.startswith("arg_"):
            column.replace(exp.Paren(this=args[int(column.name[4:])].copy()))
    result: exp.Expr = tree.this
    return result.pop()


@cache
def _parsed(form: str) -> exp.Expr:
    text = re.sub(r"\$(\d)", r"arg_\1", form)
    (tree,) = parse_expressions(tokenize(text), text)
    return tree
