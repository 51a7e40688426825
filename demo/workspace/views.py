"""views.*: modals on a stack of at most three, and the home of each person."""

import json
from datetime import timedelta

from demo.workspace import seed
from demo.workspace.arguments import text
from demo.workspace.block_kit import message_problems, too_long, view_problems
from demo.workspace.errors import SlackError
from demo.workspace.state import Json, Trigger, View
from demo.workspace.world import World

# docs.slack.dev/interactivity/handling-user-interaction and /surfaces/modals
TRIGGER_LIFETIME = timedelta(seconds=3)
DEEPEST_STACK = 3
LARGEST_VIEW = 250_000


def open_view(world: World, arguments: Json) -> Json:
    """A second views.open for the same person replaces what is open."""
    body = checked_view(arguments, ("modal",))
    trigger = _exchange(world, text(arguments, "trigger_id"))
    view = _new_view(world, trigger.user_id, body, None)
    world.modals[trigger.user_id] = [view]
    return {"view": as_slack_view(world, view)}


def push(world: World, arguments: Json) -> Json:
    body = checked_view(arguments, ("modal",))
    trigger = _exchange(world, text(arguments, "trigger_id"))
    view = push_on_stack(world, trigger.user_id, body)
    return {"view": as_slack_view(world, view)}


def push_on_stack(world: World, user_id: str, body: Json) -> View:
    stack = world.modals.setdefault(user_id, [])
    if len(stack) >= DEEPEST_STACK:
        raise SlackError("push_limit_reached")
    view = _new_view(world, user_id, body, stack[-1] if stack else None)
    stack.append(view)
    return view


def update(world: World, arguments: Json) -> Json:
    body = checked_view(arguments, ("modal",))
    view = _open_view(world, text(arguments, "view_id"), text(arguments, "external_id"))
    if text(arguments, "hash") not in ("", view.hash):
        raise SlackError("hash_conflict")
    replace(world, view, body)
    return {"view": as_slack_view(world, view)}


def publish(world: World, arguments: Json) -> Json:
    body = checked_view(arguments, ("home",))
    user_id = text(arguments, "user_id")
    if user_id not in world.users:
        raise SlackError("user_not_found")
    view = world.homes.get(user_id)
    if view is not None and text(arguments, "hash") not in ("", view.hash):
        raise SlackError("hash_conflict")
    if view is None:
        view = world.homes[user_id] = _new_view(world, user_id, body, None)
    else:
        replace(world, view, body)
    return {"view": as_slack_view(world, view)}


def validate(world: World, arguments: Json) -> Json:
    """blocks.validate; the shape of its errors follows docs.slack.dev/reference/methods/blocks.validate."""
    given = [name for name in ("blocks", "message", "view") if arguments.get(name) is not None]
    if len(given) != 1:
        raise SlackError("invalid_arguments", ["give exactly one of blocks, message, view"])
    value = arguments[given[0]]
    if given[0] == "view":
        problems = view_problems(value)
    else:
        blocks = value if given[0] == "blocks" else value.get("blocks", [])
        problems = message_problems(blocks) or (["too long in all [json-pointer:/blocks]"] if too_long(blocks) else [])
    if not problems:
        return {}
    raise SlackError(f"invalid_{given[0]}", errors=[_as_validation_error(problem) for problem in problems])


def replace(world: World, view: View, body: Json) -> None:
    view.versions.append({**body, "blocks": world.with_ids(body["blocks"])})
    view.hash = world.new_id("h")
    view.errors = {}


def checked_view(arguments: Json, kinds: tuple[str, ...]) -> Json:
    """Raises SlackError invalid_arguments with every problem, as Slack does."""
    body = arguments.get("view")
    if not isinstance(body, dict):
        raise SlackError("invalid_arguments", ["missing required field: view [json-pointer:/view]"])
    if body.get("type") not in kinds:
        raise SlackError("invalid_arguments", [f"must be {' or '.join(kinds)} [json-pointer:/view/type]"])
    problems = view_problems(body)
    if problems:
        raise SlackError("invalid_arguments", problems)
    if len(json.dumps(body)) > LARGEST_VIEW:
        raise SlackError("view_too_large")
    return body


def as_slack_view(world: World, view: View, values: Json | None = None) -> Json:
    """The view as the API and the payloads show it; `values` is what the person has filled in."""
    body = view.body
    return {
        "id": view.id,
        "team_id": world.team.id,
        "type": view.kind,
        "blocks": view.blocks,
        "title": body.get("title"),
        "submit": body.get("submit"),
        "close": body.get("close"),
        "private_metadata": body.get("private_metadata") or "",
        "callback_id": body.get("callback_id") or "",
        "external_id": body.get("external_id") or "",
        "state": {"values": values or {}},
        "hash": view.hash,
        "clear_on_close": bool(body.get("clear_on_close")),
        "notify_on_close": bool(body.get("notify_on_close")),
        "root_view_id": view.root_id,
        "previous_view_id": view.previous_id,
        "app_id": seed.APP_ID,
        "app_installed_team_id": world.team.id,
        "bot_id": seed.BOT_ID,
    }


def _exchange(world: World, trigger_id: str) -> Trigger:
    trigger = world.triggers.get(trigger_id)
    if trigger is None:
        raise SlackError("invalid_trigger_id")
    if trigger.used:
        raise SlackError("exchanged_trigger_id")
    if world.now() - trigger.issued_at > TRIGGER_LIFETIME:
        raise SlackError("expired_trigger_id")
    trigger.used = True
    return trigger


def _new_view(world: World, user_id: str, body: Json, previous: View | None) -> View:
    view_id = world.new_id("V")
    filled = {**body, "blocks": world.with_ids(body["blocks"])}
    root_id = previous.root_id if previous else view_id
    view = View(view_id, user_id, body["type"], world.new_id("h"), [filled], root_id)
    view.previous_id = previous.id if previous else None
    world.views[view_id] = view
    return view


def _open_view(world: World, view_id: str, external_id: str) -> View:
    """Only what is open now can be updated."""
    for stack in world.modals.values():
        for view in stack:
            if view.id == view_id or (external_id and view.body.get("external_id") == external_id):
                return view
    raise SlackError("not_found")


def _as_validation_error(problem: str) -> Json:
    message, _, pointer = problem.partition(" [json-pointer:")
    return {"pointer": pointer.rstrip("]"), "code": "failed_constraint", "message": message}
