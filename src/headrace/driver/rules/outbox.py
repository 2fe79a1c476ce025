"""Calls of functions and webhooks: on disk before they are made, so that each is made at least once.

A delivery leaves the calls of its micro-batch in a file, which a repeated delivery replaces. A thread makes the calls
in order and removes the file. The delivery waits a moment for it, but not while earlier calls still wait: a function
that answers slowly delays the calls behind it, not the pipeline.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from headrace import secrets
from headrace.connectors.spool import stream_spool
from headrace.driver.rules.counters import RuleCounters
from headrace.driver.rules.firing import Failure, Firing, failed_frame, failure, key_of
from headrace.driver.rules.functions import Limited, load_function, post
from headrace.errors import HostFault
from headrace.model.action import CallFunction, CallWebhook, RaiseEvent, SwitchQuery
from headrace.model.streams import failed_stream
from headrace.model.time import format_instant
from headrace.storage import files, sealed

#: How long a delivery waits for its calls (seconds).
PATIENCE = 2.0
#: The pause before a second try; it doubles with each further one, up to the longest (seconds).
BACKOFF = 0.1
LONGEST_PAUSE = 60.0
#: At most so many calls that wait, or were given up, are shown.
_SHOWN = 20

_decoder = msgspec.msgpack.Decoder(list[Firing])


@dataclass(frozen=True, slots=True)
class _Call:
    """One action for one detection."""

    firing: Firing
    at: int
    number: int
    row: Mapping[str, Any]
    args: Sequence[Any] | None

    @property
    def name(self) -> str:
        return f"{self.firing.rule}/{self.number}"

    @property
    def key(self) -> str:
        return key_of(self.firing.keys[self.at], self.number, self.firing.reaction.texts[self.number])


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that has not been made, as people read it: after how many tries of how many, and why the last failed."""

    rule: str
    key: str
    action: str
    tries: int
    most: int
    reason: str | None


