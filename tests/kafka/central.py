"""Prints the address of Maven Central that the resolver in Spark's jars goes by."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark

RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"


def central() -> str:
    """The default root of the resolver, as its class has it."""
    jar = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    found = re.search(rb"https://[\w.]+/maven2", zipfile.ZipFile(jar).read(RESOLVER))
    if found is None:
        raise SystemExit("kafka: Spark's resolver names no repository; set MAVEN_CENTRAL")
    return found.group().decode()


if __name__ == "__main__":
    print(central())  # noqa: T201  a script
