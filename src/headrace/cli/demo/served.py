"""The demo's deployment on a page: a server beside a session that runs already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace import extras
from headrace.cli.serving.logs import Form, log_to
from headrace.connectors import console
from headrace.errors import HostFault
from headrace.session import Session

#: Where `headrace serve` listens, too; any other port will do.
PORT = 4280


@dataclass(frozen=True, slots=True)
class Page:
    """Where the page is, and how statements are run beside those of its users; no address: it is not served."""

    address: str | None
    execute: Callable[[str], object]


@contextmanager
def on_page(session: Session) -> Iterator[Page]:
    """Serve a session on this machine until the end; without the packages that this needs it goes on alone."""
    if not all(map(extras.is_installed, ("starlette", "uvicorn", "websockets"))):
        yield Page(None, session.execute)
        return
    from headrace.server.server import Options, Server  # these need the packages
    from headrace.server.service import Service

    service = Service(lambda: session)
    log = log_to(session.directory, Form.text)
    console.silence()  # statements of the page print nothing over the picture
    try:
        server = Server(service, Options(port=PORT, log_file=str(log)))
    except HostFault:  # the port is taken
        server = Server(service, Options(port=0, log_file=str(log)))
    server.start()
    try:
        yield Page(server.owner_url, lambda text: service.change(lambda: session.execute(text)).result())
    finally:
        server.stop()
        server.release()
