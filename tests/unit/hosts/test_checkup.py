"""A look at a checkpoint says what it holds and what is wrong with it, and changes nothing."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.driver.offset import Offset, StreamAt
from headrace.errors import HostFault
from headrace.hosts.checkup import Checkup, check_up
from headrace.session import Session
from headrace.storage import sealed
from headrace.storage.format import FORMAT

STATEMENTS = """
CREATE STREAM s (n INT, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY sums AS SELECT sum(n) AS total FROM s [RANGE 10 SECONDS] INTO MEMORY;
CREATE QUERY rows AS SELECT n FROM s INTO FILES (path '{out}');
STOP QUERY sums;
"""


def content(checkpoint: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(checkpoint.rglob("*")) if path.is_file()}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    with Session(state, host="local") as session:
        session.execute(STATEMENTS.format(out=tmp_path / "out"))
        session.push("s", [{"n": 1, "at": "2026-01-01 00:00:01"}])
        while session.deployment.step():  # type: ignore[attr-defined]
            pass
        session.push("s", [{"n": 2, "at": "2026-01-01 00:00:02"}])
    return state


@pytest.fixture
def on_spark(state: Path) -> Path:
    """The same checkpoint as Spark would have it: the offset of one micro-batch more than is committed."""
    (state / "local.msgpack").unlink()
    log(state, "offsets", 0, Offset(commands=4, streams={"s": StreamAt(at=0, fresh=0)}))
    log(state, "offsets", 1, Offset(commands=4, streams={"s": StreamAt(at=2, fresh=0)}))
    log(state, "commits", 0, None)
    sealed.replace(state / "buckets.json", b"[0,1]")
    return state


def log(state: Path, name: str, batch: int, offset: Offset | None) -> None:
    """Write a file as Spark does, with its checksum."""
    lines = ["v1", "{}", *([] if offset is None else [msgspec.json.encode(offset).decode()])]
    data = "\n".join(lines).encode()
    directory = state / "spark" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(batch)).write_bytes(data)
    sums = [zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512)]
    (directory / f".{batch}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))


def test_a_sound_checkpoint_has_no_problems_and_stays_as_it_is(state: Path, tmp_path: Path) -> None:
    before = content(state)
    checkup = check_up(state)
    assert content(state) == before
    assert checkup.problems == ()
    assert (checkup.format, checkup.host, checkup.in_use, checkup.leftovers) == (FORMAT, "local", False, ())
    assert [(query.name, query.state, query.sinks) for query in checkup.queries] == [
        ("rows", "on", (f"FILES {tmp_path / 'out'}",)),
        ("sums", "off", ("MEMORY",)),
    ]
    assert checkup.definitions == 3
    assert checkup.committed is not None
    assert checkup.sizes["commands"].files == len(list((state / "commands").iterdir()))


def test_a_checkpoint_is_looked_at_beside_its_owner(tmp_path: Path) -> None:
    with Session(tmp_path, host="local") as session:
        session.execute(STATEMENTS.format(out=tmp_path / "out"))
        checkup = check_up(tmp_path)
        assert checkup.in_use
        assert "process" in str(checkup.owner)
        assert checkup.problems == ()
        session.execute("START QUERY sums")  # it is still the owner
    assert not check_up(tmp_path).in_use


def test_the_micro_batch_that_is_repeated_is_named(on_spark: Path) -> None:
    checkup = check_up(on_spark)
    assert checkup.problems == ()
    assert (checkup.host, checkup.committed, checkup.repeated) == ("spark", 0, 1)
    assert checkup.streams == {"s": 2}


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rename(path: Path) -> None:
    path.rename(path.with_name("000000000001-7.arrow"))


def one(checkup: Checkup) -> str:
    (problem,) = checkup.problems
    return problem


@pytest.mark.parametrize(
    ("what", "how", "problem"),
    [
        ("commands/00000000.json", cut, "00000000.json is damaged"),
        ("progress.json", cut, "progress.json is damaged"),
        ("local.msgpack", cut, "local.msgpack is damaged"),
        ("sources/s/000000000001-1.arrow", cut, "000000000001-1.arrow is damaged"),
        ("sources/s/000000000001-1.arrow", rename, "has 1 rows instead of 7"),
        ("sources/s/000000000001-1.arrow", damage, "000000000001-1.arrow is damaged: its checksum is wrong"),
        ("commands/00000000.json", damage, "00000000.json is damaged: its checksum is wrong"),
        ("format.json", lambda path: path.write_text('{"format":99}'), "it has format 99"),
    ],
)
def test_a_damaged_file_is_a_problem(state: Path, what: str, how: Callable[[Path], None], problem: str) -> None:
    assert (state / what).exists()
    how(state / what)
    assert problem in one(check_up(state))


def test_a_gap_in_the_command_log_is_a_problem(on_spark: Path) -> None:
    (on_spark / "commands" / "00000009.json").write_text('{"type":"drain"}')
    (problem,) = check_up(on_spark).problems
    assert "is missing: there are later files of commands, such as 00000009.json" in problem


def test_offsets_that_do_not_fit_the_rest_are_problems(on_spark: Path) -> None:
    log(on_spark, "offsets", 1, Offset(commands=9, streams={"s": StreamAt(at=2, fresh=0)}))
    assert "planned with 9 commands, and there are 4" in one(check_up(on_spark))
    log(on_spark, "offsets", 1, Offset(commands=4, streams={"s": StreamAt(at=7, fresh=0)}))
    assert "was deleted before it was read" in one(check_up(on_spark))
    damage(on_spark / "spark" / "offsets" / "0")
    assert any("differs from its checksum" in problem for problem in check_up(on_spark).problems)
    (on_spark / "spark" / "offsets" / "0").unlink()
    assert any("offsets/0 is missing" in problem for problem in check_up(on_spark).problems)
    log(on_spark, "commits", 5, None)
    assert any("planned micro-batch 1 and committed 5" in problem for problem in check_up(on_spark).problems)


@pytest.mark.parametrize("lost", ["all", "a part"])
def test_a_catalog_that_does_not_define_what_runs_is_a_problem(state: Path, lost: str) -> None:
    catalog = state / "catalog.jsonl"
    lines = catalog.read_text().splitlines(keepends=True)
    if lost == "all":
        catalog.unlink()
    else:
        catalog.write_text("".join(line for line in lines if '"rows"' not in line))
    problem = one(check_up(state))
    assert "does not define rows" in problem
    assert ("sums" in problem) is (lost == "all")
    assert CliRunner().invoke(app, ["check", "--checkpoint", str(state)]).exit_code == 1


def test_lost_numbers_of_buckets_are_a_problem(on_spark: Path) -> None:
    (on_spark / "buckets.json").unlink()
    assert "buckets.json is missing" in one(check_up(on_spark))


def test_a_damaged_state_of_spark_is_a_problem(on_spark: Path) -> None:
    path = on_spark / "spark" / "state" / "1.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"abcdefgh" * 100)
    assert check_up(on_spark).problems == ()
    damage(path)
    assert "1.zip is damaged" in one(check_up(on_spark))


def test_left_overs_are_listed_and_no_problem(state: Path, tmp_path: Path) -> None:
    (state / ".progress.json.12.tmp").touch()
    (tmp_path / "out" / "_staging").mkdir(parents=True)
    (tmp_path / "out" / "_staging" / "7-a.parquet").touch()
    checkup = check_up(state)
    assert checkup.problems == ()
    assert checkup.leftovers == (".progress.json.12.tmp", str(tmp_path / "out" / "_staging" / "7-a.parquet"))


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostFault, match="there is no checkpoint in"):
        check_up(tmp_path)


def invoke(*arguments: object) -> tuple[int, str]:
    environment = {"COLUMNS": "200", "TERM": "dumb", "HEADRACE_DEBUG": ""}
    result = CliRunner(env=environment).invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_the_command_check_exits_with_1_if_there_is_a_problem(state: Path) -> None:
    code, output = invoke("check", "--checkpoint", state)
    assert code == 0
    assert "no problems" in output
    assert "off    query sums -> MEMORY" in output
    assert "queries and rules: " in output
    cut(state / "progress.json")
    code, output = invoke("check", "--checkpoint", state)
    assert code == 1
    assert "problem: " in output
    code, output = invoke("check", "--checkpoint", state, "--json")
    assert code == 1
    assert len(json.loads(output)["problems"]) == 1
    assert invoke("check", "--checkpoint", state / "nothing")[0] == 1


def test_the_commands_backup_and_restore_say_what_is_beside_the_checkpoint(state: Path, tmp_path: Path) -> None:
    code, output = invoke("backup", "--checkpoint", state, "--to", tmp_path / "copy")
    assert code == 0
    assert f"copy them with it: {tmp_path / 'out'}" in output
    code, output = invoke("restore", "--from", tmp_path / "copy", "--checkpoint", tmp_path / "again")
    assert code == 0
    assert "FILES sinks may hold later results" in output
    assert check_up(tmp_path / "again").problems == ()
    assert invoke("backup", "--checkpoint", state, "--to", tmp_path / "copy")[0] == 1
