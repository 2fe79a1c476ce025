"""Proposals: what a rule would do if a person agrees. They wait in files until somebody decides, or their time is over.

A proposal has the key of its detection, so a repeated delivery proposes nothing twice: what was decided is remembered
by the same key. A decision is on disk before it takes effect. If the process stops in between, the next one carries it
out: actions are taken at least once, with the same keys.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from headrace.driver.rules.firing import Firing, single
from headrace.errors import NameFault
from headrace.storage import files, sealed

Decision: TypeAlias = Literal["confirmed", "rejected", "expired"]
#: So many decisions are remembered.
_REMEMBERED = 10_000
_WAITING, _DECIDED = ".proposal", ".decided"


class Proposal(Struct, frozen=True):
    """The actions of a rule for one detection, when they were proposed, and until when somebody may agree."""

    firing: Firing
    proposed: int
    expires: int

    @property
    def key(self) -> str:
        return self.firing.keys[0]


class Decided(Struct, frozen=True):
    """What was decided, when."""

    decision: Decision
    time: int


_proposal = msgspec.msgpack.Decoder(Proposal)
_decided = msgspec.msgpack.Decoder(Decided)


class Proposals:
    """The proposals of a deployment; any thread may ask and decide."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "proposals"
        self._lock = threading.RLock()

    def put(self, firing: Firing, within: int, now: int) -> int:
        """Propose the actions for each detection that is neither proposed nor decided; return how many are new."""
        added = 0
        with self._lock:
            known = set(self._names())
            for at, key in enumerate(firing.keys):
                if f"{key}{_WAITING}" not in known and f"{key}{_DECIDED}" not in known:
                    proposal = Proposal(single(firing, at), now, now + within)
                    sealed.replace(self._directory / f"{key}{_WAITING}", msgspec.msgpack.encode(proposal))
                    added += 1
        return added

    def waiting(self) -> list[Proposal]:
        """Return the proposals that nobody has decided, the oldest first."""
        with self._lock:
            names = self._names()
            decided = {name.removesuffix(_DECIDED) for name in names if name.endswith(_DECIDED)}
            found = [
                self._read(name)
                for name in names
                if name.endswith(_WAITING) and name.removesuffix(_WAITING) not in decided
            ]
        return sorted(found, key=lambda proposal: (proposal.proposed, proposal.firing.instants, proposal.key))

    def find(self, key: str) -> Proposal:
        """Return the proposal whose key begins so."""
        found = [proposal for proposal in self.waiting() if proposal.key.startswith(key.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise NameFault(f"{len(found)} proposals begin with {key!r}", hint="write more of the key: SHOW PROPOSALS")
        with self._lock:
            past = [name for name in self._names() if name.startswith(key.lower()) and name.endswith(_DECIDED)]
            said = {_decided.decode(sealed.read(self._directory / name)).decision for name in past}
        if len(said) == 1:
            raise NameFault(
                f"the proposal {key!r} was {said.pop()} before", hint="SHOW PROPOSALS lists those that wait"
            )
        raise NameFault(f"no proposal {key!r}", hint="SHOW PROPOSALS lists the proposals that wait, with their keys")

    def decide(self, proposal: Proposal, decision: Decision, now: int) -> bool:
        """Remember a decision; return False if somebody was faster."""
        with self._lock:
            path = self._directory / f"{proposal.key}{_DECIDED}"
            if files.exists(path):
                return False
            sealed.replace(path, msgspec.msgpack.encode(Decided(decision, now)))
            return True

    def done(self, proposal: Proposal) -> None:
        """Forget a proposal whose decision was carried out."""
        with self._lock:
            files.remove(self._directory / f"{proposal.key}{_WAITING}", durable=False)

    def unfinished(self) -> list[tuple[Proposal, Decision]]:
        """Return proposals that were decided by an earlier process, which has not carried it out."""
        with self._lock:
            names = self._names()
            decided = {name.removesuffix(_DECIDED) for name in names if name.endswith(_DECIDED)}
            keys = [key for name in names if (key := name.removesuffix(_WAITING)) != name and key in decided]
            found = [
                (self._read(f"{key}{_WAITING}"), _decided.decode(sealed.read(self._directory / f"{key}{_DECIDED}")))
                for key in keys
            ]
            self._forget(names)
        return [(proposal, decided.decision) for proposal, decided in found]

    def _forget(self, names: Sequence[str]) -> None:
        """Remember the newest decisions only: the micro-batches of older ones are not repeated any more."""
        decided = [name for name in names if name.endswith(_DECIDED)]
        if len(decided) > _REMEMBERED:
            times = {name: _decided.decode(sealed.read(self._directory / name)).time for name in decided}
            oldest = sorted(decided, key=times.__getitem__)[:-_REMEMBERED]
            files.remove(*(self._directory / name for name in oldest), durable=False)

    def _read(self, name: str) -> Proposal:
        path = self._directory / name
        try:
            return _proposal.decode(sealed.read(path))
        except ValueError as error:  # DecodeError is one
            raise sealed.damaged(path, error) from error

    def _names(self) -> list[str]:
        return [name for name in files.names(self._directory) if name.endswith((_WAITING, _DECIDED))]
