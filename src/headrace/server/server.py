"""The HTTP server: it listens in a thread of its own, and ends when it is told, also with streams open."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from headrace import __version__
from headrace.errors import HostFault
from headrace.server.app import make_app
from headrace.server.fence import Policy, fence_for
from headrace.server.guard import LOOPBACK, Cookies
from headrace.server.history import History
from headrace.server.live import MESSAGE, Live
from headrace.server.place import Served, remove_place, write_place
from headrace.server.requests import Requests
from headrace.server.routes.table import ROUTES
from headrace.server.service import Service
from headrace.server.tokens import Keys, Login, TokenFile, remove_owner_token, token_path, write_owner_token
from headrace.server.views.figures import Beat

_LOG = logging.getLogger(__name__)
#: Seconds that open requests have to end when the server stops.
GRACE = 2


@dataclass(frozen=True, slots=True)
class Options:
    """How a server is reached, and by whom."""

    host: str = "127.0.0.1"
    port: int = 4280
    unix: Path | None = None
    hosts: frozenset[str] = LOOPBACK
    origins: frozenset[str] = frozenset()
    tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    read_only: bool = False
    behind_proxy: bool = False
    log_file: str = ""
    policy: Policy = field(default_factory=Policy)

    @property
    def secure(self) -> bool:
        """Return whether clients come by TLS."""
        return self.certificate is not None or self.behind_proxy


class Server:
    """Serves a deployment by HTTP."""

    routes = ROUTES

    def __init__(self, service: Service, options: Options | None = None) -> None:
        self.options = options or Options()
        self.service = service
        self._owner_token = write_owner_token(service.directory)
        self.keys = Keys(TokenFile(self.options.tokens or token_path(service.directory)), self._owner_token)
        self.history = History(service.directory)
        self.requests: Requests = Requests()
        self.live: Live = Live(self)
        self._socket = self._listen()
        self._port = 0 if self.options.unix is not None else int(self._socket.getsockname()[1])
        self.cookies = Cookies(self.port, secure=self.options.secure)
        self.stop_asked = threading.Event()
        config = uvicorn.Config(
            make_app(self),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=10,
            ws="websockets-sansio",
            ws_max_size=MESSAGE,
            ws_ping_interval=20.0,
            ws_ping_timeout=20.0,
            h11_max_incomplete_event_size=64 * 1024,
            proxy_headers=self.options.behind_proxy,
            forwarded_allow_ips="127.0.0.1,::1" if self.options.behind_proxy else None,
            ssl_certfile=None if self.options.certificate is None else str(self.options.certificate),
            ssl_keyfile=None if self.options.key is None else str(self.options.key),
        )
        self._web = _Web(config, self.live.begin)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return self._port

    @property
    def url(self) -> str:
        """Return its address."""
        if self.options.unix is not None:
            return f"unix:{self.options.unix}"
        scheme = "https" if self.options.certificate is not None else "http"
        host = self.options.host
        host = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
        return f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"

    @property
    def owner_url(self) -> str:
        """Return its address with the owner's token in the fragment, which browsers do not send."""
        return f"{self.url}/#token={self._owner_token}"

    def start(self) -> None:
        """Listen, and let the deployment begin."""
        self.service.listeners.append(self._on_beat)
        self.service.shelves.listen = self.live.on_results
        self._thread.start()
        served = Served(url=self.url, pid=_pid(), version=__version__, log=self.options.log_file)
        write_place(self.service.directory, served)
        self.service.start()

    def request_stop(self) -> None:
        """Ask whoever waits for the server to stop it."""
        self.stop_asked.set()

    def stop(self) -> None:
        """End: streams first, then the micro-batch, then the checkpoint is free."""
        stopping = threading.Thread(target=self.service.stop, name="stop")
        stopping.start()
        self.live.wake_all()
        stopping.join()
        self.history.write()
        self._web.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE + 3)
        if self.options.unix is not None:
            self.options.unix.unlink(missing_ok=True)

    def release(self) -> None:
        """Remove what tells others of this server."""
        remove_place(self.service.directory)
        remove_owner_token(self.service.directory)

    def fence(self, login: Login, *, reads: bool = False) -> Callable[[str], None]:
        """Return what checks statements of a client before they run; `reads` if nothing takes effect anyway."""
        return fence_for(login, self.options.policy, read_only=self.options.read_only, reads=reads)

    def _on_beat(self, beat: Beat) -> None:
        self.history.take(beat, self.service.beats.figures)
        self.live.on_beat(beat)

    def _run(self) -> None:
        self._web.run(sockets=[self._socket])

    def _listen(self) -> socket.socket:
        options = self.options
        if options.unix is not None:
            family = socket.AF_UNIX
        else:
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            if options.unix is not None:
                options.unix.unlink(missing_ok=True)
                listener.bind(str(options.unix))
                options.unix.chmod(0o600)
            else:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((options.host, options.port))
            listener.listen(256)
        except OSError as error:
            listener.close()
            where = options.unix or f"{options.host}:{options.port}"
            raise HostFault(
                f"cannot listen at {where}: {error.strerror or error}",
                hint="choose another address with --bind, such as 127.0.0.1:0 for any free port",
            ) from error
        return listener


class _Web(uvicorn.Server):
    """Uvicorn in a thread: it takes no signals, and says when its loop runs."""

    def __init__(self, config: uvicorn.Config, on_loop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_loop = on_loop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_loop()
        await super().startup(sockets)


def _pid() -> int:
    import os

    return os.getpid()
