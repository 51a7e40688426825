"""auth.test, users.* and usergroups.*: who is who."""

from zoneinfo import ZoneInfo

from demo.workspace import seed
from demo.workspace.arguments import flag, text
from demo.workspace.conversations import page_of
from demo.workspace.errors import SlackError
from demo.workspace.state import Json, User, UserGroup
from demo.workspace.world import World


def auth_test(world: World, arguments: Json) -> Json:
    return {
        "url": f"https://{world.team.domain}.slack.com/",
        "team": world.team.name,
        "team_id": world.team.id,
        "user": "gpu-oncall",
        "user_id": seed.BOT_USER_ID,
        "bot_id": seed.BOT_ID,
        "is_enterprise_install": False,
    }


def user_info(world: World, arguments: Json) -> Json:
    user = world.users.get(text(arguments, "user"))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": as_slack_user(world, user, flag(arguments, "include_locale"))}


def users_list(world: World, arguments: Json) -> Json:
    rows = [as_slack_user(world, user, flag(arguments, "include_locale")) for user in world.users.values()]
    page, cursor = page_of(rows, arguments, 200)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def user_groups_list(world: World, arguments: Json) -> Json:
    with_users = flag(arguments, "include_users")
    groups = [
        group for group in world.user_groups.values() if flag(arguments, "include_disabled") or not group.disabled
    ]
    return {"usergroups": [_as_slack_group(world, group, with_users) for group in groups]}


def user_groups_users(world: World, arguments: Json) -> Json:
    group = world.user_groups.get(text(arguments, "usergroup"))
    if group is None:
        raise SlackError("no_such_subteam")
    if group.disabled and not flag(arguments, "include_disabled"):
        return {"users": []}
    return {"users": list(group.members)}


def as_slack_user(world: World, user: User, with_locale: bool = False) -> Json:
    offset = world.now().astimezone(ZoneInfo(user.tz)).utcoffset()
    body = {
        "id": user.id,
        "team_id": user.team_id,
        "name": user.name,
        "real_name": user.real_name,
        "deleted": user.deleted,
        "tz": user.tz,
        "tz_label": user.tz,
        "tz_offset": int(offset.total_seconds()) if offset else 0,
        "is_bot": user.is_bot,
        "is_app_user": False,
        "is_restricted": user.is_restricted,
        "is_ultra_restricted": False,
        "is_stranger": user.is_stranger,
        "profile": {"real_name": user.real_name, "display_name": user.name, "team": user.team_id},
    }
    return body | ({"locale": user.locale} if with_locale else {})


def _as_slack_group(world: World, group: UserGroup, with_users: bool) -> Json:
    body = {
        "id": group.id,
        "team_id": world.team.id,
        "is_usergroup": True,
        "handle": group.handle,
        "name": group.name,
        "date_delete": 1 if group.disabled else 0,
        "user_count": len(group.members),
    }
    return body | ({"users": list(group.members)} if with_users else {})
