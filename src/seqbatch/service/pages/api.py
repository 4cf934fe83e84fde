"""The page of the HTTP API: every call of openapi.json with an example, from this server alone."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.session import Visiting
from seqbatch.service.roles import API, holders

router = APIRouter(include_in_schema=False)

#: The longest example of a body that is shown.
LONGEST = 1_500


@dataclass(frozen=True)
class Endpoint:
    """A call of the API.

    Parameters
    ----------
    method, path, summary, text
        The call and its description.
    roles
        The roles that may make it; empty if it needs no token.
    parameters
        The name, the description and whether it is required, of each parameter.
    body
        An example of its body, as JSON; "" for none.
    answers
        The status and the description of each answer.
    """

    method: str
    path: str
    summary: str
    text: str
    roles: tuple[str, ...]
    parameters: tuple[tuple[str, str, bool], ...]
    body: str
    answers: tuple[tuple[str, str], ...]

    @property
    def curl(self) -> str:
        """The call as a command, for a server and a token in variables."""
        lines = [f'curl -X {self.method} "$SEQBATCH_URL{self.path}"']
        lines += ['-H "Authorization: Bearer $SEQBATCH_TOKEN"'] if self.roles else []
        lines += ["-H 'Content-Type: application/json'", "-d @body.json"] if self.body else []
        return " \\\n  ".join(lines)


@router.get("/api")
async def api(request: Request, visitor: Visiting) -> Response:  # noqa: ARG001
    """Show the calls of the API by topic."""
    return page(request, "api.html", topics=topics(request.app))


@cache
def topics(app: FastAPI) -> dict[str, list[Endpoint]]:
    """Return the calls by topic, as openapi.json describes them."""
    schema, made = app.openapi(), dict[str, list[Endpoint]]()
    for path, methods in schema["paths"].items():
        for method, told in methods.items():
            topic = (told.get("tags") or ["service"])[0]
            made.setdefault(topic, []).append(_endpoint(schema, method.upper(), path, told))
    return made


def _endpoint(
    schema: Mapping[str, Any], method: str, path: str, told: Mapping[str, Any]
) -> Endpoint:
    needed = API.get((method, path))
    return Endpoint(
        method=method, path=path, summary=told.get("summary", ""),
        text=_line(told.get("description", "")), roles=holders(needed) if needed else (),
        parameters=tuple(
            (one["name"], _line(one.get("description", "")), bool(one.get("required")))
            for one in told.get("parameters", ())
        ),
        body=_body(schema, told.get("requestBody", {})),
        answers=tuple(
            (status, _line(one.get("description", ""))) for status, one in told["responses"].items()
        ),
    )  # fmt: skip


def _line(text: str) -> str:
    """Return a description on one line, without marks of code."""
    return " ".join(text.replace("`", "").split())


def _body(schema: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Return an example of a JSON body; "" if a call takes none."""
    content = told.get("content", {}).get("application/json")
    if content is None:
        return ""
    text = json.dumps(_example(schema, content["schema"]), indent=2, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n…"


def _example(schema: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema: its example, its default, or its parts."""
    if "$ref" in own:
        name = own["$ref"].rpartition("/")[2]
        return _example(schema, schema["components"]["schemas"][name])
    if own.get("examples"):
        return own["examples"][0]
    if "properties" in own:
        return dict(_parts(schema, own))
    return own.get("default")


def _parts(schema: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields that are required or have an example."""
    for name, part in own["properties"].items():
        if name in own.get("required", ()) or part.get("examples"):
            yield name, _example(schema, part)
