"""What Slack delivers, looked at before anything reads it: payloads have the documented form, or nothing is done."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

log = logging.getLogger(__name__)

REFUSED = "Slack delivered what is not as it documents it, nothing was done"


class _Named(msgspec.Struct):
    """A user, a team, a channel."""

    id: str | None = None
    team_id: str | None = None
    enterprise_id: str | None = None


class _Option(msgspec.Struct):
    value: str | None = None


class _Element(msgspec.Struct):
    """What a person chose or typed."""

    action_id: str | None = None
    block_id: str | None = None
    type: str | None = None
    value: str | None = None
    selected_option: _Option | None = None


class _Action(_Element):
    action_id: str
    block_id: str | None = None
    type: str | None = None


class _State(msgspec.Struct):
    values: dict[str, dict[str, _Element]] | None = None


class _View(msgspec.Struct):
    type: str
    id: str | None = None
    callback_id: str | None = None
    private_metadata: str | None = None
    team_id: str | None = None
    app_installed_team_id: str | None = None
    state: _State | None = None


class _Container(msgspec.Struct):
    channel_id: str | None = None
    message_ts: str | None = None
    type: str | None = None
    view_id: str | None = None


class _Message(msgspec.Struct):
    ts: str | None = None
    thread_ts: str | None = None
    user: str | None = None


class _Authorization(msgspec.Struct):
    team_id: str | None = None
    enterprise_id: str | None = None
    user_id: str | None = None
    authorizations: "list[_Authorization] | None" = None  # Bolt looks for them at every depth


class _ResponseUrl(msgspec.Struct):
    response_url: str | None = None


class _Event(msgspec.Struct):
    """Of many kinds, of which one is read here."""

    type: str
    subtype: str | None = None
    tab: str | None = None
    user: str | _Named | None = None
    channel: str | _Named | None = None
    team: str | _Named | None = None
    enterprise: str | _Named | None = None
    team_id: str | None = None
    message: _Message | None = None
    previous_message: _Message | None = None
    authorizations: list[_Authorization] | None = None


class _Payload(msgspec.Struct):
    """The parts of payloads of all kinds that Bolt or the bot reads; everything else may be as it likes."""

    type: str | None = None
    trigger_id: str | None = None
    event_id: str | None = None
    callback_id: str | None = None
    action_id: str | None = None
    block_id: str | None = None
    response_url: str | None = None
    message_ts: str | None = None
    user: _Named | None = None
    team: _Named | None = None
    enterprise: str | _Named | None = None
    channel: _Named | None = None
    user_id: str | None = None
    team_id: str | None = None
    enterprise_id: str | None = None
    channel_id: str | None = None
    command: str | None = None
    text: str | None = None
    container: _Container | None = None
    message: _Message | None = None
    actions: list[_Action] | None = None
    view: _View | None = None
    # Bolt reads into these wherever they are there.
    event: _Event | msgspec.UnsetType = msgspec.UNSET
    response_urls: list[_ResponseUrl] | msgspec.UnsetType = msgspec.UNSET
    authorizations: list[_Authorization] | None = None


def problem(payload: Mapping[str, Any]) -> str | None:
    """Why the payload is not as Slack documents it; None when it is. The text quotes none of it."""
    try:
        read = msgspec.convert(payload, _Payload)
    except (msgspec.ValidationError, RecursionError) as error:
        return str(error)[:200]
    views = dict.fromkeys(("view_submission", "view_closed"), read.view)
    needed: Mapping[str, object] = {"block_actions": read.actions, "event_callback": read.event, **views}
    return None if needed.get(read.type or "", True) else f"a payload {read.type} without its content"


class EnvelopeHandler(AsyncSocketModeHandler):
    """Hands what has the right form to Bolt. The rest is acknowledged, or Slack would deliver it again, and told."""

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]
        why = problem(req.payload)
        if why is None:
            try:
                await super().handle(client, req)
            except Exception:  # the SDK would swallow it without a word
                log.exception("What Slack delivered could not be handled; type=%s", str(req.type)[:40])
            return
        log.error("%s; type=%s why=%s", REFUSED, str(req.type)[:40], why)
        await client.send_socket_mode_response(SocketModeResponse(envelope_id=req.envelope_id))
