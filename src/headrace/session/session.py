"""A session: text in, running queries out; the one place where catalog, compiler, host and sinks meet."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import polars as pl

from headrace.analysis.forecast.report import CapacityReport
from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Stream
from headrace.catalog.journal import Journal
from headrace.commands.command import AddQuery, Drain
from headrace.commands.culprits import attribute
from headrace.commands.repairs import Repair, add_repairs
from headrace.commands.running import Running
from headrace.connectors import push
from headrace.connectors.memory import KeyedPushes, MemorySink
from headrace.connectors.spool import first_number
from headrace.driver.deployed import Deployments
from headrace.driver.staged_results import forget_subscriptions, subscribe_to
from headrace.engine.statistics import Statistics
from headrace.errors import HeadraceError, HostFault, NameFault, NotSupported, Span, pointing_at
from headrace.hosts.host import Deployment, FrameReader, Preparable, Rescalable, Rescaled, SourceReader
from headrace.hosts.spark.starting.launch import launch_of
from headrace.language.parser import parse
from headrace.language.syntax.statements import (
    CreateStream,
    Describe,
    Explain,
    ExplainReplace,
    Select,
    Show,
    ShowCreate,
    Statement,
)
from headrace.model.time import SECOND, format_instant
from headrace.session.arguments import allow_modules, check_arguments, check_callable, check_choice, named
from headrace.session.data import Form, Rows, columns_or_rows, in_form
from headrace.session.deploying import interval_for, make_deployment
from headrace.session.following import PageReader, Subscriber, Waiting, follow, follow_async, row_reader, table_reader
from headrace.session.forecast import Stated, declared_rate, forecast_together
from headrace.session.life import Life, check_process
from headrace.session.listings.show import COUNTS
from headrace.session.outcome import Listing, Message, Outcome
from headrace.session.own_functions import create_function_text
from headrace.session.python_code import check_query
from headrace.session.repair import drop_statements, leave_out_file, names_to_drop, quoted
from headrace.session.secrets import check_secrets_of
from headrace.session.statements import Statements
from headrace.session.stints import by_name, start_query, stop_query
from headrace.session.tables_alone import is_on_tables
from headrace.session.transaction import Transaction
from headrace.session.trial import Trial, try_stream
from headrace.storage.format import check_format, raise_format, write_format
from headrace.storage.location import ObjectPath, location, resolved
from headrace.storage.mirror import end_mirror, mirror
from headrace.storage.object_settings import configure
from headrace.storage.owner import Ownership
from headrace.storage.temporary import sweep_once, temporary_checkpoint
from headrace.worker.ingest import PAGE_TUPLES

_DRAINED = "this checkpoint has been drained: its streams are closed"
_NEW_RUN = "use a new --checkpoint for a new run"
_NOT_STARTED = "the queries of the checkpoint have not been started"
_START = "call start() first"
Code = TypeVar("Code", bound=Callable[..., Any])


class Session:
    """Streams, tables and queries by name, and the deployment that runs them.

    `host` may also be a function that makes the deployment of a directory, such as a simulated one.

    A micro-batch reads about `limit` tuples of a stream at most, and a page holds `page` at most; neither changes a
    result. The statements of one `execute` take effect together: either all are correct or nothing happens, and their
    queries see the same first tuple.

    A session changes a checkpoint only as its owner: of all processes one at a time, from the first change until
    `stop`. Statements that only read (SHOW, DESCRIBE, EXPLAIN) work beside the owner, and start nothing.

    If the last owner ran on another machine and did not release the checkpoint, because the machine was lost, this
    session is refused unless it is to `take_over`. An owner that still runs then stops, and changes nothing.

    Statements may name Python code in modules beside the program, and in `python_modules` (`stats`, `stats.*`); that
    holds for the whole process.

    On Spark, `spark` is a SparkSession that runs already; queries get a session of their own in it, so its settings
    stay as they are. Otherwise Spark starts where `master` says (`spark://host:7077`, `yarn`, `local[4]`), or else
    where Spark's own files and variables say, or else on this machine. `conf` are settings of Spark, and on a cluster
    the start waits for `executors` of them. If Spark gives up a micro-batch for a reason that may pass, it is repeated
    after a pause, unless `restart` is False.

    The local host runs micro-batches while a method waits for it; with `live`, in the background, as Spark does.
    """

    def __init__(
        self,
        checkpoint: Path | str | None = None,
        *,
        host: Literal["spark", "local"] | Callable[[Path], Deployment] = "spark",
        buckets: int | None = None,
        limit: int = 1_000_000,
        page: int = PAGE_TUPLES,
        interval: float | None = None,
        python_modules: Sequence[str] = (),
        spark: Any = None,
        master: str | None = None,
        conf: Mapping[str, str | int | float | bool] | None = None,
        executors: int | None = None,
        take_over: bool = False,
        restart: bool = True,
        live: bool = False,
    ) -> None:
        check_process()
        launch = launch_of(spark, master, conf, executors)
        check_arguments(checkpoint, host, launch, buckets, limit, page, interval, live)
        allow_modules(python_modules)
        self._temporary = checkpoint is None
        self.directory = (
            temporary_checkpoint() if checkpoint is None else resolved(location(str(checkpoint), is_data=False))
        )
        configure(launch.conf)
        if isinstance(self.directory, ObjectPath):
            sweep_once()
        if host == "spark" and isinstance(self.directory, ObjectPath):
            from headrace.hosts.spark.stores import learn_stores  # here, as below

            learn_stores(launch)
        check_format(self.directory)
        self._ownership = Ownership(self.directory, is_private=self._temporary, take_over=take_over)
        self.catalog = Catalog()
        self.journal = Journal(self.directory / "catalog.jsonl")
        self.deployment = make_deployment(
            host,
            self.directory,
            buckets,
            limit,
            page,
            interval_for(self.directory) if interval is None else interval,
            is_temporary=self._temporary,
            launch=launch,
            restart=restart,
            live=live,
        )
        self.deployment.delivery.reactions.switch = self._turn
        self._pushes = KeyedPushes(self.directory)
        self._life = Life()
        self._started = False
        self._deployments = Deployments(self.directory)
        self._statements = Statements(self.deployment, self._deployments)
        self._replay()

    def execute(self, text: str, *, start: bool = True) -> list[Outcome]:
        """Run statements in order, all or none; an error points into `text`.

        The queries of the checkpoint start, or continue, with the first statement that does more than read; if `start`
        is False they wait for `start()`.
        """
        self._life.check()
        statements = parse(text)
        is_reading = all(map(self._is_reading, statements))
        if not is_reading:
            self._own()
        transaction = self._prepare(text, statements)
        if transaction.commands and not self._started:
            self.prepare()
        if not is_reading:
            self._commit(transaction)
        if start and not is_reading:
            self._begin()
        outcomes = [outcome() for outcome in transaction.outcomes]
        if not self._started and self._running().known:  # another process may have counted
            outcomes = [outcome.without(COUNTS) if isinstance(outcome, Listing) else outcome for outcome in outcomes]
        failure = self.deployment.failure()
        if failure is not None and not is_reading:
            outcomes.append(Message(f"no query runs, because the deployment has failed: {failure.message}"))
        return outcomes

    def check(self, text: str) -> bool:
        """Check statements as `execute` does, without effect; return whether they would do more than read."""
        statements = parse(text)
        self._prepare(text, statements)
        return not all(map(self._is_reading, statements))

    def try_stream(self, text: str) -> Trial:
        """Read the first records of the stream that a CREATE STREAM statement would make, without effect."""
        statements = parse(text)
        transaction = self._prepare(text, statements)
        if len(statements) != 1 or not isinstance(statements[0], CreateStream):
            raise NotSupported("only one CREATE STREAM statement can be tried")
        stream = transaction.catalog.find(statements[0].name.text)
        assert isinstance(stream, Stream)
        return try_stream(stream, round(time.time() * SECOND))

    def explain(self, text: str, *, form: Literal["text", "json"] = "text") -> str:
        """Return how the statements' queries would run: plan, optimized plan, graph."""
        transaction = Transaction(self.catalog.copy(), self._running())
        shown: list[str] = []
        for statement in parse(text):
            with _pointing_into(text, statement):
                shown += self._statements.preview(statement, form, transaction)
        return "\n\n".join(shown)

    def foretell(self, text: str, stated: Stated, *, speed: float = 1.0) -> CapacityReport:
        """Forecast the queries of a text beside those that run, on a processor `speed` times as fast."""
        transaction = self._prepare(text, parse(text), checks_admission=False)
        facts = stated.facts(transaction.catalog.streams())
        return forecast_together(transaction.running.values(), facts, speed=speed)

    def streams_of(self, text: str) -> dict[str, float | None]:
        """Return the streams that the queries of a text read, with the rates of those that declare one."""
        read = {
            stream.name: stream
            for query in self._prepare(text, parse(text), checks_admission=False).running.values()
            for stream in query.streams
        }
        return {name: declared_rate(stream) for name, stream in sorted(read.items())}

    def start_query(self, name: str) -> None:
        """Start a query, as START QUERY does; nothing if it is on."""
        self._turn(name, True)

    def stop_query(self, name: str) -> None:
        """Stop a query, as STOP QUERY does: its windows end, pending results come out, and it stays defined.

        Nothing if it is off.
        """
        self._turn(name, False)

    def push(self, stream: str, rows: Rows, *, key: str = "") -> int | None:
        """Append rows to a MEMORY stream, all or none; durable when it returns.

        They are dictionaries, tuples in the order of the columns, data classes, or a table of Polars, Arrow or pandas.

        With a `key`, rows that were pushed under it within a day are not added again, also after a crash: then how many
        they were is returned, else None.
        """
        definition = self.catalog.find(str(stream))
        if not isinstance(definition, Stream) or definition.connector.kind != "MEMORY":
            hint = "only streams created with FROM MEMORY take pushed rows"
            raise NameFault(f"{stream!r} is not a MEMORY stream", hint=hint)
        definition = definition.recorded
        pushed = columns_or_rows(rows, definition.schema)
        self._own()
        if self._running().draining:
            raise HostFault(_DRAINED, hint=_NEW_RUN)
        if not key:
            push(definition, self.directory, pushed)
            return None
        return self._pushes.push(definition, pushed, str(key), int(time.time()))

    @overload
    def results(self, query: str, form: Literal["rows"] = "rows") -> list[dict[str, Any]]: ...
    @overload
    def results(self, query: str, form: Literal["polars"]) -> pl.DataFrame: ...
    @overload
    def results(self, query: str, form: Literal["arrow", "pandas"]) -> Any: ...
    def results(self, query: str, form: Form = "rows") -> Any:
        """Return what a query with a MEMORY sink has delivered so far: dictionaries, or a table of another library."""
        check_choice("the form", form, Form)
        sinks = self.deployment.delivery.sinks
        name = query if query in sinks else self._query_named(query)
        for sink in sinks.get(name, []):
            if isinstance(sink, MemorySink):
                return in_form(sink.frame(), form)
        if (reason := self.failed().get(name)) is not None:
            raise HostFault(f"query {name} has failed: {reason}", hint=f"START QUERY {name} runs it again")
        if not self._started:
            raise HostFault(f"query {name} has no results here: {_NOT_STARTED}", hint=_START)
        hint = "write INTO MEMORY at its end; subscribe, follow and for_each_batch need no sink"
        raise NameFault(f"query {name} has no MEMORY sink", hint=hint)

    def partials(self, query: str) -> list[dict[str, Any]]:
        """Return what the last DEMAND of a query gave: rows as they were then, flagged `partial`.

        Final ones come later.
        """
        return self._statements.demands.partials(self._query_named(query))

    def subscribe(self, query: str, take: Subscriber) -> None:
        """Call `take(batch, rows)` with each micro-batch's results of a query, from a background thread.

        An error that it raises is logged and counted; the query and its other readers go on.
        """
        self._subscribe(query, take, row_reader(take))

    def for_each_batch(self, query: str, function: Callable[[pl.DataFrame, int], Any]) -> None:
        """Call `function(table, batch)` with the results of each micro-batch of a query that has any, as Spark does.

        It is called from a background thread; errors are treated as those of `subscribe`.
        """
        self._subscribe(query, function, table_reader(function))

    def follow(self, query: str, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """Return the results of a query as they come, from now on, until the queries end or the seconds have passed.

        On the local host micro-batches run while the iterator waits.
        """
        return follow(self._waiting(query), self.wait, timeout)

    def follow_async(self, query: str, timeout: float | None = None) -> AsyncIterator[dict[str, Any]]:
        """Return the same for `async for`; the loop goes on meanwhile."""
        return follow_async(self._waiting(query), self.wait, timeout)

    def _waiting(self, query: str) -> Waiting:
        """Return the results of micro-batches that nobody has taken yet."""
        waiting: Waiting = deque()
        self._query_named(query)  # one that is created later would be waited for in vain if its name is wrong
        self.subscribe(query, lambda _, rows: waiting.append(rows))
        return waiting

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Let rules CALL a function by name.

        It takes the detection as a dictionary, or the arguments that CALL names, and `key`.

        A session that continues a checkpoint registers its functions again, before it starts.
        """
        check_callable(function)
        self.deployment.delivery.reactions.functions[name] = function

    def function(
        self,
        code: Code,
        *,
        name: str | None = None,
        args: Sequence[str] | None = None,
        returns: str | None = None,
        vectorized: Literal["polars", "arrow"] | None = None,
    ) -> Code:
        """Let queries call a Python function of a module; `args` and `returns` are types, by default its annotations.

        It is CREATE OR REPLACE FUNCTION, and returns the function, so that it can decorate one.
        """
        self.execute(create_function_text(code, name, args, returns, vectorized))
        return code

    def stream(self, name: str, frame: Any, *, timestamp: str | None = None, skew: str | None = None) -> None:
        """Make a stream of a streaming DataFrame; `timestamp` names the column of its time, `skew` is '2 SECONDS'.

        A session that continues a checkpoint does so again, before it starts.
        """
        if not isinstance(self.deployment, FrameReader):
            raise HostFault("DataFrames are for the host 'spark'", hint="leave the host out, or push rows")
        self.execute(self.deployment.read_frame(name, frame, timestamp, skew), start=False)
        known = self.catalog.find(name)
        if not isinstance(known, Stream) or known.connector.options.get("format") != "dataframe":
            raise NameFault(f"{name} already exists, and reads no DataFrame", hint="choose another name, or drop it")

    def statistics(self) -> Statistics:
        """Return the counters of the deployment as of the last finished micro-batch."""
        return self.deployment.delivery.statistics.of_users()

    def prepare(self) -> None:
        """Raise a fault if queries cannot run; on a cluster, start Spark and look at the executors.

        `execute` does so before the first query is added.
        """
        if isinstance(self.deployment, Preparable):
            self.deployment.prepare()

    def start(self) -> None:
        """Start the queries of the checkpoint, or continue them; `execute` does so unless it only reads."""
        if not self._started:
            self._own()
            self._check_code()
            check_secrets_of(self._running())
            raise_format(self.directory)
            self.deployment.start()
            self.deployment.delivery.open(self._running())
            self._started = True

    def failed(self) -> dict[str, str]:
        """Return the queries and rules that do not run any more because they made micro-batches fail, with the reason.

        START QUERY, ENABLE RULE or CREATE OR REPLACE run one again, with empty state.
        """
        return {failed.query: failed.reason for failed in self._running().failed}

    def repair(self, drop: Sequence[str]) -> list[str]:
        """Remove queries or rules that make every micro-batch fail, without running one; return their names.

        The micro-batch that failed is repeated without them. Only a session that has not started can do this.
        """
        if self._started:
            raise HostFault("a running session cannot be repaired", hint="stop it first")
        self._own()
        running = self._running()
        names = names_to_drop(drop, self.catalog, self._deployments.log.known_queries())
        text = drop_statements(names, self.catalog, running)
        transaction = self._prepare(text, parse(text))
        add_repairs(self._deployments.log.directory, [Repair(name, running.commands) for name in names])
        self._commit(transaction)
        return names

    def repair_frontier(self, stream: str, to: int | None = None) -> str:
        """Reset the frontier of a stream of a stopped checkpoint, as ALTER STREAM does; return what was done.

        It takes effect when the checkpoint is continued, after a micro-batch that is to be repeated.
        """
        if self._started:
            raise HostFault("a running session cannot be repaired", hint="use ALTER STREAM name RESET FRONTIER")
        self._own()
        text = f"ALTER STREAM {quoted(stream)} RESET FRONTIER"
        text += "" if to is None else f" TO TIMESTAMP '{format_instant(to)}'"
        transaction = self._prepare(text, parse(text))
        self._commit(transaction)
        done = [outcome() for outcome in transaction.outcomes]
        return "; ".join(outcome.text for outcome in done if isinstance(outcome, Message))

    def repair_file(self, path: str) -> list[str]:
        """Leave out what was not read yet of a file of FILES; return the streams that have found it.

        It takes effect when the checkpoint is continued, also for a micro-batch that is to be repeated. A record in
        `<stream>.bad` says so. Only a session that has not started can do this.
        """
        if self._started:
            raise HostFault("a running session cannot be repaired", hint="stop it first")
        self._own()
        return leave_out_file(path, self.catalog, self._running(), self.directory)

    def rescale(self, cores: int) -> Rescaled:
        """Divide the state of a stopped checkpoint for another number of cores; results do not depend on it."""
        if self._started:
            raise HostFault("a running session cannot be rescaled", hint="stop it first")
        if not isinstance(self.deployment, Rescalable):
            raise HostFault("only a checkpoint of Spark is divided for cores", hint="leave out host='local'")
        self._own()
        return self.deployment.rescale(cores)

    def drain(self, timeout: float | None = None) -> None:
        """Read what the sources hold now, close the streams so that every window ends, deliver, and stop."""
        if not self._running().known:
            for name, reason in self.failed().items():
                raise HostFault(
                    f"no query is left: {name} has failed: {reason}", hint=f"START QUERY {name} runs it again"
                )
        self._own()
        is_running = bool(self._running().known)
        if is_running and not self._running().draining:
            self.deployment.send(Drain())
        self._begin()
        wait = self.deployment.wait if is_running else self.deployment.delivery.reactions.outbox.settle
        if not wait(timeout):
            hint = "allow more time, or look at statistics() for the slow operators"
            raise HostFault(f"not drained within {timeout} s", hint=hint)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the deployment ends (True) or `timeout` seconds pass (False); raises if it failed."""
        if self._life.is_over:
            return True
        if not self._started and self._running().known:
            raise HostFault(_NOT_STARTED, hint=_START)
        return self.deployment.wait(timeout)

    def stop(self) -> None:
        """Finish the running micro-batch and stop; a new session on the same checkpoint continues from here.

        Results of queries with a MEMORY sink and statistics can still be read.
        """
        if self._life.is_over or not self._life.is_here:
            return
        try:
            if self._started:
                self._started = False
                self.deployment.stop()
            else:
                self.deployment.delivery.reactions.outbox.close()
        finally:
            self._life.is_over = True
            end_mirror(self.directory)
            self._ownership.release()
            if self._temporary:
                shutil.rmtree(self.directory, ignore_errors=True)

    def own(self) -> None:
        """Become the owner of the checkpoint now, and not with the first change; raise a fault that names another."""
        self._own()

    @property
    def has_started(self) -> bool:
        """Return whether the deployment was started, and not stopped."""
        return self._started

    def running(self) -> Running:
        """Return what is in force after all commands so far."""
        return self._running()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _begin(self) -> None:
        """Start or continue the queries; if there is none, make the calls that rules have left which were dropped."""
        if self._running().known:
            self.start()
            self.deployment.delivery.open(self._running())
        else:
            self.deployment.delivery.reactions.start()

    def _subscribe(self, query: str, function: object, pass_on: PageReader) -> None:
        """Call `pass_on` with each micro-batch's results of a query, which may be created later."""
        check_callable(function)
        self._own()
        try:
            name = self._query_named(query)
        except NameFault:
            name = str(query)
        subscribe_to(self.directory, name)
        self.deployment.delivery.subscribers.setdefault(name, []).append(pass_on)

    def _query_named(self, name: str) -> str:
        """Return the name of a query or rule as it was written when it was created; case does not matter."""
        running = self._running()
        known = [query.name for query in self.catalog.queries()] + [rule.name for rule in self.catalog.rules()]
        known += [failed.query for failed in running.failed] + [query.query for query in running.known]
        return named(name, known)

    def _own(self) -> None:
        """Become the owner of the checkpoint; the last owner may have changed it since this session began."""
        self._life.check()
        if self._ownership.take():
            mirror(self.directory)
            forget_subscriptions(self.directory)
            if self.journal.has_changed():
                self._replay()
            self.journal.compact(self.catalog)

    def _replay(self) -> None:
        """Restore the definitions of earlier sessions on this checkpoint."""
        transaction = Transaction(Catalog(), Running())
        transaction.checks_admission = False
        for entry in self.journal.read():
            if entry.definition is not None:
                transaction.catalog.replace(entry.definition)
            else:
                for statement in parse(entry.text):
                    self._statements.prepare(statement, transaction)
        self.catalog = transaction.catalog

    def _check_code(self) -> None:
        """Go on without the queries whose Python code cannot be loaded any more; raise a fault if they are all."""
        for query in self._running().known:
            try:
                check_query(query)
            except HeadraceError as error:
                attribute(error, query)
                if not error.lacks_code or not self.deployment.exclude(error):
                    raise

    def _turn(self, name: str, on: bool) -> None:
        """Start or stop a query, as users and rules do it."""
        self._own()
        self.deployment.send(
            *(start_query if on else stop_query)(self._running(), by_name(name), self.deployment.now())
        )

    def _is_reading(self, statement: Statement) -> bool:
        """Return whether a statement changes nothing and starts nothing."""
        if isinstance(statement, Select):
            return is_on_tables(statement.select, self.catalog)
        return isinstance(statement, Show | ShowCreate | Describe | Explain | ExplainReplace)

    def _running(self) -> Running:
        return self._deployments.newest()

    def _prepare(self, text: str, statements: Sequence[Statement], *, checks_admission: bool = True) -> Transaction:
        """Check the statements of a text in order, without effect."""
        bounds = self.deployment.delivery.bounds
        transaction = Transaction(self.catalog.copy(), self._running(), bounds, self._begin_of)
        transaction.checks_admission = checks_admission
        for statement in statements:
            with _pointing_into(text, statement):
                self._statements.prepare(statement, transaction)
                self._check_streams(transaction)
        return transaction

    def _begin_of(self, stream: str) -> int:
        return first_number(stream, self.directory)

    def _check_streams(self, transaction: Transaction) -> None:
        """Refuse streams that a checkpoint in an object store cannot hold."""
        if isinstance(self.directory, ObjectPath):
            for stream in (stream for query in transaction.running.values() for stream in query.streams):
                if stream.connector.kind == "SOCKET":
                    raise NotSupported(
                        f"stream {stream.name!r}: FROM SOCKET needs a checkpoint on a local disk",
                        hint="what is received is added to a file there; use a local --checkpoint, or KAFKA",
                    )

    def _commit(self, transaction: Transaction) -> None:
        """Let the statements of a transaction take effect, now and after every restart."""
        if self._running().draining and any(isinstance(command, AddQuery) for command in transaction.commands):
            raise HostFault(_DRAINED, hint=_NEW_RUN)
        if transaction.entries or transaction.commands:
            write_format(self.directory)
            raise_format(self.directory)
        if isinstance(self.deployment, SourceReader):
            self.deployment.begin_sources(*transaction.commands)
        for entry in transaction.entries:
            self.journal.append(entry)
        self.catalog = transaction.catalog
        if transaction.commands:
            self.deployment.send(*transaction.commands)
        if transaction.entries:
            self.journal.settle([*self.catalog])


@contextmanager
def _pointing_into(text: str, statement: Statement) -> Iterator[None]:
    """Let an error in a statement point into the text that contains it."""
    try:
        with pointing_at(Span(0, len(statement.text.split(None, 1)[0]))):
            yield
    except HeadraceError as error:
        if error.span is not None and error.text is None:
            error.span = Span(error.span.start + statement.offset, error.span.end + statement.offset)
            error.text = text
        raise
