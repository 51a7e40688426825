"""The payloads that Slack puts into envelopes, complete."""

from demo.workspace import seed
from demo.workspace.elements import VALUE_FIELDS, Placed, state_values
from demo.workspace.messages import as_slack
from demo.workspace.state import Channel, Ephemeral, Json, Message, Team, User, View
from demo.workspace.views import as_slack_view
from demo.workspace.world import World

VERIFICATION_TOKEN = "verification-token"
Filled = dict[str, dict[str, Json]]


def team_of(user: User) -> Team:
    return seed.PARTNER_TEAM if user.team_id == seed.PARTNER_TEAM.id else seed.TEAM


def interaction(kind: str, user: User, trigger_id: str) -> Json:
    """What every interactive payload has."""
    team = team_of(user)
    return {
        "type": kind,
        "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id},
        "team": {"id": team.id, "domain": team.domain},
        "api_app_id": seed.APP_ID,
        "token": VERIFICATION_TOKEN,
        "trigger_id": trigger_id,
        "enterprise": None,
        "is_enterprise_install": False,
    }


def action(world: World, placed: Placed, chosen: Json | None) -> Json:
    """One entry of `actions`; `chosen` is the option or state value that the person picked."""
    element = placed.element
    entry: Json = {
        "type": element["type"],
        "action_id": placed.action_id,
        "block_id": placed.block_id,
        "action_ts": world.next_ts(),
    }
    for field in ("text", "value", "style", "placeholder"):
        if field in element:
            entry[field] = element[field]
    if element["type"] == "overflow":
        entry["selected_option"] = chosen
    elif element["type"] in VALUE_FIELDS and chosen is not None:
        entry |= chosen
    return entry


def message_source(world: World, user: User, message: Message | Ephemeral, blocks: list[Json], filled: Filled) -> Json:
    """container, channel, message, state and response_url of a press in a message.

    Of an ephemeral message Slack sends no `message`.
    """
    channel = world.channels[message.channel_id]
    is_ephemeral = isinstance(message, Ephemeral)
    container: Json = {"type": "message", "message_ts": message.ts, "channel_id": channel.id}
    container["is_ephemeral"] = is_ephemeral
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    source: Json = {
        "container": container,
        "channel": channel_of(channel),
        "state": {"values": state_values(blocks, filled)},
    }
    if isinstance(message, Message):
        url = world.new_response_url(user.id, channel.id, message=message)
        source["message"] = {**as_slack(world, message), "blocks": blocks}
    else:
        url = world.new_response_url(user.id, channel.id, ephemeral=message)
    source["response_url"] = world.response_address(url)
    return source


def view_source(world: World, view: View, filled: Filled) -> Json:
    return {
        "container": {"type": "view", "view_id": view.id},
        "view": as_slack_view(world, view, state_values(view.blocks, filled)),
    }


def command(world: World, user: User, channel: Channel, name: str, words: str) -> Json:
    url = world.new_response_url(user.id, channel.id)
    team = team_of(user)
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": team.id,
        "team_domain": team.domain,
        "channel_id": channel.id,
        "channel_name": channel_of(channel)["name"],
        "user_id": user.id,
        "user_name": user.name,
        "command": name,
        "text": words,
        "api_app_id": seed.APP_ID,
        "is_enterprise_install": "false",
        "response_url": world.response_address(url),
        "trigger_id": world.new_trigger(user.id).id,
    }


def shortcut(world: World, user: User, callback_id: str, message: Message) -> Json:
    url = world.new_response_url(user.id, message.channel_id, message=message)
    return interaction("message_action", user, world.new_trigger(user.id).id) | {
        "action_ts": world.next_ts(),
        "callback_id": callback_id,
        "channel": channel_of(world.channels[message.channel_id]),
        "message_ts": message.ts,
        "message": as_slack(world, message),
        "response_url": world.response_address(url),
    }


def event(world: World, body: Json) -> Json:
    authorization = {
        "enterprise_id": None,
        "team_id": world.team.id,
        "user_id": seed.BOT_USER_ID,
        "is_bot": True,
        "is_enterprise_install": False,
    }
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": world.team.id,
        "api_app_id": seed.APP_ID,
        "event": body,
        "type": "event_callback",
        "event_id": world.new_id("Ev"),
        "event_time": int(world.now().timestamp()),
        "authorizations": [authorization],
        "is_ext_shared_channel": False,
        "event_context": world.new_id("EC"),
    }


def channel_of(channel: Channel) -> Json:
    """Private channels and direct messages carry no name in payloads."""
    if channel.is_im:
        return {"id": channel.id, "name": "directmessage"}
    return {"id": channel.id, "name": "privategroup" if channel.is_private else channel.name}
