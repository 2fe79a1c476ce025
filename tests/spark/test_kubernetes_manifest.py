"""The manifest for Kubernetes has no field that the client of Kubernetes in Spark does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from py4j.java_collections import JavaList
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from headrace.cli.test import checkout

MANIFEST = checkout() / "deploy" / "kubernetes.json"
MODEL = "io.fabric8.kubernetes.api.model."
#: Gives what was read and has no place of its own.
OTHERS = "getAdditionalProperties"


def unknown_fields(item: Any, place: str = "") -> Iterator[str]:
    """Yield the fields of an object, and of those in it, that its class has no place for."""
    if isinstance(item, JavaList):
        for number, part in enumerate(item):
            yield from unknown_fields(part, f"{place}[{number}]")
    elif isinstance(item, JavaObject) and str(item.getClass().getName()).startswith(MODEL):
        methods = [method for method in item.getClass().getMethods() if method.getParameterCount() == 0]
        names = {str(method.getName()) for method in methods}
        if OTHERS in names:
            yield from (f"{place}.{name}" for name in item.getAdditionalProperties())
        for name in sorted(names - {OTHERS, "getClass", "getKind", "getApiVersion"}):
            if name.startswith("get"):
                yield from unknown_fields(getattr(item, name)(), f"{place}.{name[3].lower()}{name[4:]}")


def test_every_field_is_one_that_kubernetes_knows(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    parser = jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()
    listed = json.loads(MANIFEST.read_text())
    pods = [text for item in listed["items"] for name, text in item.get("data", {}).items() if name.endswith(".json")]
    assert len(pods) == 1
    for text in (*(json.dumps(item) for item in listed["items"]), *pods):
        item = parser.unmarshal(text)
        assert item.getKind() == json.loads(text)["kind"]
        assert list(unknown_fields(item)) == []
    (driver,) = (item for item in listed["items"] if item["kind"] == "StatefulSet")
    driver["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    assert list(unknown_fields(parser.unmarshal(json.dumps(driver)))) == [
        ".spec.template.spec.containers[0].volumeMount"
    ]
