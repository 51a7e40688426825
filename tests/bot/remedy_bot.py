"""The bot with everything that remedies need, and a node on a real bus that answers orders as the test says."""

import asyncio
import secrets

import sqlalchemy as sa
from msgspec.structs import replace

from bot import clock
from bot.act.carry_out import CarryOut
from bot.act.desk import Wish
from bot.advance import Click
from bot.advance.remedies import Ask
from bot.groups import Approvers
from bot.order_key import make_order_key
from bot.remedy.model import State
from bot.store import incidents, schema
from tests.bot.outward import until
from tests.bot.slack_bot import SlackBot, answer
from tests.build import BOOT, FIRST_WINDOW, OTHER_BOOT, gpu_uuid, heartbeat
from tests.build_ticks import hung, tick
from wire import subjects
from wire.messages import GpuNow, Process, Verdict
from wire.orders import Action, decode_order, opened
from wire.reasons import Reason, ReasonCode
from wire.remedies import Answer, AutoRemedy, JournalEntry, NodeRemedies, OrderState, encode_answer

NODE = "gpu-01"
PID, STARTED = 4321, "100"
LONG = 30.0
REASON = {"reason": "it hangs since midnight"}
APPROVERS = Approvers(users=["U0ALICE", "U0BOB", "U0DAVE"])
_HELD = [Reason(ReasonCode.MEMORY_HELD, "4294967296")]


class Node:
    """What a node says in its heartbeats, and how it answers orders. `answers` None: it takes them and is silent."""

    def __init__(self, link, fleet, public_key, name=NODE):
        self.link, self.fleet, self.name = link, fleet, name
        self._key = public_key
        self.boot, self.minutes, self.process = BOOT, 20.0, (PID, STARTED)
        self.gpus, self.journal, self.orders = 2, [], []
        self.refusal, self.answers = None, True
        self.works = self.is_listening = False
        self.also = []  # more runners that the same process serves, and that work
        self.others = [Process(999, user="alice", started="50")]
        self.remedies = {
            "restart_runner": {"chat": "systemd unit vllm.service"},
            "reboot_node": "systemd",
            "auto_remedy": AutoRemedy.OFF,
        }

    async def listen(self):
        await self.link.subscribe(subjects.command(self.name), self._on_order)
        self.is_listening = True

    async def _on_order(self, message):
        order = decode_order(opened([self._key], message.data))
        self.orders.append(order)
        if not self.answers:
            return
        answer = Answer(1, self.name, order.order_id, self.refusal is None, self.refusal)
        if self.refusal is not None:
            answer = replace(answer, detail="it answered a canary just now")
        else:
            self.says(OrderState.ACCEPTED)
        await message.respond(encode_answer(answer))

    def says(self, state, detail=""):
        """The journal's word about the latest order."""
        order = self.orders[-1]
        others = [one for one in self.journal if one.order_id != order.order_id]
        entry = JournalEntry(order.order_id, order.action, state, clock.now(), self.boot, detail=detail)
        self.journal = [*others, entry]

    def rebooted(self):
        self.boot, self.minutes, self.process = OTHER_BOOT, 0.0, (77, "20")

    def beat(self, **changes):
        self.minutes += 0.5
        pid, started = self.process
        looks = {"pid": pid, "process_started": started, "taken_at": clock.now()}
        look = tick(self.minutes, has_moved=True, **looks) if self.works else hung(self.minutes, self.minutes, **looks)
        looked = [look, *(tick(self.minutes, runner=name, has_moved=True, **looks) for name in self.also)]
        gpus = [self._gpu(0, [Process(pid, user="bob", started=started)]), self._gpu(1, self.others)][: self.gpus]
        said = NodeRemedies([1], self._challenge(), journal=self.journal, **self.remedies)
        values = {"boot_id": self.boot, "gpus": gpus, "runners": looked, "remedies": said, "sent_at": clock.now()}
        self.fleet.heard(heartbeat(FIRST_WINDOW, [], node=self.name, **{**values, **changes}))

    def _gpu(self, index, processes):
        return GpuNow(index, gpu_uuid(index), Verdict.HELD, _HELD, 1.0, list(processes))

    def _challenge(self):
        return secrets.token_hex(16)


class RemedyBot(SlackBot):
    """With the loop that carries out, on a bus."""

    def __init__(self, store, fleet, advance, workspace, link, folder):
        super().__init__(store, fleet, advance, workspace)
        if not (folder / "orders.key").exists():
            make_order_key(folder)
        self.carry_out = CarryOut(store, fleet, advance, link, self.lists, folder)
        self.workspace, self.folder, self.can_press = workspace, folder, True

    def carry(self):
        """Separate from `start`, for tests that look in between."""
        self.tasks.append(asyncio.create_task(self.carry_out.run(lambda: self.can_press, 0.02)))

    async def look(self, node, beats=1):
        for _ in range(beats):
            node.beat()
            await self.advance.look_around()

    async def request(self):
        """The newest request for a remedy, None for none."""

        def work(connection):
            newest = sa.select(sa.func.max(schema.remedy.c.incident_id))
            number = connection.execute(newest).scalar()
            return incidents.load(connection, number) if number else None

        return await self.store.read(work)

    async def state(self):
        incident = await self.request()
        return incident.remedy.state if incident else None

    async def until_state(self, *states):
        async def reached():
            return await self.state() in states

        await until(reached, 20.0)
        return await self.request()

    async def audit(self):
        query = sa.select(schema.audit.c["who", "what"]).order_by(schema.audit.c.number)
        return [tuple(row) for row in await self.store.read(lambda connection: connection.execute(query).all())]

    def cards(self, beginning=""):
        return [one for one in self.workspace.channel("gpu-oncall").cards if one.text.startswith(beginning)]


# --- what people do ---------------------------------------------------------------------------------------------------


async def dialog(workspace, card, entry="Restart runner…", person="alice"):
    """Opened and filled in."""
    who = workspace.person(person)
    seen = await who.choose(card, "card_menu", entry)
    assert seen.acked, seen.failure
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks), LONG)
    return who


async def submitted(workspace, who, values):
    """What the dialog then says, or None where it shows what is wrong."""
    seen = await who.submit(values)
    if seen.failure or who.modal is None or who.modal.errors:
        return None
    await workspace.until(lambda: who.modal and "One moment" not in str(who.modal.blocks), LONG)
    return str(who.modal.blocks)


async def asked(bot, workspace, card, person="alice", entry="Restart runner…", **more):
    """The approval card."""
    who = await dialog(workspace, card, entry, person)
    assert "Asked for as #" in await submitted(workspace, who, {**REASON, **more})
    await who.close_modal()
    await workspace.until(lambda: bot.cards("APPROVAL WANTED"), LONG)
    return bot.cards("APPROVAL WANTED")[-1]


async def approved(workspace, card, person="bob", version=-1):
    seen = await workspace.person(person).press(card, "Approve", confirm=True, version=version)
    return await answer(workspace, seen)


async def rebooting(bot):
    """Asked for, approved, and taken by the node."""
    planned = await bot.desk.planned(Wish(Action.REBOOT_NODE, NODE, "chat", 1), "U0ALICE")
    asked = await bot.desk.ask(Ask(planned.plan, "U0ALICE", "it hangs since midnight", ("gpu_works",), 1))
    assert asked.incident is not None, asked.blockers
    await bot.desk.approve(Click("", "remedy_approve", "U0BOB", ""), number=asked.incident.id)
    await bot.until_state(State.ACCEPTED)
