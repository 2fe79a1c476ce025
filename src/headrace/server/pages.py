"""The page: static files of the console if it was built, and a page without script in any case."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as WebRoute

from headrace import __version__
from headrace.errors import HeadraceError
from headrace.server import read
from headrace.server.problems import Fault, problem_of
from headrace.server.tokens import Login
from headrace.server.views.statements import ListingOutcome, MessageOutcome, StartedOutcome

if TYPE_CHECKING:
    from headrace.server.server import Server

#: Where the built console is, and why it could not be built.
DIST = Path(__file__).parent / "console" / "dist"
REASON = DIST.parent / "reason.txt"
STYLE = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{margin:1rem auto;max-width:70rem;padding:0 1rem}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{text-align:left;padding:.15rem .8rem .15rem 0;
vertical-align:top}th{font-weight:600;border-bottom:1px solid}pre,textarea,input{font:13px/1.4 ui-monospace,monospace}
textarea{width:100%;box-sizing:border-box}.bad{font-weight:700}h2{margin-top:1.6rem}
"""
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


def page_routes(server: Server) -> list[BaseRoute]:
    """Return the routes of pages; everything that is no file of the console is its first page, which reads the path."""

    async def plain(request: Request) -> Response:
        return await _plain(server, request)

    async def style(request: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def console(request: Request) -> Response:
        path = request.path_params["path"]
        if path.startswith(("api/", "health/")):
            raise Fault(404, "there is nothing here")
        if not (DIST / "index.html").is_file():
            return RedirectResponse("plain", 303) if not path else _not_found()
        root = DIST.resolve()
        file = (root / path).resolve()
        if path and file.is_file() and file.is_relative_to(root):
            is_hashed = "assets/" in path
            headers = {"cache-control": "public, max-age=31536000, immutable" if is_hashed else "no-cache"}
            return FileResponse(file, headers=headers, media_type=_TYPES.get(file.suffix))
        if path.startswith("assets/"):
            return _not_found()
        return FileResponse(root / "index.html", headers={"cache-control": "no-cache"})

    return [
        WebRoute("/plain", plain, methods=["GET", "POST"]),
        WebRoute("/plain.css", style, methods=["GET"]),
        WebRoute("/{path:path}", console, methods=["GET"]),
    ]


def _not_found() -> Response:
    return Response("there is nothing here\n", 404, media_type="text/plain")


async def _plain(server: Server, request: Request) -> Response:
    from headrace.server.app import authenticate

    form: dict[str, list[str]] = {}
    if request.method == "POST":
        form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    if "token" in form:
        login = server.keys.login(form["token"][0].strip()) if not server.keys.is_guessed else None
        if login is None:
            return _page("Headrace", _login_form("This token opens nothing."), 401)
        response: Response = RedirectResponse("plain", 303)
        response.headers["set-cookie"] = server.cookies.header(server.cookies.make(login))
        return response
    try:
        login = authenticate(server, request, required=True)
    except Fault:
        return _page("Headrace", _login_form(""), 401)
    said = ""
    if "text" in form:
        said = await _run(server, login, form["text"][0])
    return _page(
        "Headrace", _overview(server) + _statement_form(said, form.get("text", [""])[0]), 200, refresh=not said
    )


async def _run(server: Server, login: Login, text: str) -> str:
    try:
        execute = partial(server.service.execute, text, dry=False, check=server.fence(login))
        answer = await asyncio.to_thread(execute)
        if isinstance(answer, Future):
            answer = await asyncio.wrap_future(answer)
    except (HeadraceError, Fault) as error:
        problem = problem_of(error)
        lines = [f"{problem.code} {problem.title}: {problem.detail}", problem.excerpt or "", problem.hint or ""]
        return "\n".join(filter(None, lines))
    parts = []
    for outcome in answer.outcomes:
        match outcome:
            case MessageOutcome(text=said):
                parts.append(said)
            case StartedOutcome(query=query):
                parts.append(f"query {query} is running")
            case ListingOutcome(columns=columns, rows=rows):
                parts.append("\n".join(" | ".join(map(str, row)) for row in (columns, *rows)))
    return "\n".join(parts) or "done"


def _overview(server: Server) -> str:
    service = server.service
    beat, (state, stage) = service.beats.latest, service.status()
    catalog, running, statistics = service.catalog, service.running, service.statistics
    load = "" if beat.load is None else f", load {beat.load:.0%}"
    took = "" if beat.took_ms is None else f", {beat.took_ms:.0f} ms"
    parts = [
        _why_plain(),
        f"<p role=status><b>{_e(state)}</b>{_e(': ' + stage if stage else '')}, micro-batch {beat.batch}{took}{load}, "
        f"{beat.rate:,.0f} tuples/s, state {beat.state_bytes / 2**20:.1f} MB, {beat.queued:,} tuples wait</p>",
    ]
    if beat.bottleneck_title:
        parts.append(f"<p>bottleneck: {_e(beat.bottleneck_title)}</p>")
    standings = [
        (s.query, s.measure, s.strictness, _amount(s.measure, s.promised),
         "-" if s.observed is None else _amount(s.measure, s.observed),
         "unknown" if s.kept is None else "kept" if s.kept else "BROKEN")
        for s in beat.promises
    ]  # fmt: skip
    parts.append(_table("Promises", ("query", "measure", "class", "promised", "observed", "state"), standings))
    streams = [
        (s.name, f"{s.rate:,.0f}", f"{s.tuples:,}", "-" if s.lag_ms is None else f"{s.lag_ms / 1000:,.1f} s",
         f"{s.late:,}", f"{s.bad:,}", f"{s.unread:,} {s.unread_unit}" if s.unread else "-")
        for s in beat.streams
    ]  # fmt: skip
    parts.append(_table("Streams", ("stream", "per second", "tuples", "lag", "late", "bad", "unread"), streams))
    queries = [
        (q.name, q.state, f"{q.rate:,.1f}", f"{q.results:,}",
         "-" if q.latency_ms is None else f"{q.latency_ms:,.0f} ms", f"{q.waiting:,}", f"{q.shed:,}")
        for q in beat.queries
    ]  # fmt: skip
    heads = ("query", "state", "per second", "results", "latency", "waiting", "shed")
    parts.append(_table("Queries", heads, queries))
    rules = [read.rule_view(rule, running, statistics) for rule in catalog.rules()]
    shown = [(r.name, r.event, r.state, r.detections, r.done, r.waiting, r.failed) for r in rules]
    parts.append(_table("Rules", ("rule", "event", "state", "detections", "called", "waiting", "failed"), shown))
    numbered = service.session.deployment.control.decisions.numbered()
    made = read.decisions_view(numbered, 0, None, 20).decisions
    decided = [(str(d.number), d.query or "all", d.action, d.reason) for d in reversed(made)]
    parts.append(_table("Decisions", ("number", "query", "decision", "reason"), decided))
    return "".join(parts)


def _why_plain() -> str:
    """Return why there is no console, or where it is."""
    if (DIST / "index.html").is_file():
        return '<p><a href="./">Open the console</a></p>'
    reason = REASON.read_text() if REASON.is_file() else "it was not built; web/build in a checkout builds it"
    return f"<p>The console is not there: {_e(reason.strip())}</p>"


def _amount(measure: str, value: float) -> str:
    if measure == "latency":
        return f"{value / 1000:,.0f} ms"
    return f"{value / 2**20:,.1f} MB" if measure == "memory" else f"{value:,.1f}/s"


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(f'<th scope="col">{_e(name)}</th>' for name in heads)
    return f"<h2>{_e(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _statement_form(said: str, text: str) -> str:
    shown = f"<pre role=status>{_e(said)}</pre><p><a href=plain>refresh</a></p>" if said else ""
    return (
        "<h2>Statements</h2>" + shown + "<form method=post action=plain><p><label for=text>Statements end with a "
        f"semicolon.</label><br><textarea id=text name=text rows=6>{_e(text if said else '')}</textarea></p>"
        "<p><button>Run</button></p></form>"
    )


def _login_form(said: str) -> str:
    return (
        f"<p role=alert>{_e(said)}</p><form method=post action=plain><p><label for=token>Token</label><br>"
        "<input id=token name=token type=password autocomplete=off required></p><p><button>Open</button></p></form>"
        "<p>The token is in the URL that <code>headrace serve</code> has printed, behind the #.</p>"
    )


def _page(title: str, body: str, status: int, *, refresh: bool = False) -> Response:
    again = "<meta http-equiv=refresh content=2>" if refresh else ""
    text = (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{_e(title)}</title>{again}"
        "<meta name=viewport content='width=device-width'><link rel=stylesheet href=plain.css></head>"
        f"<body><h1>{_e(title)} <small>{_e(__version__)}</small></h1>{body}</body></html>"
    )
    return Response(text, status, media_type="text/html")


def _e(value: object) -> str:
    return html.escape(str(value))
