"""What an event keeps: the occurrences that wait for others, from rates, intervals and the consumption mode.

Arrivals are Poisson, and each history (the tuples of one key) has its share of the rates. Figures are means in steady
state; what nothing bounds grows without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Mode, Primitive, primitives, reaches
from headrace.model.time import SECOND

#: Only the newest waits, or so many of the newest as KEEP says.
_LATEST = (Mode.RECENT, Mode.PROXIMAL)
#: An end takes all that wait.
_ALL_AT_ONCE = (Mode.CONTINUOUS, Mode.CUMULATIVE)


@dataclass(frozen=True, slots=True)
class Store:
    """Occurrences of one history that wait, of `rows` tuples each, which end with tuples of a port.

    `limited` if more tuples would not be more that wait.
    """

    port: int
    number: float
    rows: int = 1
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Buffers:
    """All that waits in one history, and the occurrences per second that come out."""

    stores: tuple[Store, ...]
    detections: float


def buffers(event: Event, context: Context, rates: Sequence[float], *, values: float, horizon: float) -> Buffers:
    """Return what one history keeps, given the rates of its ports (tuples per second).

    `values` is the assumed number of values of BY columns, `horizon` how long the event has been detected (seconds).
    """
    detecting = _Detecting(context, rates, values, horizon)
    detections = detecting.rate(event, None)
    return Buffers(tuple(detecting.stores), detections)


def ending_ports(event: Event) -> frozenset[int]:
    """Return the ports whose tuples complete an occurrence."""
    match event:
        case Primitive(port=port):
            return frozenset((port,))
        case events.Sequence(right=last) | events.Not(end=last) | events.AperiodicStar(end=last):
            return ending_ports(last)
        case events.PeriodicStar(end=last) | events.Aperiodic(middle=last) | events.Repetition(end=last):
            return ending_ports(last)
        case events.And(left=left, right=right) | events.Or(left=left, right=right):
            return ending_ports(left) | ending_ports(right)
        case events.AnyOf(events=all_of):
            return frozenset(port for operand in all_of for port in ending_ports(operand))
        case (
            events.Times(event=inner)
            | events.Within(event=inner)
            | events.Plus(event=inner)
            | events.Alias(event=inner)
        ):
            return ending_ports(inner)
        case events.Absent(start=start) | events.Periodic(start=start):
            return ending_ports(start)


class _Detecting:
    """Walks an event from its parts upward and collects what waits."""

    def __init__(self, context: Context, rates: Sequence[float], values: float, horizon: float) -> None:
        self.context, self.mode = context, context.mode
        self.rates, self.values, self.horizon = rates, values, horizon
        self.stores: list[Store] = []

    def rate(self, event: Event, span: int | None) -> float:
        """Return the occurrences per second of an event that may last `span`."""
        if isinstance(event, Primitive):
            return self.rates[event.port]
        below = [
            self.rate(operand, reach)
            for operand, reach in zip(events.operands(event), reaches(event, span), strict=True)
        ]
        match event:
            case events.Within() | events.Alias():
                return below[0]
            case events.Or():
                return sum(below)
            case events.Sequence(left=left):
                return self._sequence(left, span, *below)
            case events.And(left=left, right=right):
                return self._both(left, right, span, *below)
            case events.Not(start=start, middle=middle):
                return self._not(start, middle, span, *below)
            case events.Absent(start=start, span=length):
                starts, middles = below
                self._keep(start, self._latest(start, starts * _until(middles, self._capped(length)), span))
                replacing = starts if self.mode in _LATEST else 0.0  # a newer start takes the place of one that waits
                return starts * math.exp(-(middles + replacing) * length / SECOND)
            case events.AnyOf(count=count, events=all_of):
                return self._any(count, all_of, below, span)
            case events.Times(count=count, event=inner):
                return self._times(count, inner, below[0], span)
            case events.Aperiodic(start=start):
                starts, middles, ends = below
                return middles * self._open(start, span, starts, ends)
            case events.AperiodicStar(start=start, middle=middle):
                starts, middles, ends = below
                self._closed(start, span, starts, ends)
                self._between(middle, starts, middles, ends, self._life(start, span))
                return _both_of(starts, ends)
            case events.Repetition():
                return self._repeated(event, span, below)
            case events.Periodic(start=start, span=length):
                return self._open(start, span, *below) * SECOND / length
            case events.PeriodicStar(start=start):
                self._closed(start, span, *below)
                return _both_of(*below)
            case events.Plus(event=inner, span=length):
                self._keep(inner, _arriving(below[0], self._capped(length)))
                return below[0]

    def _sequence(self, left: Event, span: int | None, lefts: float, rights: float) -> float:
        life = self._life(left, span)
        match self.mode:
            case Mode.UNRESTRICTED:
                waiting = self._latest(left, _arriving(lefts, life), span)
                self._keep(left, waiting)
                return rights * waiting if math.isfinite(waiting) else rights
            case Mode.RECENT:
                self._keep(left, self._latest(left, _arriving(lefts, life), span), limited=True)
                return rights * -math.expm1(-_arriving(lefts, life))
            case Mode.CHRONICLE:
                self._keep(left, self._latest(left, _in_turn(lefts, rights, life), span))
                return min(lefts, rights)
            case Mode.CONTINUOUS | Mode.CUMULATIVE | Mode.PROXIMAL:
                self._closed(left, span, lefts, rights)
                if self.mode is not Mode.CONTINUOUS:
                    return _both_of(lefts, rights)
                return lefts * -math.expm1(-_arriving(rights, life))

    def _both(self, left: Event, right: Event, span: int | None, lefts: float, rights: float) -> float:
        for operand, own, other in ((left, lefts, rights), (right, rights, lefts)):
            life = self._life(operand, span)
            match self.mode:
                case Mode.UNRESTRICTED | Mode.RECENT:
                    number = _arriving(own, life)
                case Mode.CHRONICLE:
                    number = _in_turn(own, other, life)
                case Mode.CONTINUOUS | Mode.CUMULATIVE:
                    number = own * _until(other, life) if own else 0.0
                case Mode.PROXIMAL:
                    number = own / (own + other) if own + other else 0.0
            self._keep(operand, self._latest(operand, number, span), limited=self.mode in _LATEST)
        if self.mode is Mode.UNRESTRICTED:
            pairs = _arriving(2 * lefts * rights, min(self._life(left, span), self._life(right, span)))
            return pairs if math.isfinite(pairs) else lefts + rights
        return lefts + rights if self.mode is Mode.RECENT else min(lefts, rights)

    def _not(self, start: Event, middle: Event, span: int | None, starts: float, middles: float, ends: float) -> float:
        life = self._life(start, span)
        if self.mode in (Mode.UNRESTRICTED, Mode.CHRONICLE):  # what a middle has blocked is not taken away by an end
            waiting = self._latest(start, _arriving(starts, life), span)
            self._keep(start, waiting)
            self._keep(middle, _arriving(middles, life) * min(1.0, waiting) if waiting else 0.0)
            unblocked = min(waiting, starts * _until(middles, life) if starts else 0.0)
            return min(ends, starts) if self.mode is Mode.CHRONICLE or math.isinf(unblocked) else ends * unblocked
        self._closed(start, span, starts, ends)
        self._between(middle, starts, middles, ends, life)
        if self.mode is Mode.CONTINUOUS:
            return starts * ends / (middles + ends) if ends else 0.0
        total = starts + middles + ends
        return ends * starts / total if total else 0.0

    def _repeated(self, event: events.Repetition, span: int | None, below: list[float]) -> float:
        repeated = list(zip(event.middles, below[-1 - len(event.middles) : -1], strict=True))
        ends = below[-1]
        if event.start is None:  # all since the last end
            for middle, rate in repeated:
                self._keep(middle, _arriving(rate, _until(ends, self._life(middle, span))))
            return ends
        self._closed(event.start, span, below[0], ends)
        for middle, rate in repeated:
            self._between(middle, below[0], rate, ends, self._life(event.start, span))
        return _both_of(below[0], ends)

    def _between(self, middle: Event, starts: float, middles: float, ends: float, life: float) -> None:
        """Keep the middles since the oldest start that waits."""
        if not starts or not middles:
            age = 0.0
        elif self.mode in _LATEST:  # since the newest start, if no end has come
            age = min(starts / (starts + ends) ** 2, life)
        elif self.mode in _ALL_AT_ONCE:  # since the first start after the last end
            since = _until(ends, life)  # the last end, or as far back as starts wait
            first = (ends + starts * math.exp(-(starts + ends) * life)) / (starts + ends)
            age = since - (1 - first) / starts if math.isfinite(since) else since
        else:
            age = life
        self._keep(middle, _arriving(middles, age))

    def _closed(self, start: Event, span: int | None, starts: float, ends: float) -> float:
        """Keep the starts that wait for an end which takes all of them, or those that the mode chooses."""
        life = self._life(start, span)
        match self.mode:
            case Mode.UNRESTRICTED:
                number = _arriving(starts, life)
            case Mode.CHRONICLE:
                number = _in_turn(starts, ends, life)
            case Mode.CONTINUOUS | Mode.CUMULATIVE:
                number = starts * _until(ends, life) if starts else 0.0
            case Mode.RECENT | Mode.PROXIMAL:
                number = starts / (starts + ends) if starts else 0.0
        number = self._latest(start, number, span)
        self._keep(start, number, limited=self.mode in _LATEST)
        return number

    def _open(self, start: Event, span: int | None, starts: float, ends: float) -> float:
        """Keep the starts until an end closes all of them, in CHRONICLE the oldest; return how many are open."""
        if self.mode is not Mode.UNRESTRICTED:
            number = self._closed(start, span, starts, ends)
            return min(number, 1.0) if self.mode is Mode.CUMULATIVE else number
        number = self._latest(start, starts * _until(ends, self._life(start, span)) if starts else 0.0, span)
        self._keep(start, number)
        return number

    def _any(self, count: int, operands: Sequence[Event], rates: Sequence[float], span: int | None) -> float:
        slowest = sorted(rates, reverse=True)[count - 1]
        for operand, own in zip(operands, rates, strict=True):
            life = self._life(operand, span)
            match self.mode:
                case Mode.UNRESTRICTED | Mode.RECENT:
                    number = _arriving(own, life)
                case Mode.CHRONICLE:
                    number = _in_turn(own, slowest, life)
                case Mode.CONTINUOUS | Mode.CUMULATIVE:
                    number = own * _until(slowest, life) if own else 0.0
                case Mode.PROXIMAL:
                    number = own / (own + slowest) if own else 0.0
            if count > 1:
                self._keep(operand, self._latest(operand, number, span), limited=self.mode in _LATEST)
        return sum(rates) if count == 1 or self.mode is Mode.RECENT else slowest

    def _times(self, count: int, inner: Event, rate: float, span: int | None) -> float:
        if self.mode not in (Mode.UNRESTRICTED, Mode.RECENT, Mode.CONTINUOUS):  # starts over when complete
            number = (count - 1) / 2
        else:
            number = count - 1.0 if span is None else _arriving(rate, self._life(inner, span))
        self._keep(inner, number if rate else 0.0, limited=span is None)
        return rate / count if self.mode in (Mode.CHRONICLE, Mode.CUMULATIVE, Mode.PROXIMAL) else rate

    def _keep(self, operand: Event, number: float, *, limited: bool = False) -> None:
        """Note how many occurrences of an operand wait."""
        parts = tuple(primitives(operand))
        if number:
            self.stores.append(Store(parts[-1].port, number, len(parts), limited))

    def _latest(self, operand: Event, number: float, span: int | None) -> float:
        """Return how many wait if no more than the context keeps."""
        own = self.context.kept_of(operand)
        count = own.keep if own is not None and own.keep is not None else 1 if self.mode in _LATEST else None
        if count is None:
            return number
        by = any(self._by(part) for part in (operand, *primitives(operand)))
        return min(number, count * (self.values if by else 1.0))

    def _by(self, part: Event) -> bool:
        retention = self.context.kept_of(part)
        return retention is not None and bool(retention.by)

    def _life(self, operand: Event, span: int | None) -> float:
        """Return for how many seconds an occurrence of an operand can wait."""
        own = self.context.kept_of(operand)
        age = None if own is None else own.age
        return min((self._capped(limit) for limit in (span, age) if limit is not None), default=self.horizon)

    def _capped(self, length: int) -> float:
        return min(length / SECOND, self.horizon)


def _until(rate: float, limit: float) -> float:
    """Return the mean seconds until the next arrival, or until the limit if that is earlier."""
    if not rate:
        return limit
    return -math.expm1(-rate * limit) / rate


def _arriving(rate: float, seconds: float) -> float:
    """Return how many arrive in so many seconds, which may be without end."""
    return rate * seconds if rate else 0.0


def _in_turn(arrivals: float, takers: float, life: float) -> float:
    """Return how many wait if each taker takes the oldest: M/M/1, as far as their life allows."""
    if not arrivals:
        return 0.0
    waiting = arrivals / (takers - arrivals) if arrivals < takers else math.inf
    return min(waiting, arrivals * life)


def _both_of(starts: float, ends: float) -> float:
    """Return the ends per second that find a start since the last end."""
    return starts * ends / (starts + ends) if starts and ends else 0.0
