"""The bot dies at each step of a remedy: the next one on the same database ends it once, or in a clear word."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from bot import clock
from bot.act.desk import Wish
from bot.advance import Advance, AdvanceSettings, Click
from bot.advance.remedies import Ask
from bot.fleet import Fleet
from bot.groups import Approvers, Group
from bot.judge.candidate import CandidateRule
from bot.order_key import make_order_key, public_order_key, read_order_keys
from bot.remedy.model import ENDED, State, Times
from bot.store.migrate import migrate
from bot.store.writer import Store
from tests.bot.outward import until
from tests.bot.remedy_bot import NODE, Node, RemedyBot
from tests.nats_server import connected
from wire import subjects
from wire.orders import Action, sign_order
from wire.remedies import OrderState

LONG = 30.0
APPROVERS = Approvers(users=["U0ALICE", "U0BOB"])
FAST = Times(approval=timedelta(seconds=60), proof=timedelta(seconds=20), loading=timedelta(seconds=5))


class Lives:
    """One database and one node; a bot that can be lost at any moment, with all that it had in memory."""

    def __init__(self, folder, workspace, bus, link, node_link):
        self.folder, self.workspace, self.bus, self.link = folder, workspace, bus, link
        make_order_key(folder)
        self.node = Node(node_link, None, public_order_key(folder))
        self.bot = None

    async def begin(self, times=FAST):
        """The next life of the bot. It has heard nothing yet."""
        store = Store(f"sqlite:///{self.folder}/bot.db")
        migrate(store.engine)
        fleet = Fleet(CandidateRule())
        group = Group("default", ["*"], approvers=APPROVERS)
        settings = AdvanceSettings(timedelta(0), timedelta(0), False, groups=[group], times=times)
        advance = Advance(store, fleet, settings)
        await advance.start()
        self.node.fleet = fleet
        self.bot = RemedyBot(store, fleet, advance, self.workspace, self.link, self.folder)
        return self.bot

    async def die(self):
        await self.bot.stop()
        for task in list(self.bot.carry_out._sending.values()):
            task.cancel()
        self.bot.store.close()

    # --- the steps --------------------------------------------------------------------------------------------------

    async def asked(self):
        await self.bot.look(self.node, 3)
        planned = await self.bot.desk.planned(Wish(Action.RESTART_RUNNER, NODE, "chat", 1), "U0ALICE")
        asked = await self.bot.desk.ask(Ask(planned.plan, "U0ALICE", "it hangs since midnight", about=1))
        assert asked.incident is not None, asked.blockers
        return asked.incident.id

    async def approved(self):
        number = await self.asked()
        decided = await self.bot.desk.approve(Click("", "remedy_approve", "U0BOB", ""), number=number)
        assert not decided.refused
        return number

    async def begun(self):
        """`sending` is committed, and nothing left."""
        number = await self.approved()
        key = read_order_keys(self.folder).signing
        body = await self.bot.advance.remedies.begin(
            number, "order-1", self.bot.lists.of(NODE), lambda order: sign_order(key, order), has_bus=True
        )
        return number, body

    async def sent(self):
        """It left, and the answer was lost."""
        number, body = await self.begun()
        await self.link.request(subjects.command(NODE), body, timedelta(seconds=10))
        return number

    async def accepted(self):
        number = await self.approved()
        self.bot.carry()
        await self.bot.until_state(State.ACCEPTED)
        return number


@pytest.fixture
async def lives(tmp_path, workspace, bus):
    async with connected(bus.node_link(NODE)) as node_link, bus.bot() as link:
        lives = Lives(tmp_path, workspace, bus, link, node_link)
        await lives.node.listen()
        await lives.begin()
        yield lives
        with contextlib.suppress(Exception):
            await lives.die()


async def proved(lives):
    """The node did it; the present bot sees the proof."""
    node, bot = lives.node, lives.bot
    node.process, node.works = (5000, "900"), True
    node.says(OrderState.DONE)

    async def done():
        node.beat()
        return await bot.state() in ENDED

    await until(done, LONG)
    return await bot.state()


async def test_killed_after_the_question_the_next_bot_takes_the_approval(lives):
    number = await lives.asked()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    assert await bot.state() is State.ASKED
    await bot.look(lives.node)
    assert not (await bot.desk.approve(Click("", "remedy_approve", "U0BOB", ""), number=number)).refused
    await bot.until_state(State.ACCEPTED)
    assert await proved(lives) is State.DONE
    assert len(lives.node.orders) == 1


async def test_killed_after_the_approval_the_next_bot_sends_once_it_has_heard_the_node(lives):
    await lives.approved()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await bot.carry_out.turn(can_press=True)
    assert await bot.state() is State.APPROVED  # it knows nothing of the node yet
    await bot.look(lives.node)
    await bot.until_state(State.ACCEPTED)
    assert await proved(lives) is State.DONE
    assert len(lives.node.orders) == 1


async def test_an_approval_that_expired_while_no_bot_ran_is_never_sent(lives):
    await lives.die()
    await lives.begin(Times(approval=timedelta(seconds=5)))
    await lives.approved()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await bot.until_state(State.EXPIRED)
    await bot.look(lives.node)
    await bot.carry_out.turn(can_press=True)
    assert lives.node.orders == []


async def test_killed_between_the_decision_and_the_sending_nothing_is_sent_and_the_outcome_is_unknown(lives):
    await lives.die()
    await lives.begin(Times(proof=timedelta(seconds=1), loading=timedelta(seconds=1)))
    await lives.begun()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await bot.until_state(State.UNANSWERED, State.OUTCOME_UNKNOWN)
    await bot.look(lives.node)
    await bot.until_state(State.OUTCOME_UNKNOWN)
    assert lives.node.orders == []


async def test_killed_between_the_sending_and_the_answer_the_nodes_journal_tells(lives):
    await lives.sent()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await bot.until_state(State.UNANSWERED)
    await bot.look(lives.node)
    await bot.until_state(State.ACCEPTED)
    assert await proved(lives) is State.DONE
    assert len(lives.node.orders) == 1


async def test_killed_between_the_sending_and_a_refusal_the_journal_tells_that_nothing_was_done(lives):
    await lives.sent()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    lives.node.says(OrderState.REFUSED, "it answered a canary just now: nothing was done")
    await bot.look(lives.node)
    await bot.until_state(State.REFUSED)
    assert len(lives.node.orders) == 1


async def test_killed_during_the_proof_the_next_bot_ends_it(lives):
    await lives.accepted()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await bot.look(lives.node)
    assert await bot.state() is State.ACCEPTED
    assert await proved(lives) is State.DONE
    assert len(lives.node.orders) == 1


async def test_a_bot_that_was_away_past_the_deadline_looks_before_it_calls_it_failed(lives):
    """As after the reboot of its own host, which took longer; or whose clock is not right yet."""
    await lives.die()
    await lives.begin(Times(proof=timedelta(seconds=5), loading=timedelta(0)))
    await lives.accepted()
    deadline = (await lives.bot.request()).remedy.proof[-1].deadline
    await lives.die()
    await until(lambda: asyncio.sleep(0, clock.now() > deadline), LONG)
    bot = await lives.begin()
    for _ in range(2):
        await bot.carry_out.turn(can_press=True)
    assert await bot.state() is State.ACCEPTED
    bot.carry()
    assert await proved(lives) is State.DONE


async def test_a_bot_that_hears_nothing_of_the_node_ends_it_all_the_same(lives):
    await lives.die()
    await lives.begin(Times(proof=timedelta(seconds=5), loading=timedelta(0)))
    await lives.accepted()
    await lives.die()
    bot = await lives.begin()
    bot.carry_out.first_heartbeat_seconds = 0.0
    bot.carry()
    await bot.until_state(State.FAILED)


async def test_every_life_of_the_bot_continues_one_record(lives):
    await lives.accepted()
    await lives.die()
    bot = await lives.begin()
    bot.carry()
    await proved(lives)
    assert [what for _, what in await bot.audit()] == [
        "asked",
        "approved",
        "sending",
        "accepted",
        "proof.restarted",
        "proof.works",
        "done",
    ]
