"""A Slack workspace on loopback, with real Socket Mode, for the demo and the tests.

    async with Workspace() as workspace:
        client = AsyncWebClient(token=workspace.bot_token, base_url=workspace.api_url)
        ...AsyncSocketModeHandler(app, workspace.app_token, web_client=client)...
        await workspace.until_connected(sockets=2)
        alice = workspace.person("alice")
        seen = await alice.command("/gpu-status", "gpu-07")              # acknowledged, or seen.failure says why not
        await workspace.until(lambda: seen.ephemerals)                   # what came by response_url or postEphemeral
        card = workspace.channel("gpu-oncall").cards[0]
        await alice.press(card, "Acknowledge")                           # by action_id or by the words on it
        await alice.choose(card, "more", "Reboot node…", confirm=True)   # overflow, select, picker
        await alice.submit({"reason": "stuck driver"})                   # the open modal, by block_id or action_id

State: `workspace.channel(name).shown / .cards / .replies(card)`, a message's `versions` (every edit and its time),
`person.ephemerals / .modal / .home`, `workspace.files`, `workspace.calls` and `calls_of(method)` (arguments, outcome),
`workspace.sockets.envelopes` (payload, socket, sent_at, acked_at, answer, failure).
Wait with `await workspace.until(condition)`; it wakes at every change and raises TimeoutError.

People: alice, bob, carol; dave is a guest, erin of another team (in gpu-partners only); groups gpu-admins (alice, bob)
and gpu-people (carol). Channels: gpu-oncall, gpu-candidates, gpu-private, gpu-old (archived), gpu-partners (shared),
general (the app is not in it). `add_user` and `add_channel` make more; fields of channels and users may be changed at
any time (`workspace.channel("gpu-oncall").is_archived = True`, `card.deleted_at = workspace.now()`).

Faults: `workspace.faults.rate_limited / server_error / drop / lose_reply / slow / refuse(method, …)`, where method is a
Web API method, `*`, `response_url` or `upload`; `workspace.sockets.close / refresh / warn / disable_link / swallow /
duplicate`; `workspace.stop_listening()` and `listen()` (connections refused, then back with all state);
`workspace.token_revoked`, `workspace.scopes`, `workspace.edit_window`, `workspace.rate_limits.enabled`.
`now=` takes a clock, so that tests need not wait for triggers (3 s), response URLs (30 min) or rate limits to pass.
"""

from demo.workspace.people import NotConfirmed, Person, Seen
from demo.workspace.server import Workspace
from demo.workspace.state import ApiCall, Channel, Envelope, Ephemeral, File, Message, User, UserGroup, View

__all__ = [
    "ApiCall",
    "Channel",
    "Envelope",
    "Ephemeral",
    "File",
    "Message",
    "NotConfirmed",
    "Person",
    "Seen",
    "User",
    "UserGroup",
    "View",
    "Workspace",
]
