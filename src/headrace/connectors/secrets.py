"""Secrets among the options of sources and sinks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace import secrets
from headrace.catalog.definitions import Connector, Stream
from headrace.errors import HeadraceError, HostFault, Span
from headrace.redaction import has_secret, hide, is_secret_name


def resolved(
    connector: Connector, *, error: type[HeadraceError] = HostFault, where: str = "", span: Span | None = None
) -> Connector:
    """Return a connector with its secrets, for immediate use; raise `error` if one of them cannot be read."""
    for name, value in connector.options.items():
        if is_secret_name(name) and not secrets.has_reference(str(value)):
            hide(str(value))
    if not any(secrets.has_reference(value) for value in connector.options.values() if isinstance(value, str)):
        return connector
    options = {
        name: secrets.resolve(value, error=error, where=f"{where}option {name}", span=span)
        if isinstance(value, str)
        else value
        for name, value in connector.options.items()
    }
    return msgspec.structs.replace(connector, options=options)


def with_secrets(stream: Stream) -> Stream:
    """Return a stream whose source has its secrets, for immediate use."""
    connector = resolved(stream.connector, where=f"stream {stream.name}: ")
    return stream if connector is stream.connector else msgspec.structs.replace(stream, connector=connector)


def warnings_of(*connectors: Connector) -> Iterator[str]:
    """Yield a warning for each secret that is written in clear."""
    for connector in connectors:
        for name, value in connector.options.items():
            text = str(value)
            in_clear = is_secret_name(name) and not secrets.has_reference(text) and not isinstance(value, bool)
            if in_clear or has_secret(text):
                yield warning(f"option {name} of {connector.kind}")


def warning(what: str) -> str:
    """Return the warning about a secret in clear."""
    return f"{what} holds a secret, which the checkpoint keeps in clear; write ${{env:NAME}} or ${{file:/path}} instead"
