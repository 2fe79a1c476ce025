"""How to reach object stores: what Spark's configuration says of S3 and HDFS, so that one setting serves both.

Credentials are not among these settings. Each process finds them where its cloud puts them: in the environment, or in
the role of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from headrace.storage.hdfs.settings import is_of_hdfs, of_machine
from headrace.storage.location import ObjectPath

_PREFIX = "spark.hadoop."
#: Settings of Hadoop's S3 client that matter here as well.
ENDPOINT = "fs.s3a.endpoint"
REGION = "fs.s3a.endpoint.region"
PATH_STYLE = "fs.s3a.path.style.access"
SECURE = "fs.s3a.connection.ssl.enabled"
SETTINGS = (ENDPOINT, REGION, PATH_STYLE, SECURE)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_CONNECT, _ANSWER = timedelta(seconds=5), timedelta(seconds=60)

_given: dict[str, str] = {}


def configure(settings: Mapping[str, str]) -> None:
    """Take over what Spark's configuration says of stores; keys may begin with `spark.hadoop.`."""
    for key, value in settings.items():
        name = key.removeprefix(_PREFIX)
        if name in SETTINGS or is_of_hdfs(name):
            _given[name] = value


def configured() -> dict[str, str]:
    """Return the settings, for other processes; the environment counts where Spark's configuration says nothing."""
    environ = {
        ENDPOINT: next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), ""),
        REGION: next((os.environ[name] for name in _REGIONS if os.environ.get(name)), ""),
    }
    known = of_machine() | {name: value for name, value in environ.items() if value} | _given
    if known.get(ENDPOINT):
        known.setdefault(PATH_STYLE, "true")  # a server of one's own rarely has a host name for each bucket
    return known


def for_spark() -> dict[str, str]:
    """Return the settings of S3 as those of a Spark session; it reads those of Hadoop itself."""
    return {_PREFIX + name: value for name, value in configured().items() if name in SETTINGS}


def store_options(at: ObjectPath) -> dict[str, Any]:
    """Return the options of obstore's client for a bucket."""
    known = configured() if at.scheme == "s3a" else {}
    endpoint = known.get(ENDPOINT, "")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if known.get(SECURE) == 'false' else 'https'}://{endpoint}"
    config: dict[str, Any] = {}
    if endpoint:
        config["endpoint"] = endpoint
    if region := known.get(REGION):
        config["region"] = region
    elif endpoint:
        config["region"] = "us-east-1"  # any will do for a server of one's own
    if known.get(PATH_STYLE) == "false":
        config["virtual_hosted_style_request"] = True
    return {
        **({"config": config} if config else {}),
        "client_options": {"allow_http": True, "connect_timeout": _CONNECT, "timeout": _ANSWER},
        "retry_config": {"max_retries": 0},  # requests are repeated here, where they are counted
    }
