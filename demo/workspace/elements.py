"""Interactive elements in blocks: finding one as a person does, and the values that inputs hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demo.workspace.state import Json

TEXT_INPUTS = ("plain_text_input", "number_input", "email_text_input", "url_text_input")
# element type -> field that holds its value, and field that holds its first value
VALUE_FIELDS = {
    **dict.fromkeys(TEXT_INPUTS, ("value", "initial_value")),
    "rich_text_input": ("rich_text_value", "initial_value"),
    "static_select": ("selected_option", "initial_option"),
    "external_select": ("selected_option", "initial_option"),
    "radio_buttons": ("selected_option", "initial_option"),
    "checkboxes": ("selected_options", "initial_options"),
    "multi_static_select": ("selected_options", "initial_options"),
    "multi_external_select": ("selected_options", "initial_options"),
    "users_select": ("selected_user", "initial_user"),
    "multi_users_select": ("selected_users", "initial_users"),
    "channels_select": ("selected_channel", "initial_channel"),
    "multi_channels_select": ("selected_channels", "initial_channels"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "multi_conversations_select": ("selected_conversations", "initial_conversations"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
    "file_input": ("files", "initial_files"),
}


@dataclass(frozen=True)
class Placed:
    """An element and the block that holds it."""

    block: Json
    element: Json

    @property
    def block_id(self) -> str:
        return str(self.block["block_id"])

    @property
    def action_id(self) -> str:
        return str(self.element.get("action_id", ""))

    @property
    def label(self) -> str:
        text = self.element.get("text") or self.element.get("placeholder") or {}
        return str(text.get("text", "")) if isinstance(text, dict) else str(text)


def placed_elements(blocks: list[Json]) -> Iterator[Placed]:
    """Everything that a person can press, choose or fill in, from top to bottom."""
    for block in blocks:
        parts = [*_listed(block, "elements"), *_listed(block, "actions")]
        parts += [block[field] for field in ("accessory", "element") if isinstance(block.get(field), dict)]
        if block.get("type") in ("carousel",):
            yield from placed_elements(parts)
            continue
        yield from (Placed(block, element) for element in parts if element.get("action_id"))
        yield from placed_elements(_listed(block, "child_blocks"))


def find_element(blocks: list[Json], name: str, block_id: str | None = None, value: str | None = None) -> Placed:
    """By action_id or by the words on it. Raises LookupError when there is none, or more than one."""
    found = [
        placed
        for placed in placed_elements(blocks)
        if name in (placed.action_id, placed.label)
        and block_id in (None, placed.block_id)
        and value in (None, placed.element.get("value"))
    ]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{placed.action_id} [{placed.label}]" for placed in placed_elements(blocks))
    problem = "no such element" if not found else f"{len(found)} such elements, name the block_id or the value"
    raise LookupError(f"{name}: {problem}; there are: {there or 'none'}")


def find_option(element: Json, name: str) -> Json:
    """By value or by its words. Raises LookupError."""
    options = [*_listed(element, "options")]
    for group in _listed(element, "option_groups"):
        options += _listed(group, "options")
    for option in options:
        if name in (option.get("value"), option["text"]["text"]):
            return option
    words = ", ".join(str(option["text"]["text"]) for option in options)
    raise LookupError(f"{name}: no such option; there are: {words}")


def first_value(element: Json) -> Json:
    """The state of an input that nobody has touched."""
    field, initial = VALUE_FIELDS[element["type"]]
    empty: Any = [] if field.endswith("options") else None
    return {"type": element["type"], field: element.get(initial, empty)}


def filled_value(element: Json, value: Any) -> Json:
    """What the state says after a person gave `value`: text, the words of an option, or a list of them."""
    kind = element["type"]
    if kind not in VALUE_FIELDS:
        raise LookupError(f"{element.get('action_id')}: a {kind} holds no value")
    field, _ = VALUE_FIELDS[kind]
    if field == "selected_option":
        value = None if value is None else find_option(element, str(value))
    elif field == "selected_options":
        value = [find_option(element, str(one)) for one in value]
    return {"type": kind, field: value}


def state_values(blocks: list[Json], filled: dict[str, dict[str, Json]]) -> Json:
    """`state.values` of a payload: block_id -> action_id -> value; `filled` is what the person gave."""
    values: Json = {}
    for placed in placed_elements(blocks):
        if placed.element["type"] in VALUE_FIELDS:
            known = filled.get(placed.block_id, {}).get(placed.action_id)
            values.setdefault(placed.block_id, {})[placed.action_id] = known or first_value(placed.element)
    return values


def missing_inputs(blocks: list[Json], values: Json) -> dict[str, str]:
    """What Slack's client refuses to send, by block_id: required and empty, too short, too long."""
    problems: dict[str, str] = {}
    for block in blocks:
        if block.get("type") != "input":
            continue
        element = block["element"]
        field, _ = VALUE_FIELDS[element["type"]]
        value = values[block["block_id"]][element["action_id"]][field]
        problem = _input_problem(block, element, value)
        if problem:
            problems[block["block_id"]] = problem
    return problems


def _input_problem(block: Json, element: Json, value: Any) -> str | None:
    if not value:
        return None if block.get("optional") else "required"
    if not isinstance(value, str):
        return None
    if len(value) > element.get("max_length", 3000):
        return "too long"
    if len(value) < element.get("min_length", 0):
        return "too short"
    return None


def _listed(thing: Json, field: str) -> list[Json]:
    value = thing.get(field)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
