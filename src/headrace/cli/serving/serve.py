"""`headrace serve`: own a checkpoint, run its queries, and let others use them by HTTP and by a page."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import typer

from headrace import extras
from headrace.cli.demo.demo import statements
from headrace.cli.help import examples, flag
from headrace.cli.live_session import (
    Host,
    allow_python,
    beside,
    chosen_launch,
    conf_option,
    executors_option,
    interruptible,
    master_option,
    open_session,
    python_option,
    statements_in,
    take_over_option,
)
from headrace.cli.output import err, faults, out
from headrace.cli.serving.logs import Form, log_to
from headrace.connectors import console
from headrace.language.parser import parse
from headrace.model.qos import parse_size
from headrace.storage.location import location, resolved

#: Where a server keeps its state if nothing else is said.
STATE = Path("headrace-state")
#: The script that builds the console, if it is not there yet; the launcher sets it.
CONSOLE = "HEADRACE_CONSOLE"
EXAMPLES = examples(
    ("an empty deployment in ./headrace-state; the page opens at the printed address", "serve"),
    ("the queries of a file; the same command continues after a stop or a crash",
     "serve examples/speed_map.sql --checkpoint state"),
    ("a traffic map of generated data, to look around; nothing is kept", "serve --demo"),
    ("without Spark, for small inputs", "serve examples/first.sql --host local --checkpoint state"),
    ("for other machines, with TLS; each client needs a token (headrace token new)",
     "serve --bind 0.0.0.0:4280 --tls-cert c.pem --tls-key k.pem --allow-host stream.example.org"),
    note="The log is server.log in the checkpoint; headrace status says where a server is and where its log is.",
)  # fmt: skip


def serve(
    file: Path | None = typer.Argument(
        None, exists=True, dir_okay=False, readable=True, help="SQL statements to begin with, which are not fenced."
    ),
    demo: bool = flag("--demo", "Serve the traffic map of headrace demo: generated data, nothing is kept."),
    checkpoint: Path = typer.Option(STATE, help="Folder for state; one process owns it."),
    bind: str = typer.Option(
        "127.0.0.1:4280", help="Address to listen at: HOST:PORT (port 0: any free one), or unix:PATH."
    ),
    host: Host = typer.Option(Host.spark, help="Where queries run. The local host is for small inputs; no Java."),
    buckets: int | None = typer.Option(None, min=1, help="Number of buckets of state. The default fits this machine."),
    master: str | None = master_option(),
    conf: list[str] = conf_option(),
    executors: int | None = executors_option(),
    python: list[str] = python_option(),
    take_over: bool = take_over_option(),
    tokens: Path | None = typer.Option(None, help="File of tokens (headrace token).  [default: in the checkpoint]"),
    allow_host: list[str] = typer.Option([], help="Answer requests to this host name too. Repeatable."),
    allow_origin: list[str] = typer.Option([], help="Let pages of this origin make changes too. Repeatable."),
    files: Path = typer.Option(Path(), help="Folder in which FILES of clients' statements may lie."),
    allow_spark: list[str] = typer.Option([], help="Spark format that clients' statements may use. Repeatable."),
    allow_address: list[str] = typer.Option(
        [], help="Host that clients' sources, sinks and webhooks may reach. Repeatable; loopback is always allowed."
    ),
    allow_secret: list[str] = typer.Option(
        [], metavar="KIND:NAME", help="Secret that clients' statements may refer to, such as env:PG_*. Repeatable."
    ),
    read_only: bool = flag("--read-only", "No statement of a client changes anything."),
    tls_cert: Path | None = typer.Option(None, exists=True, dir_okay=False, help="Certificate chain (PEM)."),
    tls_key: Path | None = typer.Option(None, exists=True, dir_okay=False, help="Private key (PEM)."),
    behind_proxy: bool = flag("--behind-proxy", "A proxy on this machine adds TLS: believe its X-Forwarded headers."),
    insecure: bool = flag("--insecure", "Listen beyond this machine without TLS: anybody on the way can read tokens."),
    otlp: str | None = typer.Option(
        None, metavar="URL", help="Send metrics to this collector of OpenTelemetry too, such as http://localhost:4318."
    ),
    keep: str = typer.Option("256 MB", help="Memory for the newest results of all queries."),
    log: Form = typer.Option(Form.text, help="Form of the log."),
) -> None:
    """Serve a checkpoint: a page, an HTTP interface, and commands of other terminals."""
    launch = chosen_launch(host, master, conf, executors)
    address = Address.parse(bind)
    if not (address.is_loopback or tls_cert is not None or behind_proxy or insecure):
        raise typer.BadParameter(
            "beyond this machine, tokens need TLS: give --tls-cert and --tls-key, or --behind-proxy, or --insecure",
            param_hint="--bind",
        )
    if (tls_cert is None) != (tls_key is None):
        raise typer.BadParameter("a certificate and its key go together", param_hint="--tls-cert")
    try:
        most = round(parse_size(keep))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keep") from error
    if demo and (file is not None or checkpoint != STATE):
        raise typer.BadParameter("the demo has its own statements, and keeps no state", param_hint="--demo")
    text = _demo() if demo else "" if file is None else statements_in(file)
    with ExitStack() as stack, faults(text or None):
        if demo:
            checkpoint = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-")))
        for module in ("starlette", "uvicorn", "websockets"):
            extras.load(module, "serve", "headrace serve")
        if otlp is not None:
            extras.load("opentelemetry.sdk", "otlp", "--otlp")
        from headrace.cli.serving.where import refuse_served  # these need the packages
        from headrace.server.fence import Policy
        from headrace.server.guard import LOOPBACK
        from headrace.server.otlp import Otlp
        from headrace.server.server import Options, Server
        from headrace.server.service import Service, Startup

        parse(text)  # report syntax errors at once
        if file is not None:
            beside(file)
        allow_python(python)
        directory = resolved(location(str(checkpoint), is_data=False))
        refuse_served(directory)
        log_file = log_to(directory, log)
        console.silence()  # clients follow results in another way
        service = Service(
            lambda: open_session(
                checkpoint, host=host, buckets=buckets, launch=launch, take_over=take_over, announces=False
            ),
            Startup(text, most),
        )
        service.own()
        build_console()
        options = Options(
            host=address.host,
            port=address.port,
            unix=address.unix,
            hosts=frozenset({*LOOPBACK, *allow_host, *([] if address.is_loopback else [address.host])}),
            origins=frozenset(allow_origin),
            tokens=tokens,
            certificate=tls_cert,
            key=tls_key,
            read_only=read_only,
            behind_proxy=behind_proxy,
            log_file=str(log_file),
            policy=Policy(files.resolve(), frozenset(allow_spark), frozenset(allow_address), frozenset(allow_secret)),
        )
        server = Server(service, options)
        with interruptible(_on_first) as stop:
            server.start()
            sending = None if otlp is None else Otlp(server, otlp)
            out.print(server.owner_url, markup=False)
            err.print(f"[dim]state in {directory}, log in {log_file}; press Ctrl-C to stop[/]")
            ready = False
            while not stop.is_set() and not server.stop_asked.is_set():
                stop.wait(0.2)
                if not ready and service.status()[0] != "starting":
                    ready = True
                    state, why = service.status()
                    err.print(f"[dim]{'ready' if why is None else f'{state}: {why}'}[/]")
            if sending is not None:
                sending.close()
            server.stop()
            server.release()
    err.print("stopped" if demo else "stopped; run the same command again to continue from here")


def build_console() -> None:
    """Build the web console if the launcher says how; where that cannot be done, a page without script is served."""
    builder = os.environ.pop(CONSOLE, None)
    if builder is None:
        return
    err.print("building the web console, once (about half a minute)")
    if subprocess.run([sys.executable, builder], check=False).returncode:
        err.print("the plain page is served instead")


def _demo() -> str:
    """Return the statements of the demo; results are on shelves, not in sinks that grow."""
    return statements().replace("\nINTO MEMORY;", ";")


def _on_first() -> None:
    err.print("\nfinishing the micro-batch ... (press Ctrl-C again to stop at once)")


class Address:
    """Where a server listens."""

    def __init__(self, host: str, port: int, unix: Path | None = None) -> None:
        self.host, self.port, self.unix = host, port, unix

    @staticmethod
    def parse(text: str) -> Address:
        """Read HOST:PORT, a port, or unix:PATH."""
        if text.startswith("unix:"):
            return Address("localhost", 0, Path(text.removeprefix("unix:")).absolute())
        host, colon, port = text.rpartition(":")
        if (
            not colon
            or (text.startswith("[") and text.endswith("]"))
            or (text.count(":") > 1 and not text.startswith("["))
        ):
            host, port = text, "4280"
        if text.isdigit():
            host, port = "127.0.0.1", text
        if not port.isdigit() or int(port) > 65535:
            raise typer.BadParameter(f"{port!r} is not a port", param_hint="--bind")
        return Address(host.strip("[]") or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        if self.unix is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
