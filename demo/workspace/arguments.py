"""Arguments of a call as the clients send them: query, form or JSON, to one dictionary."""

import json
from typing import Any

from aiohttp import web

from demo.workspace.errors import SlackError
from demo.workspace.state import Json

JSON_FIELDS = ("blocks", "attachments", "metadata", "view", "files", "message")
MALFORMED = {"blocks": "invalid_blocks_format", "metadata": "invalid_metadata_format", "view": "invalid_arguments"}


async def read_arguments(request: web.Request) -> Json:
    """The query and the body as one; values of a form stay strings except the fields that hold JSON."""
    arguments: Json = dict(request.query)
    if request.content_type == "application/json":
        body = await request.text()
        arguments.update(_object(body) if body else {})
    elif request.can_read_body:
        arguments.update({key: str(value) for key, value in (await request.post()).items()})
    return arguments


def decode_json_fields(arguments: Json) -> Json:
    """Raises SlackError when a field that must be JSON is not."""
    return {key: _decoded(key, value) if key in JSON_FIELDS else value for key, value in arguments.items()}


def _object(body: str) -> Json:
    try:
        value = json.loads(body)
    except ValueError as error:
        raise SlackError("invalid_json") from error
    if not isinstance(value, dict):
        raise SlackError("json_not_object")
    return value


def _decoded(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value:
        return None
    try:
        return json.loads(value)
    except ValueError as error:
        raise SlackError(MALFORMED.get(key, "invalid_arguments")) from error


def text(arguments: Json, name: str) -> str:
    """An empty string when it is missing."""
    value = arguments.get(name)
    return "" if value is None else str(value)


def flag(arguments: Json, name: str, default: bool = False) -> bool:
    value = arguments.get(name)
    return default if value is None or value == "" else str(value).lower() in ("1", "true")


def whole(arguments: Json, name: str, default: int) -> int:
    value = text(arguments, name)
    if not value:
        return default
    if not value.isdigit():
        raise SlackError("invalid_arguments", [f"must be a number [json-pointer:/{name}]"])
    return int(value)
