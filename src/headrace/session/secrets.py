"""Secrets in statements: they are there when a statement is given and when its queries start."""

from __future__ import annotations

from headrace import secrets
from headrace.catalog.define import define_connector
from headrace.catalog.definitions import Rule
from headrace.commands.running import Running
from headrace.connectors.secrets import resolved, warning, warnings_of
from headrace.errors import QueryError
from headrace.language.syntax.names import ConnectorClause, Name
from headrace.model.action import CallWebhook
from headrace.redaction import has_secret

_WEBHOOK = "the address of the webhook"


def check_secrets(*clauses: ConnectorClause) -> None:
    """Refuse a source or sink whose secrets cannot be read here."""
    for clause in clauses:
        resolved(define_connector(clause), error=QueryError, span=clause.span)


def check_webhook(url: Name) -> None:
    """Refuse an address whose secrets cannot be read here, or that is none once they are."""
    address = secrets.resolve(url.text, error=QueryError, where=_WEBHOOK, span=url.span)
    if not address.lower().startswith(("http://", "https://")):
        raise QueryError(
            f"{url.text} is not the address of a webhook", span=url.span, hint="it must begin with http:// or https://"
        )


def secret_warnings(*clauses: ConnectorClause) -> tuple[str, ...]:
    """Return warnings about secrets that are written in clear."""
    return tuple(warnings_of(*map(define_connector, clauses)))


def rule_secret_warnings(rule: Rule) -> tuple[str, ...]:
    """Return warnings about secrets that are written in clear in a rule."""
    urls = (action.url for action in rule.reaction.actions if isinstance(action, CallWebhook))
    return (*warnings_of(*rule.sinks), *(warning(_WEBHOOK) for url in urls if has_secret(url)))


def check_secrets_of(running: Running) -> None:
    """Refuse to start queries whose secrets cannot be read here; a worker reads them again by itself."""
    for query in running.known:
        for connector in (*(stream.connector for stream in query.streams), *query.sinks):
            resolved(connector, where=f"{query.query}: {connector.kind}, ")
        for action in query.reaction.actions if query.reaction is not None else ():
            if isinstance(action, CallWebhook):
                secrets.resolve(action.url, where=f"{query.query}: {_WEBHOOK}")