class Outbox:
    """The calls of a deployment, and the thread that makes them; without `threads`, `work` and `settle` make them."""

    def __init__(
        self,
        directory: Path,
        functions: Mapping[str, Callable[..., Any]],
        counters: RuleCounters,
        *,
        threads: bool = True,
    ) -> None:
        self.fault: BaseException | None = None
        self._checkpoint = directory
        self._directory = directory / "calls"
        self._functions = functions
        self._counters = counters
        self._threads = threads
        self._limited = Limited(threads=threads)
        self._down: set[str] = set()  # actions that failed the last time: tried once only
        self._change = threading.Condition()
        self._waiting: list[str] = []  # names of files
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_looked = False  # for calls that an earlier run left
        self._tries: tuple[str, int, str | None] = ("", 0, None)  # of the call that is made now: key, number, reason
        self._made: set[str] = set()  # keys of the calls of the first file that are through
        self.failures: deque[tuple[str, Failure]] = deque(maxlen=_SHOWN)  # the newest that were given up, with rules

    def start(self) -> None:
        """Continue with the calls that an earlier run left."""
        if self._thread is None and not (self._threads and self._has_looked):
            self._has_looked = True
            with self._change:
                self._waiting = [name for name in files.names(self._directory) if name.endswith(".calls")]
            if self._waiting:
                self._begin()

    def put(self, batch: int, firings: Sequence[Firing]) -> None:
        """Take calls durably, then wait a moment until they have been made."""
        self._raise()
        data = msgspec.msgpack.encode(list(firings))
        # named by content as well: a restarted local host numbers micro-batches from 0, and other calls may wait
        name = f"{batch:012d}-{hashlib.blake2b(data, digest_size=8).hexdigest()}.calls"
        sealed.replace(self._directory / name, data)
        with self._change:
            was_idle = not self._waiting
            if name not in self._waiting:
                self._waiting.append(name)
            self._change.notify_all()
        self._begin()
        if was_idle and self._threads:
            self.settle(PATIENCE)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until no call waits; return False if the time is up; raise a fault if no further call is made."""
        if not self._threads:
            self.work()
        with self._change:
            in_time = self._change.wait_for(lambda: not self._waiting or self.fault is not None, seconds)
        self._raise()
        return in_time

    def calls(self) -> list[WaitingCall]:
        """Return the first calls that wait; any thread may ask."""
        with self._change:
            names = list(self._waiting)
        key, tries, reason = self._tries
        found: list[WaitingCall] = []
        for name in names:
            try:
                calls = [call for firing in _firings(self._directory / name) for call in _calls_of(firing)]
            except FileNotFoundError:
                continue  # they are made meanwhile
            for call in calls:
                if call.key in self._made:
                    continue
                if len(found) >= _SHOWN:
                    return found
                now = (tries, reason) if call.key == key else (0, None)
                reaction = call.firing.reaction
                found.append(WaitingCall(call.firing.rule, call.key, reaction.texts[call.number], now[0],
                                         reaction.effort.tries, now[1]))  # fmt: skip
        return found

    def close(self) -> None:
        """Finish the running call; the next session makes the others."""
        self._closing.set()
        with self._change:
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join(PATIENCE)
            self._thread = None

    def keep(self, rule: str, failures: Sequence[Failure]) -> None:
        """Add actions that failed to <rule>.failed."""
        if failures:
            stream_spool(failed_stream(rule), self._checkpoint).append(failed_frame(failures))
            self._counters.add(rule, failed=len(failures))
            self.failures.extend((rule, each) for each in failures)

    def work(self) -> None:
        """Make the calls that wait; in a thread, go on with those that come until the outbox is closed."""
        try:
            while not self._closing.is_set() and (self._threads or self._waiting):
                with self._change:
                    self._change.wait_for(lambda: self._waiting or self._closing.is_set())
                    if self._closing.is_set():
                        return
                    name = self._waiting[0]
                path = self._directory / name
                if all(self._make(firing) for firing in _firings(path)):
                    files.remove(path, durable=False)  # if it comes back, calls are made again: at least once
                    self._made = set()
                    with self._change:
                        self._waiting.remove(name)
                        self._change.notify_all()
        except Exception as error:  # the next delivery raises it
            with self._change:
                self.fault = error
                self._change.notify_all()

    def _raise(self) -> None:
        if self.fault is not None:
            raise HostFault(
                f"rule actions have stopped: {self.fault}",
                hint="make sure that the checkpoint can be written, and start again",
            ) from self.fault

    def _begin(self) -> None:
        if self._threads and (self._thread is None or not self._thread.is_alive()):
            self._closing.clear()
            self._thread = threading.Thread(target=self.work, name="rules", daemon=True)
            self._thread.start()

    def _make(self, firing: Firing) -> bool:
        """Make the calls of one rule; return False if the outbox closes before all are made."""
        arguments, unfit = firing.called_with(), firing.unfit()
        failures: list[Failure] = []
        for at, row in enumerate(firing.detections()):
            for number, action in enumerate(firing.reaction.actions):
                if isinstance(action, SwitchQuery | RaiseEvent):  # done with the delivery
                    continue
                if self._closing.is_set():
                    return False  # all are made again, so what failed so far need not be kept
                if isinstance(action, CallFunction) and at in unfit[number]:
                    failures.append(failure(firing, at, number, row, unfit[number][at], 0))
                    continue
                named = arguments[number]
                call = _Call(firing, at, number, row, None if named is None else named[at])
                failures += self._tried(call, action)
        self.keep(firing.rule, failures)
        self._counters.add(firing.rule, given_up=len(failures))
        return not self._closing.is_set()

    def _tried(self, call: _Call, action: CallFunction | CallWebhook) -> list[Failure]:
        """Make one call, with retries; return what to keep if it is given up."""
        effort = call.firing.reaction.effort
        seconds = effort.timeout / 1e6
        why: str | None = None
        tries = 0
        while tries < (1 if call.name in self._down else effort.tries):
            pause = min(BACKOFF * 2 ** max(tries - 1, 0), LONGEST_PAUSE)
            if tries and self._threads and self._closing.wait(pause):
                return []
            tries += 1
            self._tries = call.key, tries, why
            why = self._limited.call(call.name, seconds, lambda: self._do(call, action, seconds))
            if why is None:
                self._down.discard(call.name)
                self._counters.add(call.firing.rule, done=1)
                self._made.add(call.key)
                return []
        self._down.add(call.name)
        self._made.add(call.key)
        return [failure(call.firing, call.at, call.number, call.row, why or "", tries)]

    def _do(self, call: _Call, action: CallFunction | CallWebhook, seconds: float) -> None:
        match action:
            case CallFunction(target=target):
                self._function(target)(*((dict(call.row),) if call.args is None else call.args), key=call.key)
            case CallWebhook(url=url):
                instant = format_instant(call.firing.instants[call.at])
                post(
                    secrets.resolve(url),
                    {"rule": call.firing.rule, "key": call.key, "detected": instant, "detection": call.row},
                    call.key,
                    seconds,
                )

    def _function(self, target: str) -> Callable[..., Any]:
        if ":" in target:
            return load_function(target)
        function = self._functions.get(target)
        if function is None:
            raise LookupError(f"no function {target!r} is registered in this session")
        return function


def _calls_of(firing: Firing) -> Iterator[_Call]:
    """Yield the calls of a firing, without what they are made with."""
    for at in range(len(firing.keys)):
        for number, action in enumerate(firing.reaction.actions):
            if not isinstance(action, SwitchQuery | RaiseEvent):
                yield _Call(firing, at, number, {}, None)


def _firings(path: Path) -> list[Firing]:
    try:
        return _decoder.decode(sealed.read(path))
    except ValueError as error:  # DecodeError is one
        raise sealed.damaged(path, error) from error
