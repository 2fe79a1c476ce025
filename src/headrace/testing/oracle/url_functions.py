"""What the functions of URLs mean, in plain Python."""

from __future__ import annotations

from urllib.parse import urlsplit

_HEXADECIMAL = "0123456789abcdefABCDEF"
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789*-._"


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL; None if it has none, or is no URL."""
    broken = any(c.isspace() or c in '"<>\\^`{|}' or ord(c) < 32 or ord(c) == 127 for c in url)
    escapes = url.split("%")[1:]
    if broken or any(len(rest) < 2 or not set(rest[:2]) <= set(_HEXADECIMAL) for rest in escapes):
        return None
    whole, has_ref, ref = url.partition("#")
    file, has_query, query = whole.partition("?")
    head, has_authority, rest = file.partition("//")
    scheme = head.removesuffix(":") if has_authority and head.endswith(":") else ""
    if not has_authority or (head and not scheme):  # no authority, or // stands within the path
        scheme = urlsplit(f"{file}").scheme and file.partition(":")[0]
        path, authority = file[len(scheme) + 1 :] if scheme else file, None
    else:
        authority, slash, after = rest.partition("/")
        path = slash + after
    values: dict[str, str | None] = {"PROTOCOL": scheme or None, "REF": ref if has_ref else None}
    if not (scheme and authority is None and not path.startswith("/")):
        user, at, address = (authority or "").rpartition("@")
        host, colon, port = address.rpartition(":")
        values |= {
            "AUTHORITY": authority or None,
            "USERINFO": user if at else None,
            "HOST": (host if colon and (port.isdigit() or not port) else address) or None,
            "PATH": path,
            "QUERY": query if has_query else None,
            "FILE": path + ("?" + query if has_query else ""),
        }
    if key is None:
        return values.get(part)
    pairs = [pair.partition("=") for pair in (values.get("QUERY") or "").split("&")] if part == "QUERY" else []
    return next((value for name, equals, value in pairs if name == key and equals), None)


def url_encode(text: str) -> str:
    """Write a text as a value in the query of a URL."""
    shown = (chr(byte) if chr(byte) in _PLAIN else "+" if byte == 32 else f"%{byte:02X}" for byte in text.encode())
    return "".join(shown)


def url_decode(text: str) -> str | None:
    """Return the text that a value in the query of a URL means; None if it is none."""
    data, position = b"", 0
    while position < len(text):
        one = text[position]
        digits = text[position + 1 : position + 3]
        if one == "%" and (len(digits) < 2 or not set(digits) <= set(_HEXADECIMAL)):
            return None
        data += bytes([int(digits, 16)]) if one == "%" else b" " if one == "+" else one.encode()
        position += 3 if one == "%" else 1
    return data.decode(errors="replace")
