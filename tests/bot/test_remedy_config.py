"""Requests that were open when the bot was started anew with another config: what it says now binds them too."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.act.desk import Wish
from bot.advance import Advance, AdvanceSettings, Click
from bot.advance.remedies import Ask
from bot.groups import Approvers, Group
from bot.remedy.model import State
from bot.slack.commands import Caller
from bot.store import incidents
from demo.workspace import Workspace
from tests.bot.remedy_bot import NODE, Node
from tests.bot.slack_bot import SlackBot
from wire.orders import Action

GROUP = Group("default", ["*"], approvers=Approvers(users=["U0ALICE", "U0BOB", "U0CAROL"]))
ANOTHER_DAY = f"{clock.now() + timedelta(days=3):%a} 00:00-23:59"
TWO = replace(GROUP, approvals=2)


@pytest.fixture
def settings():
    return AdvanceSettings(timedelta(0), timedelta(0), False, groups=[GROUP])


class Site:
    """Bots on one record, one after the other, and the node."""

    def __init__(self, store, fleet, workspace, settings):
        self.store, self.fleet, self.workspace, self.settings = store, fleet, workspace, settings
        self.node, self.bot = Node(None, fleet, b""), None

    async def start(self, *groups):
        advance = Advance(self.store, self.fleet, replace(self.settings, groups=groups))
        await advance.start()
        self.bot = SlackBot(self.store, self.fleet, advance, self.workspace)
        for _ in range(3):
            self.node.beat()
            await self.bot.advance.look_around()

    async def ask(self):
        planned = await self.bot.desk.planned(Wish(Action.RESTART_RUNNER, NODE, "chat", 1), "U0ALICE")
        asked = await self.bot.desk.ask(Ask(planned.plan, "U0ALICE", "it hangs since midnight", about=1))
        return asked.incident.id

    async def in_the_way_of(self, name):
        """Of a restart on another node that is heard, too."""
        Node(None, self.fleet, b"", name).beat()
        planned = await self.bot.desk.planned(Wish(Action.RESTART_RUNNER, name, "chat"), "U0ALICE")
        return [one.name for one in planned.blockers]

    async def approve(self, number, user):
        """What keeps this person from it, "" for nothing."""
        return (await self.bot.desk.approve(Click("", "remedy_approve", user, ""), number=number)).refused

    async def begin(self, number):
        """The order, None where it must not leave."""
        approvers = self.bot.lists.of(NODE)
        return await self.bot.advance.remedies.begin(
            number, "order-1", approvers, lambda order: b"signed", has_bus=True
        )

    async def request(self, number):
        return (await self.store.read(lambda connection: incidents.load(connection, number))).remedy


@pytest.fixture
async def site(store, fleet, settings):
    async with Workspace(rate_limits=False) as workspace:
        site = Site(store, fleet, workspace, settings)
        await site.start(GROUP)
        yield site


async def test_a_request_that_was_asked_for_under_one_approval_needs_two_when_the_config_says_two(site):
    number = await site.ask()
    await site.start(TWO)
    assert await site.approve(number, "U0ALICE") == "refused.own_request"
    assert await site.approve(number, "U0BOB") == ""
    assert (await site.request(number)).state is State.ASKED
    assert await site.begin(number) is None
    assert await site.approve(number, "U0CAROL") == ""
    assert await site.begin(number) == b"signed"


async def test_the_card_says_so_before_anybody_presses(site):
    number = await site.ask()
    await site.start(TWO)
    await site.bot.advance.remedies.start()
    assert (await site.request(number)).needed == 2
    card = (await site.bot.commands.answer("/gpu-incidents", str(number), Caller("U0BOB"))).message.text
    assert "Approvals that are missing: 2" in card


async def test_a_request_never_needs_fewer_than_when_it_was_asked_for(site):
    await site.start(TWO)
    number = await site.ask()
    await site.start(GROUP)
    await site.bot.advance.remedies.start()
    assert await site.approve(number, "U0BOB") == ""
    assert (await site.request(number)).state is State.ASKED


async def test_an_order_that_one_approved_does_not_leave_when_the_config_wants_two(site):
    number = await site.ask()
    assert await site.approve(number, "U0BOB") == ""
    await site.start(TWO)
    assert await site.begin(number) is None
    request = await site.request(number)
    assert (request.state, [one.key for one in request.because]) == (State.VOID, ["blocker.too_few"])


@pytest.mark.parametrize(
    ("group", "refused", "because"),
    [
        (replace(GROUP, approvers=Approvers(users=["U0CAROL"])), "refused.not_approver", "blocker.approver_gone"),
        (replace(GROUP, approvers=Approvers()), "refused.not_approver", "blocker.no_approvers"),
        (replace(GROUP, nodes=["other"]), "refused.not_approver", "blocker.no_approvers"),
        (replace(GROUP, remedy_hours=ANOTHER_DAY), "", "blocker.hours"),
    ],
)
async def test_who_may_approve_and_when_is_what_the_config_says_now(site, group, refused, because):
    number = await site.ask()
    await site.start(group)
    assert await site.approve(number, "U0BOB") == refused
    await site.start(GROUP)
    if refused:
        assert await site.approve(number, "U0BOB") == ""
    await site.start(group)
    assert await site.begin(number) is None
    assert because in [one.key for one in (await site.request(number)).because]


async def test_what_the_node_no_longer_offers_is_not_ordered(site):
    number = await site.ask()
    assert await site.approve(number, "U0BOB") == ""
    site.node.remedies["restart_runner"] = {}
    await site.start(GROUP)
    assert await site.begin(number) is None
    assert [one.key for one in (await site.request(number)).because] == ["blocker.not_offered.restart_runner"]


@pytest.mark.parametrize(
    ("groups", "in_the_way"),
    [
        ([GROUP], ["under_way"]),
        ([replace(GROUP, name="renamed")], ["under_way"]),
        ([replace(GROUP, name="moved to", nodes=[NODE, "gpu-02"]), GROUP], ["under_way"]),
        ([replace(GROUP, name="moved away", nodes=[NODE]), GROUP], []),
        ([replace(GROUP, remedies_at_once=2)], []),
    ],
)
async def test_an_open_remedy_counts_in_the_group_that_its_node_belongs_to_now(site, groups, in_the_way):
    await site.ask()
    await site.start(*groups)
    assert await site.in_the_way_of("gpu-02") == in_the_way
