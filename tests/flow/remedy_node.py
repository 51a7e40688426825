"""A node for stories: it decides with the real guard, restarts and reboots, and can lose its journal."""

import random

from agent.remedies import guard
from agent.remedies.facts import Act, Allowed, Asked, Facts, Limit, ProcessesNow
from agent.remedies.refused import Refused
from agent.runner_reading import CanaryResult
from bot.remedy.look import facts_of
from tests.build import EPOCH
from tests.build_orders import KEY
from tests.build_ticks import hung, tick
from wire.orders import AcceptedProcess, Action, Order, RunnerFacts
from wire.remedies import AutoRemedy, OrderState
from wire.ticks import CanaryOutcome

NODE = "gpu-01"
LIMIT = Limit(60.0, 5)
ALLOWED = Allowed({"chat": LIMIT}, LIMIT, AutoRemedy.RESTART_THEN_REBOOT)


class Snapshot:
    """The node as a heartbeat told it."""

    def __init__(self, node: "Node", at) -> None:
        self.at, self.boot, self.challenge, self.fence = at, node.boot, node.challenge, node.fence
        self.processes, self.facts = node.processes(), node.facts_now()
        self.hangs, self.journal, self.process = node.hangs, dict(node.journal), node.process


class Node:
    """One machine: what runs there, the journal of its agent, and everything that was ever done to it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.boots, self.restarts = dice, 1, 0
        self.process, self.others, self.is_hidden = (4321, "100"), {AcceptedProcess(999, "50")}, False
        self.completed, self.hangs, self.waits = 800.0, True, 1020.0
        self.challenge, self.fence = self._new_challenge(), 0
        self.journal: dict[str, OrderState] = {}
        self.taken: dict[str, tuple[Order, object]] = {}
        self.done: list[tuple[Order, object]] = []

    @property
    def boot(self) -> str:
        return f"b0000000-0000-4000-8000-{self.boots:012d}"

    def _new_challenge(self) -> str:
        return f"{self.dice.getrandbits(64):016x}"

    def processes(self) -> frozenset[AcceptedProcess] | None:
        return None if self.is_hidden else frozenset({AcceptedProcess(*self.process), *self.others})

    def tick(self):
        pid, started = self.process
        make = hung if self.hangs else tick
        changes = {"has_moved": True} if not self.hangs else {"no_progress_seconds": self.waits}
        return make(
            runner="chat",
            pid=pid,
            process_started=started,
            epoch=f"{self.boots}/{started}",
            completed=self.completed,
            **changes,
        )

    def facts_now(self) -> RunnerFacts:
        return facts_of(self.tick())

    def _facts(self, now, received_at, asked=None) -> Facts:
        hidden = "they cannot be read" if self.is_hidden else ""
        return Facts(
            node=NODE,
            boot_id=self.boot,
            spool_epoch=EPOCH,
            challenge=self.challenge,
            highest_fence=self.fence,
            now=now,
            received_at=received_at,
            allowed=ALLOWED,
            seen=frozenset(self.journal),
            under_way=next((key for key, state in self.journal.items() if state is OrderState.ACCEPTED), ""),
            acts=tuple(self._acts(now)),
            processes=ProcessesNow(self.processes() or frozenset(), hidden),
            tick=self.tick(),
            asked=asked,
        )

    def _acts(self, now):
        for order, at in self.done:
            yield Act(order.action, "chat", (now - at).total_seconds(), order.boot_id == self.boot)

    def take(self, message: bytes, now) -> bool | None:
        """Whether it answers that it took the order; None where it cannot even read it."""
        order = guard.read_order(message, [bytes(KEY.verify_key)])
        if isinstance(order, Refused):
            return None
        facts = self._facts(now, now)
        refused = guard.at_receipt(order, facts)
        if guard.is_spent(order, facts):
            self.journal[order.order_id] = OrderState.ACCEPTED if refused is None else OrderState.REFUSED
            self.challenge, self.fence = self._new_challenge(), max(self.fence, order.fence)
        if refused is None:
            self.taken[order.order_id] = (order, now)
        return refused is None

    def act(self, now) -> Order | None:
        """Asks a canary and everything else once more, writes it down, and does it. None: nothing was done."""
        for order_id, (order, received_at) in list(self.taken.items()):
            del self.taken[order_id]
            outcome = CanaryOutcome.TIMEOUT if self.hangs else CanaryOutcome.OK
            facts = self._facts(now, received_at, Asked(CanaryResult(outcome, 1.0)))
            if guard.before_acting(order, facts) is not None:
                self.journal[order_id] = OrderState.REFUSED
                continue
            self.journal[order_id] = OrderState.ACTING
            return order
        return None

    def do(self, order: Order, now, *, helps: bool) -> None:
        self.done.append((order, now))
        self.journal[order.order_id] = OrderState.DONE
        if order.action is Action.REBOOT_NODE:
            self.reboot()
        else:
            self.new_process()
        self.hangs = not helps

    def reboot(self) -> None:
        self.boots += 1
        self.agent_restarts()
        self.new_process()

    def new_process(self) -> None:
        self.restarts += 1
        self.process = (4321 + self.dice.randrange(2), str(100 + self.restarts))  # PIDs come again
        self.waits = 0.0

    def agent_restarts(self, *, with_journal: bool = True) -> None:
        self.taken.clear()
        if not with_journal:
            self.journal, self.challenge, self.fence = {}, self._new_challenge(), 0
        for key, state in self.journal.items():
            if state is OrderState.ACCEPTED:
                self.journal[key] = OrderState.REFUSED
            elif state is OrderState.ACTING:
                self.journal[key] = OrderState.LOST
