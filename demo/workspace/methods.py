"""The table of Web API methods: handler and the scopes of which one is needed."""

from collections.abc import Callable
from dataclasses import dataclass

from demo.workspace import conversations, directory, files, messages, views
from demo.workspace.errors import SlackError
from demo.workspace.state import Json
from demo.workspace.world import World

Handler = Callable[[World, Json], Json]


@dataclass(frozen=True)
class Method:
    """`scopes` empty: any valid bot token will do."""

    handler: Handler
    scopes: tuple[str, ...] = ()


READ = ("channels:read", "groups:read", "im:read", "mpim:read")
HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")
WRITE = ("chat:write",)

METHODS = {
    "auth.test": Method(directory.auth_test),
    "blocks.validate": Method(views.validate),
    "chat.delete": Method(messages.delete, WRITE),
    "chat.getPermalink": Method(messages.get_permalink),
    "chat.postEphemeral": Method(messages.post_ephemeral, WRITE),
    "chat.postMessage": Method(messages.post_message, WRITE),
    "chat.update": Method(messages.update, WRITE),
    "conversations.history": Method(conversations.history, HISTORY),
    "conversations.info": Method(conversations.info, READ),
    "conversations.list": Method(conversations.list_channels, READ),
    "conversations.members": Method(conversations.members, READ),
    "conversations.open": Method(conversations.open_direct, ("im:write", "mpim:write")),
    "conversations.replies": Method(conversations.replies, HISTORY),
    "files.completeUploadExternal": Method(files.complete_upload, ("files:write",)),
    "files.getUploadURLExternal": Method(files.get_upload_url, ("files:write",)),
    "reactions.add": Method(messages.add_reaction, ("reactions:write",)),
    "usergroups.list": Method(directory.user_groups_list, ("usergroups:read",)),
    "usergroups.users.list": Method(directory.user_groups_users, ("usergroups:read",)),
    "users.info": Method(directory.user_info, ("users:read",)),
    "users.list": Method(directory.users_list, ("users:read",)),
    "views.open": Method(views.open_view),
    "views.publish": Method(views.publish),
    "views.push": Method(views.push),
    "views.update": Method(views.update),
}


def call(world: World, method: str, token: str, arguments: Json) -> Json:
    """The answer without `ok`. Raises SlackError for everything that Slack refuses."""
    known = METHODS.get(method)
    if known is None:
        raise SlackError("unknown_method", req_method=method)
    check_bot_token(world, token)
    if known.scopes and not world.scopes.intersection(known.scopes):
        raise SlackError("missing_scope", needed=known.scopes[0], provided=",".join(sorted(world.scopes)))
    return known.handler(world, arguments)


def check_bot_token(world: World, token: str) -> None:
    if not token:
        raise SlackError("not_authed")
    if token == world.app_token:
        raise SlackError("not_allowed_token_type")
    if token != world.bot_token:
        raise SlackError("invalid_auth")
    if world.token_revoked:
        raise SlackError("token_revoked")


def check_app_token(world: World, token: str) -> None:
    if not token:
        raise SlackError("not_authed")
    if token == world.bot_token:
        raise SlackError("not_allowed_token_type")
    if token != world.app_token:
        raise SlackError("invalid_auth")
