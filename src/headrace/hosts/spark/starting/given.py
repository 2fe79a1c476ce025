"""What the user has told Spark outside of Headrace: the files, options and variables that `spark-submit` reads.

In this order, as Spark does: the options in PYSPARK_SUBMIT_ARGS; the file that they name, or else `spark-defaults.conf`
in SPARK_CONF_DIR or in the folder `conf` of Spark; for a few settings a variable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import HostFault

#: Options of spark-submit that are settings with another name, as far as Headrace would choose a value itself.
_OPTIONS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--num-executors": "spark.executor.instances",
    "--executor-cores": "spark.executor.cores",
    "--executor-memory": "spark.executor.memory",
}
#: Variables that count if nothing else says the setting.
_VARIABLES = {"MASTER": "spark.master", "SPARK_DRIVER_MEMORY": "spark.driver.memory"}
_CONF, _FILE = ("--conf", "-c"), "--properties-file"


def given_settings(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the settings that a Spark which is started in `home` gets from others than Headrace."""
    options, file = _submit_options(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    folder = Path(environ["SPARK_CONF_DIR"]) if environ.get("SPARK_CONF_DIR") else home / "conf"
    if file is not None:
        properties = _properties(Path(file), is_required=True)
    else:
        properties = _properties(folder / "spark-defaults.conf")
    variables = {name: environ[variable] for variable, name in _VARIABLES.items() if environ.get(variable)}
    return {**variables, **properties, **options}


def submitted_master(environ: Mapping[str, str]) -> str | None:
    """Return the master that the options of PYSPARK_SUBMIT_ARGS name, which no setting can change."""
    return _submit_options(environ.get("PYSPARK_SUBMIT_ARGS", ""))[0].get("spark.master")


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings in a file of Java properties; others than those of Spark are left out, as Spark does."""
    settings: dict[str, str] = {}
    for line in re.sub(r"\\\n[ \t]*", "", text).splitlines():
        match = re.match(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+|$)(.*)", line)
        if match:
            settings[match[1]] = match[2].strip()
    return settings


def _submit_options(text: str) -> tuple[dict[str, str], str | None]:
    """Return the settings among options of spark-submit, and the file of properties that they name."""
    settings: dict[str, str] = {}
    file = None
    words = iter(shlex.split(text))
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in (*_OPTIONS, *_CONF, _FILE):
            continue
        value = value if equals else next(words, "")
        if option in _CONF:
            name, _, value = value.partition("=")
            settings[name] = value
        elif option == _FILE:
            file = value
        else:
            settings[_OPTIONS[option]] = value
    return settings, file


def _properties(file: Path, *, is_required: bool = False) -> dict[str, str]:
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not is_required:
            return {}
        raise HostFault(f"PYSPARK_SUBMIT_ARGS names {file}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HostFault(f"the settings of Spark in {file} cannot be read: {error}") from error
