"""The fence: what statements from the network may reach. Statements and a policy in, a fault out; nothing is run.

One table says for each kind of source, sink and action what is checked. A kind that is not in it is refused. Python
code is checked by the list of allowed modules, which holds for everybody (`model.allowed_python`).
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from headrace.connectors.kinds import SINKS
from headrace.errors import Fenced, HeadraceError, QueryError, Span
from headrace.language.parser import parse
from headrace.language.syntax import parcels, rules, statements, stints
from headrace.language.syntax.names import FED, ConnectorClause
from headrace.language.syntax.statements import Statement
from headrace.redaction import REFERENCE
from headrace.server.problems import Fault
from headrace.server.tokens import Login
from headrace.storage.location import is_object_url, location

#: What begins a pattern in a path.
_PATTERN = re.compile(r"[*?\[{$]")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Policy(Struct, frozen=True):
    """What statements of clients may reach: a folder, Spark formats, hosts (`*`: all), and secrets (`env:PG_*`)."""

    files: Path = Path()
    spark: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()


#: Returns the addresses of a host; tests give another.
Resolve: TypeAlias = Callable[[str], list[str]]


def resolve_host(host: str) -> list[str]:
    """Return the addresses of a host; none if it is unknown."""
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None)})
    except OSError:
        return []


def is_reading(statement: Statement) -> bool:
    """Return whether a statement changes nothing; what is not known to read counts as a change."""
    return isinstance(
        statement,
        statements.Show | statements.ShowCreate | statements.Describe | statements.Explain | statements.ExplainReplace,
    )


def fence_for(login: Login, policy: Policy, *, read_only: bool, reads: bool) -> Callable[[str], None]:
    """Return what checks the text of a client before it runs; `reads` if nothing of it takes effect."""

    def check(text: str) -> None:
        for statement in parse(text):
            if not is_reading(statement) and not reads:
                if read_only:
                    raise Fault(403, "this server is read-only", code="HR302")
                if not login.may("write"):
                    raise Fault(
                        403,
                        "this token may only read",
                        code="HR302",
                        hint="SHOW, DESCRIBE and EXPLAIN work; for others use a token with the role write",
                    )
            try:
                check_statement(statement, policy)
            except HeadraceError as error:
                if error.span is not None:
                    error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
                    error.text = text
                raise

    return check


def check_statement(statement: Statement, policy: Policy, resolve: Resolve = resolve_host) -> None:
    """Raise a fault if a statement reaches what is not allowed."""
    for clause in connectors_in(statement):
        check = REACH.get(clause.kind)
        if check is None:
            raise Fenced(f"{clause.kind} is not for statements of clients", span=clause.span)
        for value in clause.options.values():
            _check_secrets(str(value), clause.span, policy)
        check(clause, policy, resolve)
    for action in statement.actions if isinstance(statement, rules.CreateRule) else ():
        if isinstance(action, rules.WebhookClause):
            _check_secrets(action.url.text, action.url.span, policy)
            _check_host(_host_in(action.url.text), action.url.span, policy, resolve)


def connectors_in(statement: Statement) -> Iterator[ConnectorClause]:
    """Give the sources and sinks that a statement names."""
    match statement:
        case statements.CreateStream() | statements.CreateTable() | rules.CreateSink():
            yield statement.connector
        case statements.CreateQuery() | statements.Select():
            yield from statement.sinks
        case statements.ExplainReplace():
            yield from statement.query.sinks
        case rules.CreateRule():
            for action in statement.actions:
                # a word alone may be the name of a sink, which was checked when it was created
                is_kind = isinstance(action, rules.InsertClause) and action.connector.kind in SINKS
                if isinstance(action, rules.InsertClause) and (action.connector.options or is_kind):
                    yield action.connector
        case (
            statements.CreateAggregate() | statements.CreateFunction() | statements.CreateView()
            | statements.CreateEvent() | statements.Detection() | statements.Split() | statements.Drop()
            | statements.Insert()  # its sink was checked when it was created
            | statements.Alter() | statements.AlterPromises() | statements.ResetFrontier() | statements.SteerStream()
            | statements.Migrate()
            | parcels.MoveParcels() | statements.RefreshTable()
            | statements.Tell() | statements.Ask() | statements.Show() | statements.ShowCreate()
            | statements.Describe() | statements.Explain()
            | rules.DeclareEvent() | rules.EnableRule() | rules.RaiseByHand() | rules.Decide() | stints.TurnQuery()
        ):  # fmt: skip
            return


def _nothing(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    """Let a connector pass that reaches nothing outside."""


def _files(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    """Let files pass that lie in the folder of the policy, whatever links and dots the path has."""
    text = str(clause.options.get("path", ""))
    if is_object_url(text):
        _check_host(str(urlsplit(text).hostname or ""), clause.span, policy, None)
        return
    try:
        path = Path(os.path.abspath(str(location(text))))
    except QueryError as error:
        error.span = clause.span
        raise
    parts = path.parts
    fixed = next((number for number, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    is_climbing = ".." in re.split(r"[/\\]", text) and _PATTERN.search(text) is not None
    inside = Path(*parts[:fixed]).resolve().is_relative_to(policy.files.resolve())
    if not inside or is_climbing or "\0" in text:
        raise Fenced(
            "files of clients' statements must lie in the folder that the server allows",
            span=clause.span,
            hint="headrace serve --files DIR chooses it",
        )


def _kafka(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    for option in clause.options:
        if option.startswith(("ssl.", "sasl.")) and option.endswith(("location", "path", "script", "url", "endpoint")):
            raise Fenced(f"the option {option} is not for statements of clients", span=clause.span)
    for server in str(clause.options.get("bootstrap", "")).split(","):
        _check_host(_host_in(f"//{server.strip()}"), clause.span, policy, resolve)


def _socket(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    _check_host(str(clause.options.get("host", "localhost")), clause.span, policy, resolve)


def _spark(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    form = str(clause.options.get("format", ""))
    if form.lower() not in {allowed.lower() for allowed in policy.spark}:
        raise Fenced(
            f"the Spark format {form!r} is not allowed for statements of clients",
            span=clause.span,
            hint=f"headrace serve --allow-spark {form or 'FORMAT'} allows it",
        )


#: What the URL of a database may say beside where it is: nothing that names a file or another place.
_URL_PARAMETERS = {"application_name", "connect_timeout", "options", "sslmode", "target_session_attrs"}


def _postgres(clause: ConnectorClause, policy: Policy, resolve: Resolve) -> None:
    """Let a database pass whose URL names hosts that are allowed."""
    url = urlsplit(str(clause.options.get("url", "")))
    for name, _ in parse_qsl(url.query, keep_blank_values=True):
        if name not in _URL_PARAMETERS:
            raise Fenced(f"the parameter {name!r} of a URL is not for statements of clients", span=clause.span)
    for server in url.netloc.rpartition("@")[2].split(","):
        _check_host(_host_in(f"//{server}"), clause.span, policy, resolve)


Check: TypeAlias = Callable[[ConnectorClause, Policy, Resolve], None]
#: What is checked of each kind of source, table and sink.
REACH: dict[str, Check] = {
    "CLOCK": _nothing,
    "CONSOLE": _nothing,
    "FILES": _files,
    "GENERATOR": _nothing,
    "KAFKA": _kafka,
    "MEMORY": _nothing,
    "POSTGRES": _postgres,
    "SHELF": _nothing,
    "SOCKET": _socket,
    "SPARK": _spark,
    FED: _nothing,  # another name of the catalog
}


def _host_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _check_host(host: str, span: Span, policy: Policy, resolve: Resolve | None) -> None:
    """Let a host pass that is allowed by name, and that does not stand for an address of the machine's own network."""
    host = host.lower().strip("[]")
    if host not in _LOOPBACK and not any(fnmatchcase(host, allowed.lower()) for allowed in policy.addresses):
        raise Fenced(
            f"the host {host!r} is not allowed for statements of clients",
            span=span,
            hint=f"headrace serve --allow-address {host or 'HOST'} allows it",
        )
    for address in () if resolve is None else resolve(host):
        known = ipaddress.ip_address(address.partition("%")[0])
        if known.is_link_local or known.is_multicast or known.is_unspecified:
            raise Fenced(f"the host {host!r} stands for the address {address}, which nobody may reach", span=span)
        if known.is_loopback and host not in _LOOPBACK:
            raise Fenced(f"the host {host!r} stands for this machine", span=span, hint="write localhost")


def _check_secrets(text: str, span: Span, policy: Policy) -> None:
    """Let references to secrets pass that the operator has listed."""
    for match in REFERENCE.finditer(text):
        name = f"{match[1]}:{match[2]}"
        if not any(fnmatchcase(name, allowed) for allowed in policy.secrets):
            raise Fenced(
                f"the secret {name} is not allowed for statements of clients",
                span=span,
                hint=f"headrace serve --allow-secret {name} allows it",
            )
