"""A bot and a node that decide with the real rules, over a network and disks that fail as a random story says."""

import random
from datetime import timedelta

from msgspec.structs import replace

from bot.remedy.approvers import Approvers, no_longer, refusal
from bot.remedy.blockers import Facts as Known
from bot.remedy.blockers import Stall, Switch, Wanted, blockers, unaccepted, wanted_of
from bot.remedy.model import (
    ENDED,
    Answered,
    Approve,
    Blocked,
    Counted,
    Deny,
    Needed,
    NoAnswer,
    Remedy,
    RunnerSeen,
    Seen,
    Send,
    State,
    Stop,
    Tick,
    Times,
)
from bot.remedy.step import step
from tests.build import EPOCH, START
from tests.build_orders import KEY
from tests.flow.remedy_node import NODE, Node, Snapshot
from wire.orders import AcceptedProcess, Action, Order, OrderVerdict, sign_order

TIMES = Times(countdown=timedelta(seconds=60))
PEOPLE = ("U0ALICE", "U0BOB", "U0CAROL")


class World:
    """`told` holds every order that was ever signed, with the request as it was right then."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now, self.fence, self.numbers = START, 1, 0
        self.node = Node(self.dice)
        self.approvers = Approvers(named=frozenset(PEOPLE))
        self.switch: Switch | None = None
        self.request: Remedy | None = None
        self.pending: bytes | None = None
        self.is_waiting = False
        self.network: list[bytes] = []
        self.answers: list[bool] = []
        self.told: dict[str, Remedy] = {}
        self.heard: Snapshot | None = None

    # --- the bot ----------------------------------------------------------------------------------------------------

    def _move(self, event) -> None:
        if self.request is not None:
            self.request, _ = step(self.request, event, self.now)

    def ask(self) -> None:
        beat = self.heard
        if beat is None or (self.request and self.request.state not in ENDED):
            return
        action = self.dice.choice(list(Action)[:2])
        policy = "auto_remedy: both" if self.dice.random() < 0.4 else ""
        accepted = () if policy else ("gpu_works", "unreadable")
        wanted = Wanted(
            action, NODE, "chat", beat.boot, EPOCH, tuple(beat.processes or ()), accepted, 1, policy, "U0ALICE"
        )
        if unaccepted(blockers(wanted, self._known(wanted)), accepted):
            return
        self.numbers += 1
        self.request = Remedy(
            action=action,
            node=NODE,
            group="default",
            asked_by="" if policy else "U0ALICE",
            asked_at=self.now,
            expires_at=self.now + TIMES.approval,
            reason=f"request {self.numbers}",
            boot_id=beat.boot,
            spool_epoch=EPOCH,
            times=TIMES,
            runner="chat",
            about=1,
            policy=policy,
            needed=self.dice.choice([1, 2]),
            processes=tuple(sorted(beat.processes or ())),
            verdict=OrderVerdict.STALLED,
            facts=beat.facts,
            accepted=tuple(one.name for one in blockers(wanted, self._known(wanted)) if one.acceptable),
            state=State.COUNTING if policy else State.ASKED,
        )

    def _known(self, wanted: Wanted) -> Known:
        beat = self.heard
        assert beat is not None
        others = 0 if wanted.action is Action.RESTART_RUNNER or beat.processes is None else len(beat.processes) - 1
        return Known(
            heard_seconds=(self.now - beat.at).total_seconds(),
            boot_id=beat.boot,
            spool_epoch=EPOCH,
            offers=True,
            speaks=True,
            highest_fence=beat.fence,
            fence=self.fence,
            processes=beat.processes,
            others=others,
            stopped=self.switch,
            stall=Stall.HOLDS if beat.hangs else Stall.OVER,
            approvers=None,
            gone=tuple(no_longer(self.request, self.approvers)) if self.request else (),
            allows_policy=True,
        )

    def approve(self) -> None:
        by = self.dice.choice([*PEOPLE, "U0EVE"])
        if self.request and self.request.state is State.ASKED and refusal(self.request, by, self.approvers) is None:
            self._move(Approve(by))

    def begin(self) -> None:
        """As the bot does in one transaction; what it signs is in its memory until it is published."""
        request, beat = self.request, self.heard
        if request is None or beat is None or request.state is not State.APPROVED or self.pending:
            return
        wanted = wanted_of(request)
        if left := unaccepted(blockers(wanted, self._known(wanted)), request.accepted):
            self._move(Blocked(tuple(one.said for one in left)))
            return
        self.numbers += 1
        order = self._order(request, f"order-{self.numbers}", beat)
        self._move(Send(order.order_id, self.fence))
        if self.request is not None and self.request.state is State.SENDING:
            self.told[order.order_id] = self.request
            self.pending = sign_order(KEY, order)

    def _order(self, request: Remedy, order_id: str, beat: Snapshot) -> Order:
        return Order(
            version=1,
            order_id=order_id,
            action=request.action,
            node=NODE,
            boot_id=request.boot_id,
            spool_epoch=EPOCH,
            challenge=beat.challenge,
            fence=self.fence,
            incident_id=2,
            verdict=request.verdict,
            issued=self.now,
            expires=self.now + request.times.order,
            runner=request.facts,
            processes=list(request.processes),
            anything_may_run="unreadable" in request.accepted,
            accepted_blockers=list(request.accepted),
            approvers=[one.by for one in request.approvals],
            policy=request.policy,
        )

    def publish(self) -> None:
        if self.pending:
            self.network.append(self.pending)
            self.pending, self.is_waiting = None, True

    def bot_restarts(self) -> None:
        """What it had in memory is gone, and its config may want more approvals now."""
        self.pending, self.is_waiting, self.answers, self.heard = None, False, [], None
        self.fence += 1
        self._move(Needed(self.dice.choice([1, 1, 1, 2])))
        self._move(NoAnswer())
        self._move(Counted(False))

    def answered(self) -> None:
        if self.is_waiting and self.answers:
            self._move(Answered(self.answers.pop()))
            self.is_waiting = False

    def time_out(self) -> None:
        if self.is_waiting:
            self._move(NoAnswer())
            self.is_waiting = False

    # --- the node ---------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        self.heard = Snapshot(self.node, self.now)
        word = self.node.journal.get(self.request.order_id) if self.request else None
        pid, started = self.node.process
        runner = RunnerSeen("e", pid, started, works=not self.node.hangs)
        self._move(Seen(self.node.boot, self.now, word, "", frozenset(), frozenset(), runner))

    def deliver(self) -> None:
        """Any message that was ever sent, again and again."""
        if self.network:
            is_new = self.dice.random() < 0.7
            taken = self.node.take(self.network[-1] if is_new else self.dice.choice(self.network), self.now)
            if taken is not None:
                self.answers.append(taken)

    def forge(self) -> None:
        """One byte of it is another one."""
        if self.network:
            message = bytearray(self.dice.choice(self.network))
            message[self.dice.randrange(len(message))] ^= 1 << self.dice.randrange(8)
            assert self.node.take(bytes(message), self.now) is None

    def act(self) -> None:
        order = self.node.act(self.now)
        if order is None:
            return
        if self.dice.random() < 0.1:  # killed between the journal and the act
            self.node.agent_restarts()
            return
        self.check(order)
        self.node.do(order, self.now, helps=self.dice.random() < 0.5)

    # --- what must hold whenever something is done --------------------------------------------------------------------

    def check(self, order: Order) -> None:
        request = self.told[order.order_id]
        done = [one.order_id for one, _ in self.node.done]
        assert order.order_id not in done, "twice for one order"
        assert not any(self.told[one].reason == request.reason for one in done), "twice for one approval"
        approved = {one.by for one in request.approvals}
        assert request.policy or (len(approved) >= request.needed and approved <= set(PEOPLE)), "without an approval"
        assert request.needed == 1 or request.policy or "U0ALICE" not in approved, "by the one who asked"
        assert self.now < order.expires <= (request.sent_at or START) + timedelta(seconds=180), "after its time"
        assert order.boot_id == self.node.boot == request.boot_id, "in another boot"
        assert self.node.hangs, "it works again"
        assert request.facts is not None
        assert self.node.completed == request.facts.completed, "it moved since"
        self._check_processes(order, request)

    def _check_processes(self, order: Order, request: Remedy) -> None:
        if order.action is Action.RESTART_RUNNER:
            assert request.facts is not None
            assert self.node.process == (request.facts.pid, request.facts.started), "another process"
        if "unreadable" in request.accepted:
            return
        now = self.node.processes()
        assert now is not None, "what cannot be read is not empty"
        assert now <= set(request.processes), "a process that nobody saw"

    # --- one step of a story ------------------------------------------------------------------------------------------

    def turn(self) -> None:
        name = self.dice.choices(list(_TURNS), list(_TURNS.values()))[0]
        getattr(self, name)()

    def wait(self) -> None:
        self.now += timedelta(seconds=self.dice.choice([1, 5, 20, 50, 100, 200, 700]))
        self._move(Tick())

    def moment(self) -> None:
        self.now += timedelta(seconds=1)

    def deny(self) -> None:
        self._move(Deny("U0BOB"))

    def stop(self) -> None:
        self._move(Stop("U0BOB"))

    def count(self) -> None:
        self._move(Counted(self.dice.random() < 0.9))

    def kill_switch(self) -> None:
        self.switch = Switch("host:root", self.now)

    def resume(self) -> None:
        self.switch = None

    def approver_leaves(self) -> None:
        gone = self.dice.choice(PEOPLE)
        self.approvers = replace(self.approvers, named=frozenset(PEOPLE) - {gone})

    def approvers_return(self) -> None:
        self.approvers = replace(self.approvers, named=frozenset(PEOPLE))

    def recovers(self) -> None:
        self.node.hangs = False
        self.node.completed += 1

    def hangs_again(self) -> None:
        self.node.hangs, self.node.waits = True, self.node.waits + 600.0

    def somebody_starts_a_job(self) -> None:
        self.node.others.add(AcceptedProcess(self.dice.randrange(1000, 1003), str(self.dice.randrange(9))))

    def jobs_end(self) -> None:
        self.node.others.clear()

    def hides(self) -> None:
        self.node.is_hidden = True

    def shows(self) -> None:
        self.node.is_hidden = False

    def process_dies(self) -> None:
        self.node.new_process()

    def reboots_by_itself(self) -> None:
        self.node.reboot()

    def agent_restarts(self) -> None:
        self.node.agent_restarts(with_journal=self.dice.random() < 0.7)


_TURNS = {
    "beat": 30,
    "ask": 20,
    "approve": 25,
    "begin": 25,
    "publish": 25,
    "deliver": 25,
    "answered": 15,
    "act": 25,
    "count": 25,
    "moment": 15,
    "wait": 5,
    "time_out": 2,
    "forge": 3,
    "hangs_again": 15,
    "bot_restarts": 1.5,
    "agent_restarts": 0.7,
    "deny": 0.3,
    "stop": 0.3,
    "kill_switch": 0.3,
    "resume": 6,
    "approver_leaves": 0.3,
    "approvers_return": 6,
    "recovers": 0.7,
    "somebody_starts_a_job": 0.3,
    "hides": 0.3,
    "shows": 5,
    "jobs_end": 3,
    "process_dies": 0.3,
    "reboots_by_itself": 0.3,
}
