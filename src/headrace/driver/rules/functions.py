"""Calls of users' functions and of web servers, with a time limit; an action that hangs is not called again."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import NameFault
from headrace.model.python_target import RAISED, PythonTarget, text_of

#: So many calls of one action may hang before no further one is started.
_HANGING = 4


def load_function(target: str) -> Callable[..., Any]:
    """Import 'module:function'."""
    hint = "the module must be importable where the session runs"
    return PythonTarget.parse(target).load("the function", error=NameFault, hint=hint)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirections as errors: to follow one would send a GET, and to a server that the rule does not name."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


#: Goes to the server of the URL itself: through no proxy of the environment, and nowhere else.
_OPENER = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


def post(url: str, body: Mapping[str, Any], key: str, seconds: float) -> None:
    """Send JSON; an answer other than 2xx is an error, a redirection too."""
    data = json.dumps(body, default=str).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(url, data, headers, method="POST")
    with _OPENER.open(request, timeout=seconds) as answer:
        answer.read(1024)


class Limited:
    """Calls with a time limit.

    A call that exceeds it cannot be stopped and continues in its thread. An action with several such calls is not
    called. Without `threads` a call has no time limit.
    """

    def __init__(self, *, threads: bool = True) -> None:
        self._threads = threads
        self._hanging: dict[str, list[threading.Thread]] = {}

    def call(self, name: str, seconds: float, function: Callable[[], None]) -> str | None:
        """Call the function; return None on success, else the reason for the failure."""
        hanging = [thread for thread in self._hanging.pop(name, ()) if thread.is_alive()]
        if hanging:
            self._hanging[name] = hanging
        if len(hanging) >= _HANGING:
            return f"{len(hanging)} earlier calls have not come back"
        failure: list[str] = []
        if not self._threads:
            try:
                function()
            except RAISED as error:  # the user's code may raise anything
                return reason(error)
            return None

        def run() -> None:
            try:
                function()
            except BaseException as error:  # the user's code may raise anything, and only this thread is its own
                failure.append(reason(error))

        thread = threading.Thread(target=run, name=f"action {name}", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self._hanging[name] = [*hanging, thread]
            return f"no answer within {seconds:g} s"
        return failure[0] if failure else None


def reason(error: BaseException) -> str:
    """Write an error in one line."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"{error.reason}"
    return text_of(error)
