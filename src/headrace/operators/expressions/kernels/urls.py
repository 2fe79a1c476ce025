"""Parts of URLs, and texts as they are written in URLs."""

from __future__ import annotations

import re
from urllib.parse import quote_plus, unquote_plus

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Kernel, each

#: The parts of a URI, as RFC 3986 divides it.
_URI = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?")
#: What is no character of a URI.
_FORBIDDEN = re.compile(r'[\s"<>\\^`{|}\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})')
_ENCODED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*", re.DOTALL)


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL; None if it has none, or is no URL."""
    match = _URI.fullmatch(url)
    if match is None or _FORBIDDEN.search(url) or (key is not None and part != "QUERY"):
        return None
    scheme, authority, path, query, fragment = match.groups()
    is_opaque = scheme is not None and authority is None and not path.startswith("/")  # such as mailto:ann
    before, at, address = (authority or "").rpartition("@")
    host = re.sub(r":\d*$", "", address)
    match part:
        case "PROTOCOL":
            return scheme
        case "REF":
            return fragment
        case _ if is_opaque:
            return None
        case "AUTHORITY":
            return authority or None
        case "USERINFO":
            return before if at else None
        case "HOST":
            return host or None
        case "PATH":
            return path
        case "FILE":
            return path if query is None else f"{path}?{query}"
        case "QUERY" if key is not None:
            found = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", query or "")
            return None if found is None else found[1]
        case "QUERY":
            return query
        case _:
            return None


def url_encode(text: str) -> str:
    """Write a text as a value in the query of a URL, as Java does."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def url_decode(text: str) -> str | None:
    """Return the text that a value in the query of a URL means; None if it is none."""
    return unquote_plus(text, errors="replace") if _ENCODED.fullmatch(text) else None


URLS: dict[str, Kernel] = {
    "parse_url": lambda args: each(parse_url, args, [Type.STRING]),
    "url_encode": lambda args: each(url_encode, args, [Type.STRING]),
    "url_decode": lambda args: each(url_decode, args, [Type.STRING]),
}
