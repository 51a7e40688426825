"""Takes orders from the bus: guard, journal, answer; then asks once more, writes that it begins, and begins."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from nats.aio.msg import Msg

from agent.remedies import guard, reason
from agent.remedies.act import Ended, reboot, restart
from agent.remedies.host_lock import HostBusyError, HostLock
from agent.remedies.journal import Journal, JournalError
from agent.remedies.node import Node, Received
from agent.remedies.offers import node_remedies
from agent.remedies.proof import prove
from agent.remedies.refused import Refused
from agent.remedy_config import Remedies
from agent.runners import proc
from agent.runners.offloop import OffLoop
from agent.runners.sources import READ_SECONDS
from agent.ticks import RunnerWatch
from agent.trusted_keys import TrustedKeys
from wire import subjects
from wire.link import Link
from wire.orders import Action, Order
from wire.remedies import ANSWER_VERSION, LONGEST_DETAIL, Answer, NodeRemedies, OrderState, Refusal, encode_answer
from wire.ticks import sentence

log = logging.getLogger(__name__)

MOST_WAITING = 4
DISK_SECONDS = 10.0
AGAIN_SECONDS = 1.0
GONE_SECONDS, GONE_LOOKS = 5.0, 25
COMES_UP = timedelta(minutes=30)  # from a start to the first answer: weights from a slow disk
STILL_UP = timedelta(minutes=5)

Tell = Callable[[], Awaitable[bool]]


class Orders:
    """One node's orders, one at a time.

    `tell` sends a heartbeat now, and says whether the bus has it; `changed` asks for one soon.
    """

    def __init__(
        self, remedies: Remedies, node: Node, keys: TrustedKeys, link: Link, tell: Tell, changed: Callable[[], None]
    ) -> None:
        self._remedies, self._node, self._keys, self._link = remedies, node, keys, link
        self._tell, self._changed = tell, changed
        self._journal: Journal = node.journal
        self._lock = HostLock(remedies.lock_file)
        self._waiting: asyncio.Queue[tuple[bytes, str, Received]] = asyncio.Queue(MOST_WAITING)
        self._disk, self._writing, self._looking = OffLoop(), asyncio.Lock(), OffLoop()

    def told(self) -> NodeRemedies:
        """For the heartbeat."""
        journal = self._journal
        return node_remedies(self._remedies, journal.challenge, journal.highest_fence, journal.told())

    async def listen(self) -> None:
        """On this connection and all later ones."""
        await self._link.subscribe(subjects.command(self._node.name), self._hear)

    async def run(self) -> None:
        """Until it is cancelled. An order that is being carried out then is told by the next run of the agent."""
        async with asyncio.TaskGroup() as tasks:
            for runner in self._journal.rebooted_for:
                self._follow(tasks, self._node.watch(runner), comes_up=True)
            while True:
                message, reply, received = await self._waiting.get()
                try:
                    await self._answered(message, reply, received, tasks)
                except Exception:  # without an answer, an order that was not begun is none: everything else goes on
                    log.exception("looking at an order failed, which is a bug")

    async def _answered(self, message: bytes, reply: str, received: Received, tasks: asyncio.TaskGroup) -> None:
        order, answer = await self._take(message, received)
        await self._link.publish_core(reply, encode_answer(answer))
        self._changed()
        if order is not None and answer.accepted:
            tasks.create_task(self._carry_out(order, received, tasks))
        elif order is not None and answer.refusal is Refusal.JOURNAL_BROKEN:
            # A disk that only hung may still write it down, as one that was taken.
            tasks.create_task(self._end(order, OrderState.REFUSED, answer.detail, answer.refusal))

    async def _hear(self, message: Msg) -> None:
        """Whoever sends faster than a disk writes gets no answer: an order without one has not been taken."""
        if not message.reply:
            return
        try:
            self._waiting.put_nowait((message.data, message.reply, self._node.received()))
        except asyncio.QueueFull:
            log.error("orders come faster than they can be looked at, one is not answered")

    async def _take(self, message: bytes, received: Received) -> tuple[Order | None, Answer]:
        order = guard.read_order(message, await asyncio.to_thread(self._keys.valid))
        if isinstance(order, Refused):
            return None, self._answer("", order)
        facts = self._node.facts(order, received)
        refused = guard.at_receipt(order, facts)
        try:
            if guard.is_spent(order, facts):
                await self._write(partial(self._journal.spend, order, refused))
            elif order.node == facts.node:
                await self._write(partial(self._journal.saw_fence, order.fence))
        except JournalError as error:
            refused = Refused(Refusal.JOURNAL_BROKEN, str(error))
        return order, self._answer(order.order_id, refused)

    def _answer(self, order_id: str, refused: Refused | None) -> Answer:
        if refused is None:
            log.warning("order taken, it is asked once more before it begins order=%s", order_id)
            return Answer(ANSWER_VERSION, self._node.name, order_id, accepted=True)
        log.warning("order refused order=%s code=%s why=%s", order_id or "?", refused.code, refused.why)
        return Answer(
            ANSWER_VERSION, self._node.name, order_id, False, refused.code, sentence(refused.why, LONGEST_DETAIL)
        )

    def _follow(self, tasks: asyncio.TaskGroup, watch: RunnerWatch | None, comes_up: bool) -> None:
        """What is seen of the runner from here on is of its new start, and is no news about the old one."""
        if watch is None:
            return
        if comes_up:
            watch.comes_up(self._node.received().at_seconds + COMES_UP.total_seconds())
        tasks.create_task(prove(watch))

    async def _carry_out(self, order: Order, received: Received, tasks: asyncio.TaskGroup) -> None:
        try:
            ended = await self._begin(order, received)
            if ended is not None and order.runner is not None:
                self._follow(tasks, self._node.watch(order.runner.runner), ended.state is not OrderState.FAILED)
            if ended is not None:
                await self._end(order, ended.state, ended.detail)
        except Exception:
            log.exception("an order failed, which is a bug order=%s", order.order_id)
            await self._end(order, OrderState.LOST, "the agent failed while it carried it out; its log says how")
        finally:
            self._lock.release()
            self._changed()

    async def _begin(self, order: Order, received: Received) -> Ended | None:
        """How it ended; None where nothing was done."""
        refused = await self._asked_again(order, received) or self._locked()
        if refused is None:
            refused = await self._written_and_told(order, received)
        if refused is not None:
            log.warning("order not carried out order=%s code=%s why=%s", order.order_id, refused.code, refused.why)
            await self._end(order, OrderState.REFUSED, f"{refused.why}: nothing was done", refused.code)
            return None
        ended = await self._act(order)
        log.warning("order ended order=%s state=%s %s", order.order_id, ended.state, ended.detail)
        return ended

    async def _asked_again(self, order: Order, received: Received) -> Refused | None:
        left = (order.expires - received.at).total_seconds()
        try:
            async with asyncio.timeout(left):
                facts = await self._node.asked(order, received)
        except TimeoutError:
            return Refused(Refusal.EXPIRED, "it could not be asked in time whether it is still true")
        return guard.before_acting(order, facts)

    def _locked(self) -> Refused | None:
        try:
            self._lock.take()
        except HostBusyError as error:
            return Refused(Refusal.HOST_BUSY, str(error))
        return None

    async def _written_and_told(self, order: Order, received: Received) -> Refused | None:
        """On disk first; then everybody knows before the node may be gone. Then a last look."""
        text = reason.reason_of(order)
        try:
            await self._write(partial(self._journal.acting, order, text))
        except JournalError as error:
            return Refused(Refusal.JOURNAL_BROKEN, str(error))
        reason.note(text)
        if not await self._tell():
            log.error("no heartbeat could be sent before an order is carried out order=%s", order.order_id)
        return guard.at_last(order, self._node.facts(order, received))

    async def _act(self, order: Order) -> Ended:
        if order.action is Action.REBOOT_NODE:
            return await self._reboot(order)
        said = order.runner
        if said is None:
            return Ended(OrderState.FAILED, "it names no runner")
        watch = self._node.watch(said.runner)
        ended = await restart(self._remedies.restart_runner[said.runner], _environment(order))
        if said.pid is None:
            return ended
        why = await self._survives(said.pid, said.started)
        if watch is not None:
            watch.killed(said.pid, partial(proc.survived_kill, said.pid, said.started))
            watch.wanted.set()
        if not why:
            return ended
        is_done = ended.state is OrderState.DONE
        return Ended(OrderState.FAILED if is_done else ended.state, f"{ended.detail}; {why}")

    async def _survives(self, pid: int, started: str) -> str:
        """Why the restart was none: the old process is still there. "" when it is gone."""
        try:
            for _ in range(GONE_LOOKS):
                if await self._looking.read(lambda: proc.process(pid).started != started, READ_SECONDS):
                    return ""
                await asyncio.sleep(GONE_SECONDS / GONE_LOOKS)
            if await self._looking.read(lambda: proc.survived_kill(pid, started), READ_SECONDS):
                return f"process {pid} lives on after SIGKILL: only a reboot ends it"
        except OSError:  # a TimeoutError is one too
            return f"it cannot be read whether process {pid} is gone"
        return f"process {pid} is still there: it is not what was restarted"

    async def _reboot(self, order: Order) -> Ended:
        how = self._remedies.reboot_node
        if how is None:
            return Ended(OrderState.FAILED, "it is not in the config any more")
        ended = await reboot(how, reason.reason_of(order), _environment(order))
        if ended.state is not OrderState.DONE:
            return ended
        await asyncio.sleep(STILL_UP.total_seconds())  # as a rule the node is gone long before
        words = f"the reboot was taken, and the node is still up {STILL_UP // timedelta(minutes=1)} min later"
        return Ended(OrderState.LOST, words)

    async def _end(self, order: Order, state: OrderState, detail: str, refusal: Refusal | None = None) -> None:
        """Again until a disk that hangs has taken it: an order that never ends keeps all later ones away."""
        is_logged = False
        while True:
            try:
                await self._write(partial(self._journal.end, order, state, detail, refusal))
                break
            except JournalError as error:
                if not is_logged:
                    log.error("the outcome of an order cannot be kept yet order=%s error=%s", order.order_id, error)
                is_logged = True
                await asyncio.sleep(AGAIN_SECONDS)
        self._changed()

    async def _write(self, work: Callable[[], None]) -> None:
        """One after the other. Raises JournalError, also for a disk that hangs."""
        try:
            async with self._writing:
                await self._disk.read(work, DISK_SECONDS)
        except TimeoutError as error:
            raise JournalError(f"the disk with {self._journal.path} does not answer: {error}") from error


def _environment(order: Order) -> Mapping[str, str]:
    """What a command may want to know."""
    said = order.runner
    return {
        "GPU_ONCALL_NODE": order.node,
        "GPU_ONCALL_RUNNER": "" if said is None else said.runner,
        "GPU_ONCALL_PID": "" if said is None or said.pid is None else str(said.pid),
        "GPU_ONCALL_REASON": reason.reason_of(order),
    }
