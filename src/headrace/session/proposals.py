"""CONFIRM, REJECT and SHOW PROPOSALS: a person decides what a rule proposes."""

from __future__ import annotations

from headrace.catalog.catalog import Catalog
from headrace.driver.rules.firing import as_json
from headrace.driver.rules.proposals import Proposal
from headrace.driver.rules.reactions import Reactions
from headrace.errors import HostFault, NameFault, QueryError
from headrace.language.syntax.rules import Decide
from headrace.model.time import format_instant
from headrace.redaction import redact
from headrace.session.outcome import Listing, Message
from headrace.session.transaction import Transaction


def decide(statement: Decide, transaction: Transaction, reactions: Reactions, now: int) -> None:
    """Carry out a proposal or drop it, when the whole text is accepted."""
    try:
        reactions.expire(now)
        proposal = reactions.proposals.find(statement.key.text)
    except QueryError as error:
        error.span = statement.key.span
        raise
    if statement.agrees and not transaction.catalog.has_rule(proposal.firing.rule):
        raise NameFault(
            f"the rule {proposal.firing.rule} of this proposal was dropped",
            span=statement.key.span,
            hint="REJECT it, or create the rule again",
        )
    if statement.agrees and transaction.deployed.draining:
        raise HostFault("this checkpoint has been drained", hint="use a new --checkpoint for a new run")

    def carry_out() -> Message:
        try:
            decided = reactions.decide(proposal.key, now, agrees=statement.agrees)
        except OSError as error:
            raise HostFault(
                f"the decision cannot be written: {error.strerror or error}",
                hint="make sure that the checkpoint can be written; SHOW PROPOSALS tells whether the proposal waits",
            ) from error
        return Message(f"{decided.firing.rule} {decided.key} {'confirmed' if statement.agrees else 'rejected'}")

    transaction.outcomes.append(carry_out)


def show_proposals(reactions: Reactions, catalog: Catalog, now: int) -> Listing:
    """List what rules propose, the oldest first."""
    waiting = [
        proposal
        for proposal in reactions.proposals.waiting()
        if proposal.expires > now and catalog.has_rule(proposal.firing.rule)
    ]
    return Listing(
        ("key", "rule", "actions", "detected", "proposed", "expires", "detection"), tuple(map(_row, waiting))
    )


def _row(proposal: Proposal) -> tuple[str, ...]:
    firing = proposal.firing
    return (
        proposal.key,
        firing.rule,
        redact(", ".join(firing.reaction.texts)),
        format_instant(firing.instants[0]),
        format_instant(proposal.proposed),
        format_instant(proposal.expires),
        as_json(firing.detections()[0]),
    )
