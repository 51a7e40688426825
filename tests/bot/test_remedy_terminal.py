"""Remedies at the terminal of the bot's host: the same rules and the same record as in Slack."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from bot.__main__ import cli
from bot.act.desk import Wish
from bot.advance import AdvanceSettings
from bot.advance.remedies import Ask
from bot.groups import Approvers, Group
from bot.remedy.model import State
from bot.store import audit, incidents, schema
from bot.terminal.answers import ASKED, Answers
from bot.terminal.wire import Request
from demo.workspace import Workspace
from tests.bot.remedy_bot import NODE, Node
from tests.bot.slack_bot import SlackBot
from tests.build import START
from wire.orders import Action

ROOT, EVE = "host:root", "host:eve"


@pytest.fixture
def settings():
    group = Group("default", ["*"], approvers=Approvers(users=["U0BOB"], hosts=["root"]))
    return AdvanceSettings(timedelta(0), timedelta(0), False, groups=[group])


@pytest.fixture
async def bot(store, fleet, advance):
    async with Workspace(rate_limits=False) as workspace:
        bot = SlackBot(store, fleet, advance, workspace)
        node = Node(None, fleet, b"")
        for _ in range(3):
            node.beat()
            await advance.look_around()
        planned = await bot.desk.planned(Wish(Action.RESTART_RUNNER, NODE, "chat", 1), ROOT)
        assert (await bot.desk.ask(Ask(planned.plan, "U0ALICE", "it hangs since midnight", about=1))).incident
        yield bot


async def asked(bot, command, text="", user=ROOT):
    reply = await Answers(bot.commands).answer(Request(command, text), user)
    return reply.text, reply.understood


async def state(bot):
    incident = await bot.store.read(lambda connection: incidents.load(connection, 2))
    return incident.remedy.state


async def recorded(bot):
    query = sa.select(schema.audit.c["who", "what", "why"]).order_by(schema.audit.c.number)
    return [tuple(row) for row in await bot.store.read(lambda connection: connection.execute(query).all())]


async def test_a_listed_user_of_the_host_approves_and_the_reason_is_recorded(bot):
    assert await asked(bot, "approve", "2 agreed with the team") == ("You approved it. Now: approved", True)
    assert await state(bot) is State.APPROVED
    assert (await recorded(bot))[-1] == (ROOT, "approved", "agreed with the team")


async def test_who_is_not_listed_is_refused_like_in_slack(bot):
    text, understood = await asked(bot, "approve", "2", EVE)
    assert text.startswith("Only <@U0BOB> can approve this") or text.startswith("Only U0BOB can approve this")
    assert not understood
    assert await state(bot) is State.ASKED
    assert (await recorded(bot))[-1][:2] == (EVE, "remedy_approve: refused")


async def test_a_denial_says_why_and_whoever_comes_later_is_told(bot):
    assert (await asked(bot, "deny", "2 it works again"))[1]
    text, understood = await asked(bot, "approve", "2")
    assert text.startswith("This request is decided already: denied")
    assert not understood
    assert ("host:root", "denied", "it works again") in await recorded(bot)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "gpu-oncall approve ID"),
        ("twelve", "gpu-oncall approve ID"),
        ("1", "#1 is no request"),
        ("99", "#99 is no"),
    ],
)
async def test_what_is_no_request_changes_nothing_and_is_named(bot, text, said):
    told, understood = await asked(bot, "approve", text)
    assert told.startswith(said)
    assert "gpu-oncall incidents" in told
    assert not understood
    assert await state(bot) is State.ASKED


async def test_all_remedies_are_stopped_and_allowed_again(bot):
    text, _ = await asked(bot, "stop-remedies", "the cooling fails")
    assert text.startswith("All remedies are stopped from now on, and 1 that waited")
    assert await state(bot) is State.STOPPED
    planned = await bot.desk.planned(Wish(Action.RESTART_RUNNER, NODE, "chat", 1), ROOT)
    assert [one.name for one in planned.blockers if not one.acceptable] == ["stopped"]
    assert await asked(bot, "stop-remedies", "--resume") == ("Remedies are allowed again", True)
    assert await asked(bot, "stop-remedies", "--resume") == ("Remedies were not stopped", True)


def test_the_running_bot_knows_these_commands():
    assert {"approve", "deny", "stop-remedies"} <= ASKED.keys()


# --- the record ------------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path, store):
    """Of a bot whose database is the test's, with three rows in its record."""
    with store.engine.begin() as connection:
        for what in ("asked", "approved", "sending"):
            head = audit.append(connection, audit.Entry(START, "U0ALICE", what, "because", 7, "gpu-01"))
    path = tmp_path / "config.yaml"
    path.write_text(f"bot: {{data_dir: {tmp_path}, database: 'sqlite:///{tmp_path}/bot.db'}}\n")
    return path, str(head), store


def run(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)


def test_verify_says_that_the_record_is_whole_and_where_it_is_not(config):
    path, head, store = config
    done = run("audit", "verify", "--config", path, "--head", head)
    assert (done.exit_code, done.output) == (0, f"The record of 3 rows is whole; its head is {head}.\n")
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.audit).where(schema.audit.c.number == 3))
    assert run("audit", "verify", "--config", path).exit_code == 0
    done = run("audit", "verify", "--config", path, "--head", head)
    assert done.exit_code == 1
    assert "row 3 is missing" in done.output
    with store.engine.begin() as connection:
        connection.execute(sa.update(schema.audit).where(schema.audit.c.number == 2).values(who="U0EVE"))
    assert "row 2 was changed" in run("audit", "verify", "--config", path).output


def test_a_head_that_is_none_is_refused(config):
    assert "wants a head as cards print it" in run("audit", "verify", "--config", config[0], "--head", "x").output


def test_show_tells_everything_of_one_remedy(config):
    lines = run("audit", "show", "7", "--config", config[0]).output.splitlines()
    assert [line.split("  ")[2:4] for line in lines] == [
        ["U0ALICE", "asked"],
        ["U0ALICE", "approved"],
        ["U0ALICE", "sending"],
    ]
