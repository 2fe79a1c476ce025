"""The files under deploy/: as far as can be seen without a cluster, they are what Kubernetes and Headrace take."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from headrace.cli.main import app
from headrace.cli.test import checkout
from headrace.hosts.spark.starting.launch import Launch, parse_settings
from headrace.hosts.spark.starting.settings import check_needed
from headrace.session import Session
from headrace.storage.location import ObjectPath, location

DEPLOY = checkout() / "deploy"
#: Kinds of objects with the version of their interface, and the fields that each may have beside the usual ones.
KINDS = {
    ("v1", "ServiceAccount"): set[str](),
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules"},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {"roleRef", "subjects"},
    ("v1", "ConfigMap"): {"data"},
    ("v1", "Service"): {"spec"},
    ("apps/v1", "StatefulSet"): {"spec"},
}
POD = {"serviceAccountName", "terminationGracePeriodSeconds", "containers", "volumes"}
CONTAINER = {"name", "image", "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts"}
#: A name that is also part of a host name.
LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.fixture(scope="module")
def manifest() -> dict[tuple[str, str], Any]:
    """The objects of the manifest by kind and name."""
    listed = json.loads((DEPLOY / "kubernetes.json").read_text())
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    objects = {(item["kind"], item["metadata"]["name"]): item for item in listed["items"]}
    assert len(objects) == len(listed["items"])
    return objects


@pytest.fixture(scope="module")
def pod(manifest: dict[tuple[str, str], Any]) -> Any:
    return manifest["StatefulSet", "headrace"]["spec"]["template"]["spec"]


def test_objects_have_the_fields_of_their_kinds(manifest: dict[tuple[str, str], Any], pod: Any) -> None:
    for (kind, name), item in manifest.items():
        assert item.keys() == {"apiVersion", "kind", "metadata"} | KINDS[item["apiVersion"], kind]
        assert LABEL.fullmatch(name)
    (container,) = pod["containers"]
    assert pod.keys() <= POD
    assert container.keys() <= CONTAINER
    executor = json.loads(manifest["ConfigMap", "headrace-executor"]["data"]["executor.json"])
    assert (executor["apiVersion"], executor["kind"]) == ("v1", "Pod")
    assert executor["spec"].keys() <= POD
    assert executor["spec"]["containers"][0].keys() <= CONTAINER


def test_objects_find_each_other(manifest: dict[tuple[str, str], Any], pod: Any) -> None:
    driver, service = manifest["StatefulSet", "headrace"]["spec"], manifest["Service", "headrace"]["spec"]
    labels = driver["template"]["metadata"]["labels"]
    assert service["selector"] == driver["selector"]["matchLabels"] == labels
    assert driver["serviceName"] == "headrace", "else the name of the pod would not lead to it"
    binding = manifest["RoleBinding", "headrace"]
    assert ("Role", binding["roleRef"]["name"]) in manifest
    for subject in binding["subjects"]:
        assert (subject["kind"], subject["name"]) in manifest
    assert ("ServiceAccount", pod["serviceAccountName"]) in manifest
    (container,) = pod["containers"]
    assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"] for volume in pod["volumes"]]
    for volume in pod["volumes"]:
        assert "emptyDir" in volume or ("ConfigMap", volume["configMap"]["name"]) in manifest
    executor = json.loads(manifest["ConfigMap", "headrace-executor"]["data"]["executor.json"])
    assert executor["spec"]["containers"][0]["envFrom"] == container["envFrom"], "both reach the store"
    assert executor["metadata"]["labels"]["role"] != labels["role"], "the service is that of the driver alone"


def test_the_driver_is_a_command_of_ours_with_settings_that_fit(
    manifest: dict[tuple[str, str], Any], pod: Any, tmp_path: Path
) -> None:
    (container,) = pod["containers"]
    variables = {entry["name"] for entry in container["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= variables
    words: list[str] = container["command"] + container["args"]
    program, name, file, *options = words
    commands: Any = typer.main.get_command(app)
    queries = manifest["ConfigMap", "headrace-queries"]["data"]["queries.sql"]
    assert (program, file) == ("headrace", "/etc/headrace/queries.sql")
    known = {option: parameter for parameter in commands.commands[name].params for option in parameter.opts}
    given = [option.partition("=") for option in options]
    assert [option for option, _, _ in given if option not in known] == []
    settings = parse_settings([value for option, _, value in given if option == "--conf"])
    check_needed(settings)
    values = {option: value for option, _, value in given if option != "--conf"}
    Launch(master=values["--master"], conf=settings, executors=int(values["--executors"]))
    assert isinstance(location(values["--checkpoint"]), ObjectPath)
    assert settings["spark.kubernetes.container.image"] == container["image"]
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] == pod["serviceAccountName"]
    ports = {port["port"] for port in manifest["Service", "headrace"]["spec"]["ports"]}
    assert {int(settings[name]) for name in ("spark.driver.port", "spark.driver.blockManager.port")} == ports
    assert {port["containerPort"] for port in container["ports"]} == ports
    (tmp_path / "bids").mkdir()
    with Session(host="local") as session:
        session.execute(queries.replace("s3a://lake", str(tmp_path)), start=False)


def test_the_image_has_what_the_requirements_say() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    instructions = [line for line in lines if line and not line.startswith("#")]
    assert {line.split()[0] for line in instructions} == {"ARG", "FROM", "USER", "RUN", "COPY", "ENV"}
    for line in instructions:
        if line.startswith("COPY"):
            *sources, _ = shlex.split(line)[1:]
            assert all((checkout() / source).exists() for source in sources)
        for name in re.findall(r"requirements/(\S+\.txt)", line):
            assert (checkout() / "requirements" / name).is_file()
    assert instructions[-1] == "USER spark", "nothing runs as root"


def test_the_service_of_systemd_runs_a_command_of_ours_and_gives_it_time_to_stop() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DEPLOY / "headrace.service").read_text())
    service = unit["Service"]
    program, command, *given = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("headrace", "serve")
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    known = {name for parameter in serve.params for name in parameter.opts}
    assert {word for word in given if word.startswith("--")} <= known
    assert given[given.index("--checkpoint") + 1].startswith(f"/var/lib/{service['StateDirectory']}/")
    assert service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) >= 60
