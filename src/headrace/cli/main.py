"""The command `headrace`: one module per command; this one lists them."""

from __future__ import annotations

import os
import sys
from itertools import pairwise

from headrace.cli.interrupts import end_at_once, raise_again

end_at_once()  # until all is loaded, there is nothing to finish

from headrace.cli.early import begin  # noqa: E402

begin(sys.argv[0], sys.argv[1:])  # before the imports that take long

import typer  # noqa: E402

from headrace import __version__  # noqa: E402
from headrace.cli import (  # noqa: E402
    backup,
    bench,
    check,
    example,
    experiment,
    explain,
    pack,
    plan,
    repair,
    rescale,
    run,
    setup,
    submit,
    test,
)
from headrace.cli.demo import demo  # noqa: E402
from headrace.cli.help import flag, program  # noqa: E402
from headrace.cli.output import BAD_QUERY  # noqa: E402
from headrace.cli.prompt import shell  # noqa: E402
from headrace.cli.serving import dashboard, remote, serve  # noqa: E402
from headrace.hosts.spark.starting.settings import DEBUG  # noqa: E402

raise_again()

app = typer.Typer(
    name="headrace",
    help="Continuous SQL queries over streams, run by Spark.",
    epilog=f"Start with: {program()} demo\n\nOptions and examples of a command: {program()} COMMAND --help",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.command("sql", epilog=shell.EXAMPLES)(shell.sql)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("status", epilog=remote.STATUS_EXAMPLES)(remote.status)
app.command("top", epilog=remote.TOP_EXAMPLES)(remote.top)
app.command("stop", epilog=remote.STOP_EXAMPLES)(remote.stop)
app.add_typer(remote.token_app, name="token")
app.command("dashboard", epilog=dashboard.EXAMPLES)(dashboard.dashboard)
app.command("submit", epilog=submit.EXAMPLES)(submit.submit)
app.command("pack", epilog=pack.EXAMPLES)(pack.pack)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.command("check", epilog=check.EXAMPLES)(check.check)
app.command("backup", epilog=backup.BACKUP_EXAMPLES)(backup.backup)
app.command("restore", epilog=backup.RESTORE_EXAMPLES)(backup.restore_copy)
app.command("repair", epilog=repair.EXAMPLES)(repair.repair)
app.command("rescale", epilog=rescale.EXAMPLES)(rescale.rescale)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("example", epilog=example.EXAMPLES)(example.example)
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)
app.add_typer(experiment.app, name="experiment")
app.command("test", epilog=test.EXAMPLES, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    test.run_tests
)
app.command("setup", epilog=setup.EXAMPLES)(setup.setup)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = flag("--debug", "Show tracebacks and Spark's log."),
    version: bool = flag("--version", "Print the version and exit.", is_eager=True, callback=_print_version),
) -> None:
    """Continuous SQL queries over streams, run by Spark."""
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """Run the command line; `--debug` may stand anywhere."""
    arguments = sys.argv[1:]
    try:
        os.getcwd()
    except FileNotFoundError:
        sys.exit("the current folder was deleted; change to another one")
    if "--checkpoint=" in arguments or ("--checkpoint", "") in pairwise(arguments):
        typer.echo("--checkpoint is empty: is a variable not set? The current folder is --checkpoint .", err=True)
        sys.exit(BAD_QUERY)
    if "--debug" in arguments and arguments[0] != "test":
        arguments = ["--debug", *(argument for argument in arguments if argument != "--debug")]
    app(arguments, prog_name=program())
