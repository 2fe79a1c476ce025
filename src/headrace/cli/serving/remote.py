"""Commands on a running server: status, stop, top, tokens; and which server a command means."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from headrace.cli.help import examples
from headrace.cli.meter import Meter, milliseconds
from headrace.cli.output import err, faults, out, screen
from headrace.client import RemoteSession, connect
from headrace.client.remote import STATE, URL
from headrace.errors import HostFault
from headrace.server.place import served_at
from headrace.server.tokens import TokenFile, token_path
from headrace.storage.location import location, resolved
from headrace.storage.owner import owner_of

STATUS_EXAMPLES = examples(
    ("the server of ./headrace-state", "status"), ("that of another checkpoint", "status --checkpoint state")
)
STOP_EXAMPLES = examples(("finish the micro-batch and stop", "stop --checkpoint state"))
TOP_EXAMPLES = examples(("rates and times of a server, live", "top --checkpoint state"))
TOKEN_EXAMPLES = examples(
    ("a token for a dashboard; it is printed once", "token new --name grafana --role read"),
    ("names and roles", "token list"),
    ("let it open nothing any more", "token revoke --name grafana"),
)
token_app = typer.Typer(help="Make, list and revoke tokens for clients of a server.", no_args_is_help=True)


def url_option() -> Any:
    """Return the option that names a server."""
    return typer.Option(None, help=f"Address of the server. Else {URL}, or the server of the checkpoint.")


def token_option() -> Any:
    """Return the option that names a file with a token."""
    text = "File with the token. Else HEADRACE_TOKEN, or the owner's token in the checkpoint."
    return typer.Option(None, exists=True, dir_okay=False, help=text)


def checkpoint_option() -> Any:
    """Return the option that names the checkpoint of a server."""
    return typer.Option(STATE, help="Folder that is served.")


def session_of(url: str | None, checkpoint: Path | None, token_file: Path | None) -> RemoteSession:
    """Return a session on the server that options name; raise a fault if there is none."""
    token = None if token_file is None else token_file.read_text().strip()
    if _has_address(url, checkpoint):
        return connect(url, token)
    directory = resolved(location(str(checkpoint or STATE), is_data=False))
    if served_at(directory) is None:
        raise HostFault(f"the checkpoint {directory} is not served", hint="headrace serve serves it")
    return connect(token=token, checkpoint=directory)


def _has_address(url: str | None, checkpoint: Path | None) -> bool:
    """Return whether an address names the server, and not its checkpoint."""
    return url is not None or (bool(os.environ.get(URL)) and checkpoint in (None, STATE))


def served_session(url: str | None, checkpoint: Path | None, token_file: Path | None) -> RemoteSession | None:
    """Return a session on the server that is meant; None if none is named, and the checkpoint is not served."""
    if url is None and not os.environ.get(URL):
        directory = resolved(location(str(checkpoint or STATE), is_data=False))
        if served_at(directory) is None:
            return None
    return session_of(url, checkpoint, token_file)


def status(
    url: str | None = url_option(), checkpoint: Path = checkpoint_option(), token_file: Path | None = token_option()
) -> None:
    """Say where a checkpoint is served, and how its server is."""
    with faults():
        if url is None and not os.environ.get(URL):
            directory = resolved(location(str(checkpoint), is_data=False))
            served = served_at(directory)
            if served is None:
                owner, is_owned = owner_of(directory)
                what = f"is in use by {owner}" if is_owned else "is not served"
                out.print(f"{directory} {what}", markup=False)
                raise typer.Exit(1)
            out.print(f"{directory} is served at {served.url} by process {served.pid} (Headrace {served.version})",
                      markup=False)  # fmt: skip
            out.print(f"log: {served.log}", markup=False)
        found = session_of(url, checkpoint, token_file).deployment()
        beat = found["beat"]
        stage = f": {found['stage']}" if found["stage"] else ""
        out.print(f"state: {found['state']}{stage}, for {found['uptime_s']:.0f} s", markup=False)
        broken = [f"{each['query']} {each['measure']}" for each in beat["promises"] if each["kept"] is False]
        out.print(
            f"micro-batch {beat['batch']:,}, {milliseconds(beat['took_ms'])}, {beat['rate']:,.0f} tuples/s, "
            f"queries: {len(beat['queries'])}, promises broken: {', '.join(broken) or 'none'}",
            markup=False,
        )


def stop(
    url: str | None = url_option(), checkpoint: Path = checkpoint_option(), token_file: Path | None = token_option()
) -> None:
    """Stop a server: its micro-batch is finished, and the checkpoint released."""
    with faults():
        session = session_of(url, checkpoint, token_file)
        session.stop_server()
        if _has_address(url, checkpoint):
            out.print("the server is stopping")
            return
        directory = resolved(location(str(checkpoint), is_data=False))
        while owner_of(directory)[1]:
            time.sleep(0.1)
        out.print("stopped")


def top(
    url: str | None = url_option(),
    checkpoint: Path = checkpoint_option(),
    token_file: Path | None = token_option(),
    once: bool = typer.Option(False, "--once", metavar="", help="Print once and end."),
) -> None:
    """Watch rates and times of a server in the terminal."""
    with faults():
        session = session_of(url, checkpoint, token_file)
        meter = Meter()
        meter.look(session.statistics())
        if once or not out.is_terminal:
            time.sleep(1.0)
            meter.look(session.statistics())
            out.print(meter.table())
            return
        with Live(meter.table(), console=screen, screen=True, auto_refresh=False) as live:
            try:
                while True:
                    time.sleep(1.0)
                    meter.look(session.statistics())
                    live.update(meter.table(), refresh=True)
            except KeyboardInterrupt:
                return


@token_app.command("new", epilog=TOKEN_EXAMPLES)
def new_token(
    name: str = typer.Option(..., help="What the token is for."),
    role: str = typer.Option("read", help="read, or write: statements that change something."),
    checkpoint: Path = checkpoint_option(),
    tokens: Path | None = typer.Option(None, help="File of tokens.  [default: in the checkpoint]"),
) -> None:
    """Make a token and print it; only a digest of it is kept."""
    if role not in ("read", "write"):
        raise typer.BadParameter("choose read or write", param_hint="--role")
    with faults():
        print(_file(checkpoint, tokens).add(name, "write" if role == "write" else "read"))
        err.print("[dim]keep it: it is not shown again[/]")


@token_app.command("list", epilog=TOKEN_EXAMPLES)
def list_tokens(
    checkpoint: Path = checkpoint_option(),
    tokens: Path | None = typer.Option(None, help="File of tokens.  [default: in the checkpoint]"),
) -> None:
    """List the names and roles of tokens."""
    with faults():
        table = Table("name", "role", box=None, header_style="bold", pad_edge=False)
        for login in _file(checkpoint, tokens).logins():
            table.add_row(escape(login.name), login.role)
        out.print(table)


@token_app.command("revoke", epilog=TOKEN_EXAMPLES)
def revoke_token(
    name: str = typer.Option(..., help="The name of the token."),
    checkpoint: Path = checkpoint_option(),
    tokens: Path | None = typer.Option(None, help="File of tokens.  [default: in the checkpoint]"),
) -> None:
    """Forget a token: it opens nothing any more."""
    with faults():
        _file(checkpoint, tokens).revoke(name)
        out.print(f"the token {name} opens nothing any more", markup=False)


def _file(checkpoint: Path, tokens: Path | None) -> TokenFile:
    return TokenFile(tokens or token_path(resolved(location(str(checkpoint), is_data=False))))
