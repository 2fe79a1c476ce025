"""Who asks: tokens become cookies for pages, and health for those who only look whether the server is there."""

from __future__ import annotations

from starlette.responses import Response

from headrace.server.asks import LoginAsk
from headrace.server.problems import Fault
from headrace.server.route import Call
from headrace.server.views.deployment import Check, Health, LoginAnswer


def login(call: Call) -> LoginAnswer:
    """Exchange a token for a cookie."""
    ask: LoginAsk = call.body
    found = call.server.keys.login(ask.token)
    if found is None:
        raise Fault(401, "this token opens nothing", hint="use the one in the URL that headrace serve has printed")
    call.request.state.cookie = call.server.cookies.make(found)
    return LoginAnswer(found.name, found.role)


def logout(call: Call) -> LoginAnswer:
    """End the cookie."""
    call.server.cookies.end(call.request)
    call.request.state.cookie = ""
    return LoginAnswer(call.login.name, call.login.role)


def live(call: Call) -> Health:
    """Say that the process answers."""
    return Health("ok")


def ready(call: Call) -> Health | Response:
    """Say whether queries run, or could; the checks are for those who have a token."""
    checks = ready_checks(call)
    is_ready = all(check.ok for check in checks)
    shown = checks if call.login.name else ()
    health = Health("ok" if is_ready else "not ready", shown)
    call.request.state.status = 200 if is_ready else 503
    return health


def ready_checks(call: Call) -> tuple[Check, ...]:
    """Return the conditions of readiness."""
    service = call.server.service
    state, stage = service.status()
    return (
        Check("started", state not in ("starting",), stage or "started"),
        Check("not stopping", state != "stopping", "stopping" if state == "stopping" else "accepts statements"),
        Check("no fault", service.problem is None, service.problem.detail if service.problem else "nothing has failed"),
    )
