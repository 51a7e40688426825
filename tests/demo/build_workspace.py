"""A workspace with a real Bolt app on real Socket Mode, and blocks to post."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot import clock
from demo.workspace import Workspace

CHANNEL = "C0ONCALL"


class AdjustableClock:
    """Real time plus what the test added."""

    def __init__(self):
        self._ahead = timedelta(0)

    def __call__(self) -> datetime:
        return clock.now() + self._ahead

    def advance(self, **duration: float) -> None:
        self._ahead += timedelta(**duration)


class StandingClock(AdjustableClock):
    """Moves only when the test says so."""

    def __call__(self) -> datetime:
        return datetime(2026, 11, 30, 10, 42, tzinfo=UTC) + self._ahead


def client_of(workspace: Workspace, **options) -> AsyncWebClient:
    """Without the SDK's own retries unless asked for."""
    options.setdefault("retry_handlers", [])
    return AsyncWebClient(token=workspace.bot_token, base_url=workspace.api_url, **options)


def app_of(workspace: Workspace) -> AsyncApp:
    return AsyncApp(client=client_of(workspace))


@asynccontextmanager
async def connected(workspace: Workspace, app: AsyncApp, sockets: int = 2) -> AsyncIterator[list]:
    """The app on this many sockets; yields the handlers."""
    handlers = [
        AsyncSocketModeHandler(app, workspace.app_token, web_client=client_of(workspace), ping_interval=1)
        for _ in range(sockets)
    ]
    try:
        for handler in handlers:
            await handler.connect_async()
        await workspace.until_connected(sockets)
        yield handlers
    finally:
        for handler in handlers:
            await handler.close_async()


async def refusal(call) -> dict:
    """What Slack answered to a call that it must refuse."""
    try:
        answer = await call
    except SlackApiError as error:
        return error.response.data
    raise AssertionError(f"accepted: {answer.data}")


def plain(text: str) -> dict:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> dict:
    return {"type": "mrkdwn", "text": text}


def section(text: str = "GPU 3 is idle", **fields) -> dict:
    return {"type": "section", "text": mrkdwn(text), **fields}


def button(action_id: str = "ack", text: str = "Acknowledge", **fields) -> dict:
    return {"type": "button", "action_id": action_id, "text": plain(text), **fields}


def option(text: str, value: str | None = None) -> dict:
    return {"text": plain(text), "value": value or text}


def actions(*elements: dict, **fields) -> dict:
    return {"type": "actions", "elements": list(elements), **fields}


def overflow(*options: dict, action_id: str = "more", **fields) -> dict:
    return {"type": "overflow", "action_id": action_id, "options": list(options), **fields}


def confirm(**fields) -> dict:
    return {
        "title": plain("Reboot?"),
        "text": plain("All jobs end"),
        "confirm": plain("Reboot"),
        "deny": plain("No"),
        **fields,
    }


def text_input(block_id: str = "why", action_id: str = "reason", **fields) -> dict:
    return {
        "type": "input",
        "block_id": block_id,
        "label": plain("Reason"),
        "element": {"type": "plain_text_input", "action_id": action_id},
        **fields,
    }


def modal(*blocks: dict, **fields) -> dict:
    return {
        "type": "modal",
        "callback_id": "snooze",
        "title": plain("Snooze"),
        "submit": plain("Snooze"),
        "blocks": list(blocks) or [text_input()],
        **fields,
    }


def home(*blocks: dict, **fields) -> dict:
    return {"type": "home", "blocks": list(blocks) or [section()], **fields}
