"""The running join of several inputs: each page runs through its way to the root, in one call.

At the end of a call there is nothing inside but state, so the tree can change between any two pages. State is purged
for the whole join: rows of some ports are kept until the bounds of all *other* ports have passed their expiry, whoever
they are joined with now. So every state of every tree can be computed from those of the inputs at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from headrace.model.join_tree import Tree, check, late_ports, left_deep
from headrace.model.page import Completion, Element, Page, Punctuation
from headrace.model.patterns.pattern import Pattern, rename
from headrace.model.schema import EXPIRY, TS
from headrace.model.time import BEGIN, END
from headrace.operators.arrays import KEY, Flags
from headrace.operators.capabilities import Choose, chosen_by
from headrace.operators.multijoin.arrangement import Arrangement, Place
from headrace.operators.multijoin.counters import Counters
from headrace.operators.multijoin.probe import Batch, Reader, search
from headrace.operators.multijoin.program import Program, Step, Store, Way
from headrace.operators.multijoin.samples import KeySampler
from headrace.operators.multijoin.seen import BoxSeen, How, MigrationSeen, PortSeen
from headrace.operators.multijoin.spec import MultiJoin
from headrace.operators.multijoin.tracks import ALL, NewTrack, OldRows, OldTrack, Track
from headrace.operators.operator import Frontier, Operator, State
from headrace.operators.partitioning import Keys
from headrace.operators.state.completed import Completed
from headrace.operators.state.join_ends import JoinEnds
from headrace.operators.state.sorted_chunk import Chunk

#: A portion begins with this part of its rows, and ends when less than that is left of it.
_FIRST = 8


class Migration(Struct, frozen=True, omit_defaults=True):
    """A change of plan that is under way.

    `cursors` are those of the states that are being built: rows of their first ports up to this time are through.
    """

    number: int
    how: Literal["stepwise", "parallel"]
    tree: Tree
    portion: int
    cursors: dict[str, int] = {}


class Setting(Struct, frozen=True, omit_defaults=True):
    """What the state belongs to: the tree, the last change of plan, the epoch of new rows, and what is under way.

    `untested` are inputs whose conditions were tested on results before: rows of theirs that expire until this time may
    fail them.
    """

    tree: Tree
    number: int = 0
    epoch: int = 0
    migration: Migration | None = None
    untested: dict[int, int] = {}

    @property
    def late(self) -> tuple[int, ...]:
        """Return the inputs whose conditions are tested on results; a change of plan says so from its beginning."""
        return late_ports(self.tree if self.migration is None else self.migration.tree)


class MultiJoinOperator(Operator):
    """Runs a program over arrangements, and changes it."""

    def __init__(self, spec: MultiJoin) -> None:
        self._spec = spec
        self._reader = Reader(spec)
        self._sampler = KeySampler(spec, self._reader)
        self._frontier = Frontier(len(spec.inputs))
        self._completed = Completed(len(spec.inputs))
        shown = [dict(zip(part.names, own, strict=True)) for part, own in zip(spec.inputs, spec.names, strict=True)]
        self._ends = JoinEnds(spec.classes, shown)
        self._promised = BEGIN
        self._bounds: pl.DataFrame | None = None
        self._counted: tuple[dict[str, int], pl.DataFrame] = {}, pl.DataFrame()  # joined rows, as they are saved
        self._counters = Counters(len(spec.inputs))
        self._arrangements: dict[Place, Arrangement] = {}
        self._next: Program | None = None  # of the tree that a change of plan leads to
        self._use(Setting(left_deep(range(len(spec.inputs)))))

    @property
    def tree(self) -> Tree:
        """Return the tree that gives results; during a change the old one."""
        return self._setting.tree

    @property
    def number(self) -> int:
        """Return the number of the last change of plan."""
        return self._setting.number

    # Pages and bounds

    def on_page(self, port: int, page: Page) -> Iterator[Element]:
        self._counters.taken[port] += len(page)
        batch = self._take_in(port, page)
        if not batch.rows.height:
            return
        for way, track in self._ways(port):
            for rows in self._follow(way, batch, track):
                if len(rows.ports) == len(self._spec.inputs):
                    yield from self._emit(rows)

    def _take_in(self, port: int, page: Page, *, merges: bool = True) -> Batch:
        """Store the tuples of a page; return them."""
        batch = self._reader.read(port, page)
        if port in self._early:
            batch = self._tested(port, batch)
        for place in self._arrangements if batch.rows.height else ():
            if place.ports == (port,):
                batch = self._store(place, batch, merges=merges)
        return batch

    def _ways(self, port: int) -> Iterator[tuple[Way, Track]]:
        """Yield the ways of an input: to the roots of trees that give results, and to states that are being built."""
        migration, following = self._setting.migration, self._next
        if migration is None or following is None:
            yield self._program.ways[port], ALL
        elif migration.how == "parallel":
            yield self._program.ways[port], self._old_track()
            yield following.ways[port], NewTrack(self._setting.epoch)
        else:
            yield self._program.ways[port], ALL
            for place in self._filling:
                if port in place.ports:
                    yield following.filling(place, port), ALL

    def on_punctuation(self, port: int, mark: Punctuation) -> list[Element]:
        if mark.bound <= self._frontier.bounds[port]:
            return []
        self._frontier.advance(port, mark.bound)
        self._completed.expire(port, mark.bound)
        self._bounds = None
        for place, arrangement in self._arrangements.items():
            if port not in place.ports:
                self._counters.purged += arrangement.purge(self._bound(place))
        self._forget_untested()
        ends: list[Element] = self._ends.shown(self._completed.news(self._frontier.bounds)) if self._completed else []
        if self._frontier.minimum <= self._promised:
            return ends
        self._promised = self._frontier.minimum
        return [*ends, Punctuation(self._promised)]

    def on_completion(self, port: int, completion: Completion) -> list[Element]:
        """Forget the rows of other inputs that could only meet tuples of keys that are complete here."""
        rows = self._ends.keys(port, completion)
        if rows is None or not self._completed.add(port, rows, self._frontier.bounds[port]):
            return []
        for place, arrangement in self._arrangements.items():
            if port not in place.ports and (gone := self._gone(place)) is not None:
                self._counters.purged += sum(len(rows) for rows in arrangement.give(gone))
        return self._ends.shown(self._completed.news(self._frontier.bounds))

    def _gone(self, place: Place) -> Callable[[pl.DataFrame], Flags] | None:
        """Return which rows of a place can meet nothing any more, as the keys of theirs are complete elsewhere."""
        others = (port for port in range(len(self._spec.inputs)) if port not in place.ports)
        completed = self._completed.common(others, self._frontier.bounds) if self._completed else None
        if completed is None:
            return None
        first = self._spec.columns(place.ports[0])
        keys = {key: first[name].name for key, name in self._ends.columns[place.ports[0]].items()}

        def expired(rows: pl.DataFrame) -> Flags:
            columns = {key: self._reader.keys.column(rows, name) for key, name in keys.items()}
            return self._ends.expired(rows, completed, columns)

        return expired

    def _emit(self, batch: Batch) -> Iterator[Page]:
        """Yield results, if they pass what is tested late."""
        for port in self._tested_late:
            batch = self._tested(port, batch)
        if not batch.rows.height:
            return
        self._counters.out += batch.rows.height
        hidden = (TS, EXPIRY) if self._spec.expiry else (TS,)
        yield Page(self._reader.whole(batch.rows, range(len(self._spec.inputs)), hidden))

    def _tested(self, port: int, batch: Batch) -> Batch:
        """Test conditions that may take long."""
        if not batch.rows.height:
            return batch
        began = time.perf_counter_ns()
        passing = self._reader.passing(port, batch)
        self._counters.tested(port, batch.rows.height, passing.rows.height, time.perf_counter_ns() - began)
        return passing

    def _forget_untested(self) -> None:
        """Trust conditions that are tested on tuples again, where all that came before can meet nothing any more."""
        left = {port: end for port, end in self._setting.untested.items() if self._bound(Place((port,), ())) <= end}
        if len(left) < len(self._setting.untested):
            self._set(msgspec.structs.replace(self._setting, untested=left))

    def _follow(self, way: Way, batch: Batch, track: Track, at: int = 0) -> Iterator[Batch]:
        """Yield what comes out at the end of a way, step by step and in portions."""
        while at < len(way) and isinstance(op := way[at], Store):
            if track.fills_all or op.place not in self._shared:
                batch = self._store(op.place, batch)
            at += 1
        if at == len(way):
            yield batch
            return
        step = way[at]
        assert isinstance(step, Step)
        batch = self._reader.arranged(batch, step.place.classes)
        for since, before, is_new in track.ranges(batch.is_new, is_last=at == len(way) - 1):
            self._counters.searched(step.name, batch.rows.height)
            for joined in search(batch, self._arrangements[step.place], since, before, step, self._reader):
                self._counters.matched(step.name, joined.rows.height)
                yield from self._follow(way, joined._replace(is_new=is_new), track, at + 1)

    def _store(self, place: Place, batch: Batch, *, merges: bool = True) -> Batch:
        """Keep rows, except those that can meet nothing any more; return them sorted, for the next step."""
        bound = self._bound(place)
        if bound >= END:
            return batch
        batch = self._reader.arranged(batch, place.classes)
        arrangement = self._arrangements[place]
        rows = pl.DataFrame([self._reader.keys.column(batch.rows, name) for name in arrangement.stored])
        alive = rows[EXPIRY].to_numpy() >= bound
        if self._completed and (gone := self._gone(place)) is not None:
            alive = alive & ~gone(rows)
        if not alive.all():
            rows = rows.filter(alive)
        self._counters.stored += rows.height
        epoch = self._setting.epoch if batch.is_new else self._setting.epoch - 1
        arrangement.insert(rows, bound, epoch, merges=merges)
        return batch

    def _bound(self, place: Place) -> int:
        """Return the least timestamp that rows of these ports can still meet."""
        return min(bound for port, bound in enumerate(self._frontier.bounds) if port not in place.ports)

    # Changes of plan

    def use(self, number: int, tree: Tree, how: How, portion: int) -> None:
        """Go on with another tree: at once, or while the old one still runs; a change that was taken does nothing.

        A change that is under way is given up: the old tree has all its states.
        """
        if number <= self._setting.number:
            return
        check(tree, len(self._spec.inputs))
        untested = self._untested_under(tree)
        self._give_up()
        program = Program(self._spec, tree)
        missing = [place for place in program.places if place not in self._arrangements]
        if how == "parallel" and any(extent is not None and extent.span is None for extent in self._spec.extents):
            how = "moving"  # the old rows would never expire
        if how == "moving" or all(place.is_base for place in missing):
            self._build(program, missing)
            self._use(Setting(tree, number, self._setting.epoch, None, untested), program)
            return
        begun = [place for place in missing if not place.is_base]
        needed = dict.fromkeys((*program.places, *(program.filled_from(begun) if how == "stepwise" else ())))
        self._build(program, [place for place in needed if place.is_base and place not in self._arrangements])
        for place, arrangement in self._arrangements.items():
            arrangement.merge_epochs(self._bound(place))
        self._arrangements |= {place: self._arrangement(place) for place in begun}
        cursors = {str(place): BEGIN for place in begun} if how == "stepwise" else {}
        migration = Migration(number, how, tree, max(1, portion), cursors)
        self._set(Setting(self._setting.tree, number, self._setting.epoch + 1, migration, untested))

    def _untested_under(self, tree: Tree) -> dict[int, int]:
        """Return until when stored rows expire whose conditions are tested on tuples under a tree, but were not yet."""
        late, untested = late_ports(tree), self._setting.untested
        found: dict[int, int] = {}
        for port in self._reader.conditioned - set(late):
            chunks = self._arrangements[self._program.base(port)].chunks() if port in self._setting.late else ()
            end = max((chunk.max_exp for chunk in chunks), default=BEGIN)
            if max(end, untested.get(port, BEGIN)) > BEGIN:
                found[port] = max(end, untested.get(port, BEGIN))
        return found

    def advance(self) -> int:
        """Do a portion of the change that is under way; return how many rows are left to do (estimated)."""
        migration = self._setting.migration
        if migration is None or self._next is None:
            return 0
        if migration.how == "stepwise":
            migration = self._build_portion(migration, self._next)
        left = self._left(migration)
        if left:
            return left if migration.how == "stepwise" else 0  # two tracks go on with time, not with work
        if migration.how == "parallel":
            for arrangement in self._arrangements.values():
                arrangement.forget_before(self._setting.epoch)
        done = msgspec.structs.replace(self._setting, tree=migration.tree, migration=None)
        self._use(done, self._next)
        return 0

    def _build(self, program: Program, missing: Sequence[Place]) -> None:
        """Compute the missing states, those of fewer ports first; nothing is emitted."""
        for place in missing:
            self._arrangements[place] = target = self._arrangement(place)
            before = self._counters.stored
            alike = next((a for p, a in self._arrangements.items() if p.ports == place.ports and a is not target), None)
            if alike is not None:  # the same rows, sorted by another key
                for chunk in list(alike.chunks()):
                    self._store(place, Batch(chunk.present, place.ports, alike.place.classes, is_sorted=True))
            else:
                first, way = program.building(place)
                for chunk in list(self._arrangements[first].chunks()):
                    for _ in self._follow(way, Batch(chunk.present, first.ports, first.classes, is_sorted=True), ALL):
                        pass
            self._counters.built += self._counters.stored - before

    def _build_portion(self, migration: Migration, program: Program) -> Migration:
        """Build combinations of rows from before the change, and move the cursors on.

        The first rows of a portion say how many combinations the others will give. Each part looks at all rows that
        are left, so there are few.
        """
        room, cursors = migration.portion, dict(migration.cursors)
        for place in self._filling:
            count = room // _FIRST
            while room > migration.portion // _FIRST and cursors[str(place)] < END:
                batch, cursors[str(place)] = self._rows_after(place, program, cursors[str(place)], max(1, count))
                if batch is None:
                    break
                before = self._counters.stored
                for _ in self._follow(program.filling(place, place.ports[0]), batch, self._built_from()):
                    pass
                found = self._counters.stored - before
                self._counters.built += found
                room -= batch.rows.height + found
                count = int(room / (1 + found / batch.rows.height))
        changed = msgspec.structs.replace(migration, cursors=cursors)
        self._set(msgspec.structs.replace(self._setting, migration=changed))
        return changed

    def _rows_after(self, place: Place, program: Program, cursor: int, count: int) -> tuple[Batch | None, int]:
        """Return so many rows of the first port that came before the change, after a cursor, and the next cursor.

        Rows of one timestamp stay together.
        """
        base = program.base(place.ports[0])
        chunks = list(self._arrangements[base].chunks(before=self._setting.epoch))
        left = [chunk.ts[chunk.among_held(chunk.ts > cursor)] for chunk in chunks]
        times = np.concatenate([np.empty(0, np.int64), *left])
        if not len(times):
            return None, END
        last = int(np.partition(times, count - 1)[count - 1]) if count < len(times) else int(times.max())
        parts = [chunk.rows.filter(chunk.among_held((chunk.ts > cursor) & (chunk.ts <= last))) for chunk in chunks]
        return Batch(pl.concat(parts), base.ports, base.classes, is_new=True), last

    def _left(self, migration: Migration) -> int:
        epoch = self._setting.epoch
        if migration.how == "parallel":
            bound = self._frontier.minimum
            if bound >= END:
                return 0
            old = (a for a in self._arrangements.values() if a.has_before(epoch, bound))
            return sum(chunk.held for arrangement in old for chunk in arrangement.chunks(before=epoch))
        left = 0
        for place in self._filling:
            cursor = migration.cursors[str(place)]
            if cursor < END:
                assert self._next is not None
                base = self._arrangements[self._next.base(place.ports[0])]
                left += 1 + sum(int(chunk.among_held(chunk.ts > cursor).sum()) for chunk in base.chunks(before=epoch))
        return left

    def _old_track(self) -> Track:
        return OldTrack(self._setting.epoch)

    def _built_from(self) -> Track:
        return OldRows(self._setting.epoch)

    def _give_up(self) -> None:
        """End a change that is under way, and go on with the old tree alone."""
        if self._setting.migration is not None:
            self._use(msgspec.structs.replace(self._setting, migration=None), self._program)

    def _use(self, setting: Setting, program: Program | None = None) -> None:
        """Run a tree alone, with its arrangements and no others."""
        program = program or Program(self._spec, setting.tree)
        kept = self._arrangements
        self._arrangements = {place: kept.get(place) or self._arrangement(place) for place in program.places}
        self._program = program
        self._set(setting)

    def _set(self, setting: Setting) -> None:
        self._setting = setting
        self._plan: pl.DataFrame | None = None
        migration = setting.migration
        before = self._next
        if migration is None:
            self._next = None
        elif before is None or before.tree != migration.tree:
            self._next = Program(self._spec, migration.tree)
        self._filling = (
            []
            if migration is None or self._next is None
            else [place for place in self._next.places if str(place) in migration.cursors]
        )
        self._shared = frozenset(self._program.places)  # what the old tree fills
        self._early = self._reader.conditioned - set(setting.late)
        self._tested_late = sorted(self._reader.conditioned & {*setting.late, *setting.untested})

    def _arrangement(self, place: Place) -> Arrangement:
        return Arrangement(place, self._reader.keys.carried(place.ports))

    # State

    def state(self) -> State:
        if self._bounds is None:
            self._bounds = pl.DataFrame({"bound": [*self._frontier.bounds, self._promised]})
        if self._plan is None:
            self._plan = pl.DataFrame({"plan": [msgspec.json.encode(self._setting).decode()]})
        chunks = [arrangement.state() for arrangement in self._arrangements.values()]
        counted = {str(place): len(rows) for place, rows in self._arrangements.items() if not place.is_base}
        if counted != self._counted[0]:
            self._counted = counted, pl.DataFrame({"place": list(counted), "rows": list(counted.values())})
        own = {"bounds": self._bounds, "plan": self._plan} | ({"joined": self._counted[1]} if counted else {})
        own |= self._completed.state()
        return own | {name: chunk for some in chunks for name, chunk in some.items()}

    def restore(self, state: State) -> None:
        self._bounds, plan = state.get("bounds"), state.get("plan")
        count = len(self._spec.inputs)
        *self._frontier.bounds, self._promised = (
            [BEGIN] * (count + 1) if self._bounds is None else self._bounds["bound"].to_list()
        )
        self._completed.restore(state)
        self._arrangements = {}
        default = Setting(left_deep(range(count)))
        setting = default if plan is None else msgspec.json.decode(plan.item(), type=Setting)
        self._use(setting)
        if self._next is not None:
            for place in (*self._next.places, *self._next.filled_from(self._filling)):
                self._arrangements.setdefault(place, self._arrangement(place))
        for arrangement in self._arrangements.values():
            arrangement.restore(state)
        self._plan = plan
        if (joined := state.get("joined")) is not None and not self._is_whole(dict(joined.iter_rows())):
            self._compute_joined()

    def _is_whole(self, joined: dict[str, int]) -> bool:
        """Return whether all joined rows that were saved are there."""
        return all(
            place.is_base or len(arrangement) == joined.get(str(place), 0)
            for place, arrangement in self._arrangements.items()
        )

    def _compute_joined(self) -> None:
        """Compute all joined rows from those of the inputs; a change of plan that is under way ends with that."""
        setting, program = self._setting, self._next or self._program
        if setting.migration is not None:
            setting = msgspec.structs.replace(setting, tree=setting.migration.tree, migration=None)
        self._arrangements = {place: rows for place, rows in self._arrangements.items() if place.is_base}
        self._build(program, [place for place in program.places if place not in self._arrangements])
        self._use(setting, program)

    def give(self, keys: Sequence[Keys], choose: Choose) -> State:
        """Give up the rows of the inputs; what was joined from them is forgotten, and follows from them."""
        given: dict[str, pl.DataFrame] = {}
        bases = {self._program.base(port) for port in range(len(keys))}
        for place, arrangement in self._arrangements.items():
            port = place.ports[0]
            rows = arrangement.give(self._chosen(port, keys, choose))
            if rows and place in bases:
                given[str(port)] = self._as_input(port, rows)
        return given

    def copy(self, port: int, keys: Sequence[Keys], choose: Choose) -> State:
        rows = self._arrangements[self._program.base(port)].copy(self._chosen(port, keys, choose))
        return {str(port): self._as_input(port, rows)} if rows else {}

    def forget(self, port: int, keys: Sequence[Keys], choose: Choose) -> None:
        """Forget rows of an input, and all that was joined from them."""
        for place, arrangement in self._arrangements.items():
            if port in place.ports:
                arrangement.give(self._chosen(place.ports[0], keys, choose))

    def _chosen(self, port: int, keys: Sequence[Keys], choose: Choose) -> Callable[[pl.DataFrame], Flags]:
        """Return the choice among rows that have all columns of an input."""
        return chosen_by(choose, tuple(self._spec.output(port, key) for key in keys[port]))

    def _as_input(self, port: int, rows: Sequence[pl.DataFrame]) -> pl.DataFrame:
        names = dict(zip(self._spec.names[port], self._spec.inputs[port].names, strict=True))
        return pl.concat(rows).drop(KEY).rename(names)

    def take(self, given: State) -> None:
        """Let the rows come once more, up to the last state: results with rows that are here came out elsewhere."""
        counters = self._counters
        self._counters = Counters(len(self._spec.inputs))
        for port in range(len(self._spec.inputs)):
            if str(port) not in given:
                continue
            batch = self._take_in(port, Page(given[str(port)]), merges=False)
            for way, track in self._ways(port):
                stores = [at for at, op in enumerate(way) if isinstance(op, Store)]
                if stores and batch.rows.height:
                    for _ in self._follow(way[: stores[-1] + 1], batch, track):
                        pass
        self._counters = counters

    def purge(self, port: int, pattern: Pattern) -> int:
        names = dict(zip(self._spec.inputs[port].names, self._spec.names[port], strict=True))
        shown = rename(pattern, names)
        removed = 0
        for place, arrangement in self._arrangements.items():
            # the timestamp of a combination is not that of its part
            if port in place.ports and (place.is_base or TS not in pattern.names):
                carriers = {name: self._reader.keys.carrier(arrangement.stored, name) for name in names.values()}
                removed += arrangement.remove(rename(shown, carriers))
        return removed

    def held(self) -> int:
        return sum(map(len, self._arrangements.values()))

    def seen(self, *, sample: bool) -> BoxSeen:
        """Return what was done since the last call, with samples of keys and sizes if they are asked for."""
        migration = self._setting.migration
        bases = [self._arrangements[self._program.base(port)] for port in range(len(self._spec.inputs))]
        sizes = [sum(_size(chunk) for chunk in base.chunks()) if sample else 0 for base in bases]
        taken = self._counters.taken
        ports = [PortSeen(taken[port], len(base), sizes[port]) for port, base in enumerate(bases)]
        moving = None
        if migration is not None:
            moving = MigrationSeen(migration.number, migration.how, self._left(migration))
        return self._counters.report(
            tree=self._setting.tree,
            number=self._setting.number,
            ports=ports,
            rows={
                ".".join(map(str, place.ports)): len(arrangement)
                for place, arrangement in self._arrangements.items()
                if not place.is_base
            },
            migration=moving,
            samples=self._sampler.sample(bases) if sample else [],
        )


def _size(chunk: Chunk) -> int:
    """Return the bytes of the rows that are there, about."""
    return int(chunk.rows.estimated_size()) * chunk.held // len(chunk)
