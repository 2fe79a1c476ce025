"""Forms that stand for others: LIKE with ESCAPE, INTERVAL with several fields, and ->> of JSON."""

from __future__ import annotations

import re

from sqlglot import exp

from headrace.errors import NotSupported, Span, SyntaxFault
from headrace.model.time import DAY, HOUR, MINUTE, SECOND
from headrace.plan.binding.span import place

#: The fields of an interval, with their sizes and what stands before each but the first.
_FIELDS = {"DAY": (DAY, ""), "HOUR": (HOUR, r"\s+"), "MINUTE": (MINUTE, ":"), "SECOND": (SECOND, ":")}


def without_escape(node: exp.Escape) -> exp.Expr:
    """Return x LIKE 'a!%' ESCAPE '!' with a backslash instead of the character."""
    like, escape = node.this, node.expression
    pattern = like.expression
    if not all(isinstance(part, exp.Literal) and part.is_string for part in (pattern, escape)) or len(escape.name) != 1:
        raise NotSupported(
            "LIKE with ESCAPE needs a constant pattern and one character",
            span=place(node),
            hint="write x LIKE '10!%' ESCAPE '!'",
        )
    escaped, character = "", escape.name
    rest = iter(pattern.name)
    for one in rest:
        if one == character:
            following = next(rest, None)
            if following not in ("%", "_", character):
                raise SyntaxFault(
                    f"in the pattern, {character!r} stands before %, _ or itself only",
                    span=place(pattern),
                    hint=f"write {character * 2} for the character itself",
                )
            one = following
            escaped += f"\\{one}" if one in ("%", "_", "\\") else one
        else:
            escaped += "\\\\" if one == "\\" else one
    result: exp.Expr = like.copy()
    literal = exp.Literal.string(escaped)
    literal.meta.update(pattern.meta)
    result.set("expression", literal)
    return result


def text_in_json(node: exp.JSONExtractScalar) -> exp.Expr | None:
    """Return s -> 'a' ->> 'b' as get_json_object(s, '$.a.b'); None if that has no such path."""
    path = ""
    inner: exp.JSONExtract | exp.JSONExtractScalar = node
    while True:
        steps = inner.expression.expressions[1:] if isinstance(inner.expression, exp.JSONPath) else [exp.Null()]
        written = [_step(step) for step in steps]
        if any(step is None for step in written):
            return None
        path = "".join(step or "" for step in written) + path
        below = inner.this
        if not isinstance(below, exp.JSONExtract) or isinstance(below, exp.JSONExtractScalar):
            break
        inner = below
    found = exp.Anonymous(this="get_json_object", expressions=[inner.this, exp.Literal.string(f"${path}")])
    found.meta.update(node.meta)
    return found


def _step(step: exp.Expr) -> str | None:
    """Return a step of a path as get_json_object takes it; None if it takes none such."""
    key = step.args.get("this")
    if isinstance(step, exp.JSONPathKey) and isinstance(key, str) and re.fullmatch(r"\w+", key):
        return f".{key}"
    if isinstance(step, exp.JSONPathSubscript) and isinstance(key, int) and key >= 0:
        return f"[{key}]"
    return None


def span_of_fields(text: str, unit: exp.IntervalSpan, span: Span | None) -> int:
    """Return INTERVAL '1 02:03:04' DAY TO SECOND in microseconds."""
    first, last = str(unit.this.name).upper(), str(unit.expression.name).upper()
    names = list(_FIELDS)
    if first not in names or last not in names or names.index(first) >= names.index(last):
        raise NotSupported(
            f"INTERVAL {first} TO {last} is not supported",
            span=span,
            hint="write INTERVAL '1 02:30:00' DAY TO SECOND, or INTERVAL 90 MINUTES; months have no fixed length",
        )
    chosen = names[names.index(first) : names.index(last) + 1]
    parts = ["" if name == first else _FIELDS[name][1] for name in chosen]
    pattern = "".join(f"{before}({_number(name)})" for before, name in zip(parts, chosen, strict=True))
    match = re.fullmatch(rf"([+-]?){pattern}", text.strip())
    if match is None:
        raise SyntaxFault(
            f"{text!r} is no INTERVAL {first} TO {last}", span=span, hint="write INTERVAL '1 02:30:00' DAY TO SECOND"
        )
    sign, *values = match.groups()
    total = sum(round(float(value) * _FIELDS[name][0]) for value, name in zip(values, chosen, strict=True))
    return -total if sign == "-" else total


def _number(field: str) -> str:
    return r"\d+(?:\.\d{1,9})?" if field == "SECOND" else r"\d+"
