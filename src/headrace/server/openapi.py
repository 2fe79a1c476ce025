"""The OpenAPI document of a table of routes; schemas come from the structs that go in and out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace import __version__
from headrace.server.route import Route
from headrace.server.views.live import LiveMessage
from headrace.server.views.problem import Problem

_NAME = re.compile(r"\{(\w+)\}")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of routes."""
    types = [Problem, LiveMessage]
    types += [kind for route in routes for kind in (route.asks, route.answers) if kind not in (None, Any)]
    unique = list({repr(kind): kind for kind in types}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template="#/components/schemas/{name}")
    by_type = {repr(kind): schema for kind, schema in zip(unique, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.method != "WS":
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    live = [route for route in routes if route.method == "WS"]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "x-live": {
            route.path: {"description": route.sentence, "messages": by_type[repr(LiveMessage)]} for route in live
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _NAME.findall(route.path)
    ]
    parameters += [
        {"name": each.name, "in": "query", "required": False, "description": each.sentence,
         "schema": {"type": each.kind}}
        for each in route.parameters
    ]  # fmt: skip
    answer = {} if route.answers is Any else schemas.get(repr(route.answers), {})
    operation: dict[str, Any] = {
        "summary": route.sentence,
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-zA-Z]+', '_', route.path)}".rstrip("_"),
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {route.media: {"schema": answer}}},
            "default": {
                "description": "A problem.",
                "content": {"application/problem+json": {"schema": schemas[repr(Problem)]}},
            },
        },
        "security": [] if route.role is None else [{"token": []}],
        "x-role": route.role,
    }
    if route.asks is not None:
        content = {"application/json": {"schema": schemas[repr(route.asks)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation
