"""The people and channels that every workspace starts with."""

from demo.workspace.state import Channel, Team, User, UserGroup

TEAM = Team("T0GPUTEAM", "gpu-cluster", "GPU cluster")
PARTNER_TEAM = Team("T0PARTNER", "partner", "Partner")
APP_ID = "A0GPUONCALL"
BOT_ID = "B0GPUONCALL"
BOT_USER_ID = "U0GPUONCALL"

SCOPES = (
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:write",
    "groups:history",
    "groups:read",
    "im:read",
    "im:write",
    "reactions:write",
    "usergroups:read",
    "users:read",
)


def users() -> list[User]:
    """Members alice, bob and carol in three time zones; dave is a guest, erin of another team."""
    home, partner = TEAM.id, PARTNER_TEAM.id
    return [
        User(BOT_USER_ID, "gpu-oncall", "gpu-oncall", home, tz="Etc/UTC", is_bot=True),
        User("U0ALICE", "alice", "Alice Ito", home, tz="Europe/London"),
        User("U0BOB", "bob", "Bob Tanaka", home, tz="Asia/Tokyo", locale="ja-JP"),
        User("U0CAROL", "carol", "Carol Diaz", home, tz="America/Los_Angeles", locale="en-US"),
        User("U0DAVE", "dave", "Dave Guest", home, is_restricted=True),
        User("U0ERIN", "erin", "Erin Partner", partner, is_stranger=True),
    ]


def user_groups() -> list[UserGroup]:
    return [
        UserGroup("S0ADMINS", "gpu-admins", "GPU administrators", ["U0ALICE", "U0BOB"]),
        UserGroup("S0ONCALL", "gpu-people", "GPU on-call", ["U0CAROL"]),
    ]


def channels() -> list[Channel]:
    """The app is a member of all of them except `general`."""
    members = ["U0ALICE", "U0BOB", "U0CAROL", "U0DAVE"]
    inside = [BOT_USER_ID, *members]
    return [
        Channel("C0ONCALL", "gpu-oncall", list(inside)),
        Channel("C0IDLE", "gpu-candidates", list(inside)),
        Channel("C0SECRET", "gpu-private", list(inside), is_private=True),
        Channel("C0OLD", "gpu-old", list(inside), is_archived=True),
        Channel("C0SHARED", "gpu-partners", [*inside, "U0ERIN"], is_shared=True),
        Channel("C0GENERAL", "general", list(members)),
    ]
