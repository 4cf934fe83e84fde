"""What the OpenAPI schema says of bodies that routes read themselves."""

from typing import Any

from pydantic import BaseModel

from seqbatch.service.answering import KEY, LONGEST_KEY
from seqbatch.service.bodies import FILES, JSON, needs_body

_FILE = {"schema": {"type": "string", "format": "binary"}}


def reads(model: type[BaseModel], *, files: bool = False, changes: bool = True) -> dict[str, Any]:
    """Return what a route's schema says of its body, and of the key of a call that may come again.

    Parameters
    ----------
    model
        What a body of JSON must be.
    files
        Whether a file may come instead.
    changes
        Whether the call changes anything, so that it may carry a key.
    """
    schema = model.model_json_schema()
    content: dict[str, Any] = {JSON: {"schema": schema}}
    example = {
        name: part["examples"][0]
        for name, part in schema["properties"].items()
        if "examples" in part and name in schema.get("required", [])
    }
    if example:
        content[JSON]["example"] = example
    if files:
        content |= dict.fromkeys(FILES, _FILE)
    body = {"required": needs_body(model), "content": content}
    described: dict[str, Any] = {"requestBody": body}
    if changes:
        described["parameters"] = [
            {
                "name": KEY,
                "in": "header",
                "required": False,
                "description": "Names the call: the same call under the same key is made once, and "
                "gets the same answer again for seven days.",
                "schema": {
                    "type": "string", "minLength": 1, "maxLength": LONGEST_KEY,
                    "pattern": "^[!-~]+$",
                },
            }
        ]  # fmt: skip
    return described


def sends(*media_types: str) -> dict[str, Any]:
    """Return what a route's schema says of an answer that is a file."""
    content = {
        kind: {"schema": {"type": "object"}} if kind == JSON else _FILE for kind in media_types
    }
    return {"description": "The file.", "content": content}
