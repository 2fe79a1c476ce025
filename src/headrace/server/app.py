"""The Starlette application, made from the table of routes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as WebRoute
from starlette.websockets import WebSocket

from headrace.server.guard import SLASH, Guard
from headrace.server.pages import page_routes
from headrace.server.problems import Fault, problem_of
from headrace.server.route import Call, Route
from headrace.server.routes.rows import rows_of
from headrace.server.tokens import Login
from headrace.server.views.problem import Problem

if TYPE_CHECKING:
    from headrace.server.server import Server

_LOG = logging.getLogger(__name__)
NOBODY = Login("", "read")
PROBLEM = "application/problem+json"
_ROWS = ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream")


def make_app(server: Server) -> Guard:
    """Return the application of a server."""
    routes: list[BaseRoute] = []
    for route in server.routes:
        if route.method == "WS":
            routes.append(WebSocketRoute(route.path, _live(server)))
        else:
            routes.append(WebRoute(route.path, _endpoint(server, route), methods=[route.method]))
    routes += page_routes(server)

    async def on_http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = {404: "there is nothing here", 405: "this method is not for this address"}.get(status, str(error))
        return _problem(Fault(status, detail).problem)

    async def on_error(request: Request, error: Exception) -> Response:
        return _problem(problem_of(error))

    app = Starlette(routes=routes, exception_handlers={HTTPException: on_http_error, Fault: on_error})
    return Guard(app, server.options.hosts, server.options.origins, secure=server.options.secure)


def _endpoint(server: Server, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        began, status = time.perf_counter(), 500
        try:
            response = await _answer(server, route, request)
            status = response.status_code
            return response
        except Exception as error:
            problem = problem_of(error)
            status = problem.status
            headers = error.headers if isinstance(error, Fault) else {}
            return _problem(problem, headers)
        finally:
            server.requests.count(route, status, time.perf_counter() - began)

    return endpoint


async def _answer(server: Server, route: Route, request: Request) -> Response:
    login = authenticate(server, request, required=route.role is not None)
    if route.role is not None and not login.may(route.role):
        raise Fault(403, f"this needs a token with the role {route.role}", code="HR302")
    if server.keys.is_guessed and route.path.endswith("/login"):
        raise Fault(429, "too many wrong tokens", headers={"Retry-After": "1"})
    body = await _body(route, request)
    names = {key: str(value).replace(SLASH, "/") for key, value in request.path_params.items()}
    call = Call(server, login, names, dict(request.query_params), body, request)
    if inspect.iscoroutinefunction(route.handler):
        view = await route.handler(call)
    else:
        view = await asyncio.to_thread(route.handler, call)
    if isinstance(view, Future):
        view = await asyncio.wrap_future(view)
    if isinstance(view, Response):
        return view
    data = await asyncio.to_thread(msgspec.json.encode, view)
    response = Response(data, getattr(request.state, "status", 200), media_type="application/json")
    cookie = getattr(request.state, "cookie", None)
    if cookie is not None:
        response.headers["set-cookie"] = server.cookies.header(cookie)
    return response


def authenticate(server: Server, request: HTTPConnection, *, required: bool) -> Login:
    """Return who asks: by a bearer token, or by the cookie of a page."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        if server.keys.is_guessed:
            raise Fault(429, "too many wrong tokens", headers={"Retry-After": "1"})
        login = server.keys.login(token.strip())
        if login is not None:
            return login
        if required:
            raise Fault(401, "this token opens nothing", headers={"WWW-Authenticate": "Bearer"})
    login = server.cookies.find(request)
    if login is not None and login in server.keys.logins():  # else its token was revoked
        return login
    if required:
        raise Fault(
            401,
            "a token is needed",
            hint="Authorization: Bearer TOKEN; the owner's token is in owner.token in the checkpoint",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return NOBODY


async def _body(route: Route, request: Request) -> Any:
    if route.asks is None:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    allowed = _ROWS if route.path.endswith("/rows") else _ROWS[:1]
    if kind not in allowed:
        raise Fault(415, f"the body must be {' or '.join(allowed)}", hint="set the header Content-Type")
    data = await request.body()
    try:
        if route.path.endswith("/rows"):
            return rows_of(data, kind)
        return msgspec.json.decode(data, type=route.asks)
    except msgspec.ValidationError as error:
        raise Fault(422, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Fault(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Fault(422, "the body is nested too deeply") from None


def _problem(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(problem), problem.status, headers, media_type=PROBLEM)


def _live(server: Server) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        try:
            login = authenticate(server, socket, required=True)
        except Fault as fault:
            await socket.close(1008, fault.problem.detail)
            return
        await server.live.serve(socket, login)

    return serve
