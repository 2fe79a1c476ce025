import json
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from headrace.cli import bench
from headrace.cli import test as checks
from headrace.cli.bench_table import table
from headrace.cli.demo import demo
from headrace.cli.help import examples
from headrace.cli.main import app, main
from headrace.cli.output import faults
from headrace.cli.prompt import completion, shell
from headrace.language import parser
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateQuery, CreateStream
from headrace.session import Session
from headrace.testing.aggregates import GeometricMean

STREAM = "CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;\n"
QUERY = "CREATE QUERY dear AS SELECT item, price FROM bids WHERE price > 10 INTO MEMORY;\n"


def invoke(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}).invoke(
        app, list(arguments), input=stdin
    )
    return result.exit_code, result.output


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str) -> str:
        file = tmp_path / "queries.sql"
        file.write_text(text)
        return str(file)

    return write_file


COMMANDS = (
    "run",
    "sql",
    "explain",
    "plan",
    "check",
    "backup",
    "restore",
    "repair",
    "rescale",
    "demo",
    "example",
    "bench",
    "experiment",
    "test",
    "setup",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    code, output = invoke(command, "--help")
    assert code == 0
    assert "Examples:" in output
    assert f"headrace {command}" in output


def test_help_lists_every_command() -> None:
    code, output = invoke("--help")
    assert code == 0
    assert all(f" {command} " in output for command in COMMANDS)


def test_the_version_is_told() -> None:
    assert invoke("--version") == (0, "headrace 0.1.0\n")


@pytest.mark.parametrize("command", [("run",), ("explain",)])
def test_bad_sql_ends_with_code_2_and_a_caret(command: tuple[str, ...], write) -> None:
    code, output = invoke(*command, write(STREAM + "CREATE QUERY x AS SELEKT item FROM bids;\n"))
    assert code == 2
    assert "SyntaxFault" in output
    assert "2 | CREATE QUERY x AS SELEKT item FROM bids;" in output
    assert "^" in output
    assert "Traceback" not in output


def test_a_mark_that_editors_write_before_utf_8_is_no_part_of_the_statements(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text("\ufeff" + STREAM)
    assert invoke("run", str(tmp_path / "script.sql"), "--host", "local", "--once")[0] == 0
    assert invoke("sql", "--host", "local", stdin="\ufeff" + STREAM)[0] == 0


@pytest.mark.parametrize("command", [("run", "--host", "local"), ("explain",), ("plan",)])
def test_a_file_that_is_not_text_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes("-- Übersicht".encode("latin-1"))
    code, output = invoke(command[0], str(tmp_path / "latin.sql"), *command[1:])
    assert code == 2
    assert "it is not UTF-8 text" in " ".join(output.split())


def test_a_missing_file_is_named() -> None:
    code, output = invoke("run", "no-such-file.sql")
    assert code == 2
    assert "no-such-file.sql" in output


def test_queries_of_the_checkpoint_that_the_file_no_longer_has_are_told(tmp_path: Path, write) -> None:
    stream = "CREATE STREAM s (id INT) FROM MEMORY;"
    more = "CREATE QUERY m AS SELECT id FROM s INTO MEMORY; CREATE RULE r ON s DO INSERT INTO CONSOLE;"
    kept = "CREATE QUERY n AS SELECT id FROM s INTO MEMORY; CREATE SINK k INTO CONSOLE; INSERT INTO k SELECT id FROM s;"
    with Session(tmp_path / "state", host="local") as session:
        session.execute(stream + kept + more, start=False)
    arguments = ("--host", "local", "--checkpoint", str(tmp_path / "state"), "--once")
    code, said = invoke("run", str(write(f"{stream} {kept}")), *arguments)
    assert code == 0
    assert [line for line in said.splitlines() if "earlier run" in line] == [
        "query m is of an earlier run with this checkpoint, and goes on (DROP QUERY m ends it)",
        "rule r is of an earlier run with this checkpoint, and goes on (DROP RULE r ends it)",
    ]
    code, said = invoke("run", str(write(stream + kept + more)), *arguments)
    assert (code, "earlier run" in said) == (0, False)


@pytest.mark.parametrize("arguments", ["repair --drop q", "repair --skip-file a.csv", "rescale --cores 2", "check"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_a_checkpoint_is_named_and_stays_as_it_is(
    arguments: str, is_there: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "wrong"
    if is_there:
        folder.mkdir()
    command, *options = arguments.split()
    code, said = invoke(command, "--checkpoint", str(folder), *options)
    assert (code, f"there is no checkpoint in {folder}" in said) == (1, True)
    assert (folder.exists(), list(tmp_path.rglob("*/*"))) == (is_there, [])


def test_an_interrupt_while_the_program_is_loaded_shows_no_traceback() -> None:
    code = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
if "now" in sys.argv:
    sys.meta_path.insert(0, Interrupt())
import headrace.cli.main
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    done = subprocess.run([sys.executable, "-c", code, "now"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    subprocess.run([sys.executable, "-c", code, "later"], check=True)


def test_explain_wants_a_file_or_a_query() -> None:
    code, output = invoke("explain")
    assert code == 2
    assert "-e" in output


def test_explain_shows_each_query_as_text(write) -> None:
    code, output = invoke("explain", write(STREAM + QUERY))
    assert code == 0, output
    assert "dear" in output
    assert "bids" in output


def test_explain_shows_each_query_as_json(write) -> None:
    code, output = invoke("explain", write(STREAM + QUERY), "--json")
    assert code == 0, output
    assert list(json.loads(output)) == ["dear"]


def test_explain_takes_a_query_over_the_streams_of_a_file(write) -> None:
    code, output = invoke("explain", write(STREAM + QUERY), "-e", "SELECT item FROM bids", "--json")
    assert code == 0, output
    assert list(json.loads(output)) == ["query"]


def test_an_unknown_column_is_pointed_at_in_the_file(write) -> None:
    code, output = invoke("explain", write(STREAM + "CREATE QUERY x AS SELECT colour FROM bids INTO MEMORY;\n"))
    assert code == 2
    assert "2 | CREATE QUERY x AS SELECT colour FROM bids INTO MEMORY;" in output
    assert " " * len("CREATE QUERY x AS SELECT ") + "^^^^^^" in output


def test_piped_statements_run_and_an_error_ends_them_with_its_code() -> None:
    code, output = invoke("sql", "--host", "local", stdin=STREAM + "SHOW STREAMS;\n\\help\nDESCRIBE nothing;\n")
    assert code == 2
    assert "bids" in output
    assert "Statements end with a semicolon" in output
    assert "nothing" in output


@pytest.mark.parametrize("word", ["quit", "exit;", "EXIT", "\\q", "\\quit ;"])
def test_piped_statements_end_where_the_text_says_so(word: str) -> None:
    code, output = invoke("sql", "--host", "local", stdin=STREAM + f"{word}\nDESCRIBE nothing;\n")
    assert code == 0, output
    assert "nothing" not in output


def test_a_query_may_read_a_stream_named_like_the_end() -> None:
    assert shell.is_command(" exit ; ")
    assert not shell.is_command("SELECT * FROM exit")
    assert not shell.is_command("exit_code")


@pytest.mark.parametrize("word", ["help", "HELP;", "?", "\\help", "\\h", "\\?"])
def test_help_is_asked_for_with_or_without_a_backslash(word: str) -> None:
    code, output = invoke("sql", "--host", "local", stdin=f"{word}\n")
    assert code == 0, output
    assert "Statements end with a semicolon" in output


def test_help_at_the_prompt_lists_every_statement_and_command() -> None:
    text = shell.help_text()
    listed = {*parser.STATEMENTS, *parser.SHOWN, *parser.DROPPED}
    assert listed - set(re.findall(r"[A-Z]{2,}", text)) == set()
    assert [command for command in completion.COMMANDS if f"{command} " not in text] == []
    assert max(map(len, text.splitlines())) <= 80


def test_the_examples_in_the_help_at_the_prompt_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("module")
    monkeypatch.setattr(module, "Class", GeometricMean, raising=False)
    monkeypatch.setattr(module, "function", str.lower, raising=False)
    monkeypatch.setitem(sys.modules, "module", module)
    with Session(host="local") as session:
        for group, entries in shell.GROUPS.items():
            for _, example in entries:
                if group != "Prompt":
                    session.execute(example)


def test_examples_in_help_name_files_that_exist() -> None:
    root = checks.checkout()
    for command in app.registered_commands:
        for name in re.findall(r"examples/\S+\.sql", command.epilog or ""):
            assert (root / name).is_file(), f"headrace {command.name} --help names {name}"


def test_the_name_in_help_is_the_one_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PROGRAM", "./headrace")
    assert "./headrace demo" in examples(("run", "demo"))
    monkeypatch.delenv("HEADRACE_PROGRAM")
    assert "\nheadrace demo \\[x]" in examples(("run", "demo [x]"))


def test_benchmarks_are_listed() -> None:
    code, output = invoke("bench")
    assert code == 0
    assert "core" in output
    assert "overload" in output


def test_an_unknown_benchmark_says_which_there_are() -> None:
    code, output = invoke("bench", "no-such-bench")
    assert code == 1
    assert "no benchmark 'no-such-bench'" in output


def test_only_benchmarks_that_run_for_a_time_take_minutes() -> None:
    code, output = invoke("bench", "crashes", "--minutes", "1")
    assert code == 2
    assert "crashes has no such option" in output


def test_a_benchmark_is_loaded_by_path_and_shown_as_a_table(tmp_path: Path) -> None:
    file = tmp_path / "benches" / "tiny.py"
    file.parent.mkdir()
    row = (
        "{'case': 'join', 'ours': 2.5, 'peers': {'plain': 1.0}, 'unit': 'M/s', 'ratio': 2.5, "
        "'target': 2, 'verdict': 'met'}"
    )
    file.write_text(f"def main(quick):\n    return {{'title': 'tiny', 'rows': [{row}]}}\n")
    figures = bench.load(file).main(quick=True)
    assert figures["rows"][0]["case"] == "join"
    assert table(figures["rows"]).row_count == 1


def test_arguments_choose_tests_but_not_checks() -> None:
    titles = [title for title, _ in checks.sections(["tests/unit"])]
    assert titles[:5] == ["ruff check", "ruff format", "mypy", "layers", "fast tests"]
    assert titles[5:] == ["slow tests", "tests in a browser", "tests on Spark and servers"]
    assert [title for title, _ in checks.sections(["-m", "slow"])][-1] == "tests"
    assert [title for title, _ in checks.sections([], fast=True)] == titles[:5]


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 3), (3, 4), (16, 6)])
def test_tests_wait_so_that_there_are_more_processes_than_cores(cores: int, count: int) -> None:
    assert checks.processes(6, cores) == count


def test_only_a_run_of_everything_tries_a_failed_test_again() -> None:
    everything = {title: command for title, command in checks.sections([]) if "tests" in title}
    assert all("--reruns" in command for command in everything.values())
    assert not any("--reruns" in command for _, command in checks.sections(["tests/unit"]))


def test_the_tests_of_a_mark_are_in_the_folders_of_its_section() -> None:
    root = checks.checkout()
    folders = [folder for _, _, among in checks.GROUPS for folder in among]
    assert all((root / folder).is_dir() for folder in folders)
    marks = re.compile(r"mark\.(spark|kafka|cluster|objects|browser)\b")
    marked = [file for file in (root / "tests").rglob("*.py") if marks.search(file.read_text())]
    assert len(marked) > 5
    assert [file for file in marked if not any(file.is_relative_to(root / folder) for folder in folders)] == []


def test_python_keeps_what_it_compiles_for_the_next_section() -> None:
    given = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/bin"}
    assert checks.environment(given) == {"PATH": "/bin"}


def test_fast_tests_have_one_thread_as_tasks_on_spark_have_and_slow_ones_have_all() -> None:
    assert checks.environment({}, title=checks.FAST) == {"POLARS_MAX_THREADS": "1"}
    assert checks.environment({"POLARS_MAX_THREADS": "2"}, title=checks.FAST) == {"POLARS_MAX_THREADS": "2"}
    assert checks.environment({}, title=checks.SLOW) == {}
    titles = [title for title, _ in checks.sections([])]
    assert {checks.FAST, checks.SLOW, checks.ON_SPARK} < set(titles)


def test_temporary_files_of_tests_are_in_memory_if_there_is_room_and_go_with_the_section(tmp_path: Path) -> None:
    (tmp_path / f"{checks.PREFIX}{2**22 + 1}-killed").mkdir()  # no process has such a number
    with checks.folder_in_memory(tmp_path, room=1) as folder:
        assert folder is not None
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o711, "servers of other users are in it"
        assert checks.environment({"TMPDIR": "/tmp"}, folder) == {"TMPDIR": str(folder)}
        (folder / "state").mkdir()
    assert not list(tmp_path.iterdir())
    with checks.folder_in_memory(tmp_path, room=2**80) as folder:
        assert folder is None
    with checks.folder_in_memory(tmp_path / "none", room=1) as folder:
        assert folder is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [('test -x "$1"', None), ("exit 3", "setup failed with code 3"), ("sleep 600", "not ready within 0 s")],
)
def test_a_server_that_tests_use_is_there_or_it_is_said_why_not(tmp_path: Path, line: str, reason: str | None) -> None:
    script = tmp_path / "setup"
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
    assert checks.obtain(script, patience=0 if "sleep" in line else 60) == reason


def test_the_demo_speaks_our_language() -> None:
    statements = parse(demo.statements())
    assert [statement.name.text for statement in statements if isinstance(statement, CreateStream)] == [
        "detectors",
        "probes",
    ]
    assert {"speed_map", "congestion"} == {
        statement.name.text for statement in statements if isinstance(statement, CreateQuery)
    }


def test_the_map_shows_the_newest_window_of_each_segment() -> None:
    picture = demo.SpeedMap()
    picture.take_speeds(
        1,
        [
            {"segment": 1, "speed": 50.0, "n": 3, "window_end": 20},
            {"segment": 1, "speed": 9.0, "n": 3, "window_end": 10},
        ],
    )
    picture.take_speeds(2, [{"segment": 2, "speed": 20.0, "n": 1, "window_end": 20}])
    assert "1:50 2:20" in picture.line()


def test_the_demo_says_how_long_it_takes() -> None:
    assert "until Ctrl-C" in demo.schedule(None)
    assert demo.schedule(20).endswith("then the traffic map runs for 20 s.")


def test_the_demo_ends_only_after_results_were_shown() -> None:
    picture = demo.SpeedMap()
    assert not picture.is_over(0.0)
    picture.take_speeds(1, [{"segment": 1, "speed": 50.0, "n": 3, "window_end": 20}])
    assert picture.is_over(0.0)
    assert not picture.is_over(None)


def test_the_map_is_drawn_with_its_figures() -> None:
    picture = demo.SpeedMap()
    picture.take_speeds(1, [{"segment": 3, "speed": 20.0, "n": 7, "window_end": 20}])
    picture.take_confirmed(1, [{"segment": 3, "n": 1234, "window_end": 20}])
    console = Console(width=120)
    with console.capture() as captured:
        console.print(picture.draw(120))
    assert "20.0 km/h" in captured.get()
    assert "1,234 slow pairs" in captured.get()


def test_a_file_runs_once_on_the_local_host(tmp_path: Path) -> None:
    (tmp_path / "bids.csv").write_text("at,item\n2026-01-01 00:00:01,1\n2026-01-01 00:00:12,1\n")
    file = tmp_path / "queries.sql"
    file.write_text(
        "CREATE STREAM bids (at TIMESTAMP, item INT) TIMESTAMP BY at "
        f"FROM FILES (path '{tmp_path / 'bids.csv'}', format 'csv');\n"
        "CREATE QUERY n AS SELECT count(*) AS n FROM bids [RANGE 10 SECONDS] "
        f"INTO FILES (path '{tmp_path / 'out'}', format 'csv');\n"
    )
    code, output = invoke("run", str(file), "--once", "--host", "local", "--checkpoint", str(tmp_path / "state"))
    assert code == 0, output
    rows = [line for part in sorted((tmp_path / "out").rglob("*.csv")) for line in part.read_text().splitlines()[1:]]
    assert rows == ["1", "1"]


def test_a_file_without_queries_says_so(write) -> None:
    code, output = invoke("run", write(STREAM), "--host", "local")
    assert code == 0
    assert "no query to run" in output


@pytest.mark.parametrize(
    ("codes", "code", "verdict"),
    [
        ((0, 0), 0, "all passed"),
        ((5, 0), 0, "all passed"),
        ((5, 5), 1, "no test matches"),
        ((0, 1), 1, "failed: b tests"),
    ],
)
def test_a_run_without_any_test_does_not_pass(
    codes: tuple[int, int], code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sections(arguments: list[str], *, fast: bool) -> list[tuple[str, list[str]]]:
        return [
            (title, [sys.executable, "-c", f"raise SystemExit({number})", "pytest"])
            for title, number in zip(("a tests", "b tests"), codes, strict=True)
        ]

    monkeypatch.setattr(checks, "sections", sections)
    assert (invoke("test", "--fast")[0], verdict in invoke("test", "--fast")[1]) == (code, True)


def test_an_error_of_the_operating_system_is_one_of_the_environment() -> None:
    with pytest.raises(typer.Exit) as ended, faults():
        Path("/dev/null/x").read_bytes()
    assert ended.value.exit_code == 1


def test_a_folder_that_was_deleted_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd {tmp_path / 'gone'} && rmdir ../gone && {sys.executable} -m headrace --version"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.strip().splitlines()[-1:]) == (
        1,
        ["the current folder was deleted; change to another one"],
    )


@pytest.mark.parametrize("words", [["--checkpoint", ""], ["--checkpoint="]])
def test_an_empty_checkpoint_is_not_the_current_folder(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["headrace", "check", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
