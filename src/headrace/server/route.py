"""What a route is: an entry of ROUTES, from which the application, the OpenAPI document and the docs are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from headrace.server.problems import Fault
from headrace.server.tokens import Login
from headrace.server.views.view import Role

if TYPE_CHECKING:
    from headrace.server.server import Server


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as a handler sees it: who asks, the names in the path, options, and the decoded body."""

    server: Server
    login: Login
    names: Mapping[str, str]
    options: Mapping[str, str]
    body: Any
    request: Request

    @property
    def safe(self) -> bool:
        """Return whether integers must be exact in JavaScript."""
        return "safe" in self.options

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """Return an option that is a whole number."""
        text = self.options.get(name)
        if text is None or text == "":
            return default
        try:
            number = int(text)
        except ValueError:
            raise Fault(400, f"{name} must be a whole number, not {text[:80]!r}") from None
        if not least <= number <= most:
            raise Fault(400, f"{name} must be from {least} to {most}")
        return number


Handler: TypeAlias = Callable[[Call], Any | Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option of a request, in the query of its URL."""

    name: str
    sentence: str
    kind: Literal["string", "integer", "boolean"] = "string"


@dataclass(frozen=True, slots=True)
class Route:
    """An entry of the table of routes. Without a role it is open to everybody."""

    method: Literal["GET", "POST", "WS"]
    path: str
    role: Role | None
    sentence: str
    handler: Handler
    asks: Any = None  # the type of the body
    answers: Any = None  # the type of the answer; None: not JSON
    parameters: tuple[Parameter, ...] = ()
    media: str = "application/json"
    starts: bool = True  # whether it is answered while the server starts


__all__ = ["Call", "Handler", "Parameter", "Response", "Route"]
