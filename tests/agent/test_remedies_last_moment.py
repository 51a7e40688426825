"""Between the journal and the act: time that runs out there, and a disk that refuses there, end in nothing done."""

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.observe import Latest, grid_of
from agent.remedies.facts import Allowed, Limit
from agent.remedies.journal import Journal
from agent.remedies.node import Node
from agent.remedies.orders import Orders
from agent.remedy_config import Reboot, Remedies
from agent.sample import Sampler, fresh_window
from agent.trusted_keys import TrustedKeys
from agent.verdicts import Sample
from tests.agent.build_samples import gpu, process, sample
from tests.agent.test_remedies_journal import NodeClock
from tests.build import EPOCH
from tests.build_orders import KEY, PROCESSES, order
from tests.nats_server import NatsServer, connected, until
from wire import nodefiles, subjects
from wire.messages import Verdict
from wire.orders import Action, Order, OrderVerdict, sign_order
from wire.reasons import UNLISTED, Reason, ReasonCode
from wire.remedies import NodeRemedies, OrderState, Refusal, decode_answer

NODE = "gpu-01"


class WatchedClock(NodeClock):
    """Tells when somebody asks for the time."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: Callable[[], None] = lambda: None

    def wall(self) -> datetime:
        self.looked_at()
        return super().wall()


class Rig:
    """Orders of one node on the real bus, with a clock that the test moves; `done` is what a reboot would leave."""

    def __init__(self, folder: Path, link, on_tell: Callable[["Rig"], None]) -> None:
        (folder / "state").mkdir()
        self.folder, self.clock, self.done = folder, WatchedClock(), folder / "done"
        self.reasons = [Reason(ReasonCode.UTILIZATION, "50")]
        self.unlisted = ""
        nodefiles.order_key_file(folder / "state").write_text(nodefiles.order_key_text(bytes(KEY.verify_key)))
        command = folder / "reboot"
        command.write_text(f"#!/bin/sh\ntouch {self.done}\n")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        self.journal = Journal(folder / "state", self.clock)
        self.journal.open()
        grid = grid_of(NODE, timedelta(seconds=1), timedelta(milliseconds=50))
        self.sampler = Sampler(grid, self.clock, self._sample, timedelta(seconds=5), fresh_window(grid, self.clock))
        remedies = Remedies(reboot_node=Reboot(method="command", command=[str(command)]), lock_file=folder / "lock")
        node = Node(NODE, self.clock, self.journal, Allowed(reboot=Limit(3600.0, 2)), self.sampler, None, lambda: EPOCH)

        async def tell() -> bool:
            on_tell(self)
            return True

        self.orders = Orders(remedies, node, TrustedKeys(folder / "state", self.clock), link, tell, lambda: None)

    async def _sample(self) -> Sample:
        listed = tuple(process(one.pid, started=one.started) for one in PROCESSES)
        return sample(gpu(0, Verdict.HELD, *self.reasons, processes=listed, unlisted=self.unlisted))

    def order(self) -> Order:
        now = self.clock.wall()
        values = {"challenge": self.journal.challenge, "issued": now, "expires": now + timedelta(seconds=180)}
        return order(Action.REBOOT_NODE, verdict=OrderVerdict.NONE, runner=None, incident_id=0, **values)

    @property
    def told(self) -> NodeRemedies:
        return self.orders.told()


@contextlib.asynccontextmanager
async def rig(folder: Path, on_tell: Callable[[Rig], None]) -> AsyncIterator[tuple[Rig, Callable]]:
    bus = NatsServer(folder / "nats", [NODE])
    async with bus, bus.bot() as bot, connected(bus.node_link(NODE)) as link:
        made = Rig(folder, link, on_tell)
        await made.orders.listen()
        tasks = [asyncio.create_task(made.sampler.run()), asyncio.create_task(made.orders.run())]

        async def ask(one: Order):
            answer = await bot.request(subjects.command(NODE), sign_order(KEY, one), timedelta(seconds=60))
            return decode_answer(NODE, answer)

        try:
            await until(lambda: made.sampler.latest, "a sample")
            yield made, ask
        finally:
            for task in tasks:
                task.cancel()


async def ended(made: Rig):
    return await until(
        lambda: next((e for e in made.told.journal if e.state not in (OrderState.ACCEPTED, OrderState.ACTING)), None),
        "its end",
        30,
    )


async def test_an_order_of_which_nothing_changes_is_carried_out(tmp_path: Path) -> None:
    async with rig(tmp_path, lambda made: None) as (made, ask):
        assert (await ask(made.order())).accepted
        await until(made.done.exists, "it is done", 30)
        assert made.told.journal[0].state is OrderState.ACTING, "a reboot is done when the next boot says so"


@pytest.mark.parametrize("code", sorted(UNLISTED))
async def test_where_the_driver_may_leave_processes_out_nothing_is_begun_on_the_strength_of_its_list(
    tmp_path: Path, code: ReasonCode
) -> None:
    """Outside the host's PID namespace it reports success all the same."""
    async with rig(tmp_path, lambda made: None) as (made, ask):
        made.reasons = [Reason(code, "the agent runs in a PID namespace of its own")]
        made.clock.pass_time(5)
        await until(lambda: made.sampler.latest.sample.gpus[0].reasons == tuple(made.reasons), "a sample", 30)
        answer = await ask(made.order())
        assert (answer.accepted, answer.refusal) == (False, Refusal.PROCESSES_UNREADABLE)
        assert not made.done.exists()


async def test_where_the_collector_cannot_list_all_processes_nothing_is_begun_on_the_strength_of_its_list(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, lambda made: None) as (made, ask):
        made.unlisted = "nvidia-smi cannot list graphics processes"
        made.clock.pass_time(5)
        await until(lambda: made.sampler.latest.sample.gpus[0].unlisted, "a sample", 30)
        answer = await ask(made.order())
        assert (answer.accepted, answer.refusal) == (False, Refusal.PROCESSES_UNREADABLE)
        assert "graphics" in answer.detail
        assert not made.done.exists()


@pytest.mark.parametrize("is_set_back", [False, True])
async def test_an_order_whose_time_runs_out_after_it_was_written_down_is_not_begun(
    tmp_path: Path, is_set_back: bool
) -> None:
    """Also where somebody sets the wall clock back meanwhile."""

    def wait(made: Rig) -> None:
        made.clock.pass_time(180)
        if is_set_back:
            made.clock.label -= timedelta(days=1)

    async with rig(tmp_path, wait) as (made, ask):
        assert (await ask(made.order())).accepted
        entry = await ended(made)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.EXPIRED)
        assert not made.done.exists()
        assert made.journal.acts() == (), "it counts for no limit"


async def test_a_process_that_starts_after_the_order_was_written_down_is_not_killed(tmp_path: Path) -> None:
    def somebody_starts(made: Rig) -> None:
        latest = made.sampler.latest
        assert latest is not None
        listed = (*(latest.sample.gpus[0].processes or ()), process(5000, started="9"))
        made.sampler.latest = Latest(
            sample(gpu(0, Verdict.HELD, *made.reasons, processes=listed)), latest.began_seconds
        )

    async with rig(tmp_path, somebody_starts) as (made, ask):
        assert (await ask(made.order())).accepted
        entry = await ended(made)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.PROCESSES_CHANGED)
        assert "5000" in entry.detail
        assert not made.done.exists()
        assert made.journal.acts() == (), "it counts for no limit"


async def test_a_disk_that_refuses_when_it_shall_begin_lets_nothing_begin(tmp_path: Path) -> None:
    """Its folder goes away between the answer and the beginning."""
    async with rig(tmp_path, lambda made: None) as (made, ask):

        def look() -> None:
            if made.journal.under_way() and (tmp_path / "state").exists():
                os.rename(tmp_path / "state", tmp_path / "gone")

        made.clock.looked_at = look
        assert (await ask(made.order())).accepted
        entry = await ended(made)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.JOURNAL_BROKEN)
        assert "cannot be written" in entry.detail
        assert not made.done.exists()


async def test_a_disk_that_refuses_an_order_at_its_receipt_refuses_it(tmp_path: Path) -> None:
    async with rig(tmp_path, lambda made: None) as (made, ask):
        os.rename(tmp_path / "state", tmp_path / "gone")
        (tmp_path / "state").mkdir()
        os.rename(nodefiles.order_key_file(tmp_path / "gone"), nodefiles.order_key_file(tmp_path / "state"))
        os.rename(tmp_path / "state", tmp_path / "kept")
        (tmp_path / "state").symlink_to(tmp_path / "kept")
        (tmp_path / "kept" / "remedies.json").mkdir()
        answer = await ask(made.order())
        assert (answer.accepted, answer.refusal) == (False, Refusal.JOURNAL_BROKEN)
        assert not made.done.exists()


@pytest.mark.slow  # the disk has 10 s
async def test_an_order_that_a_hanging_disk_takes_too_late_ends_as_refused_and_keeps_no_other_away(
    tmp_path: Path,
) -> None:
    """The bot was told that it was refused, or nothing: it must not look as if it were under way for ever."""
    async with rig(tmp_path, lambda made: None) as (made, ask):
        answers_again = threading.Event()

        def hang() -> None:
            if threading.current_thread() is not threading.main_thread():
                answers_again.wait(60)

        made.clock.looked_at = hang
        first = made.order()
        assert (await ask(first)).refusal is Refusal.JOURNAL_BROKEN
        answers_again.set()
        entry = await ended(made)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.JOURNAL_BROKEN)
        assert not made.done.exists()
        assert (await ask(replace(made.order(), order_id="f" * 32))).accepted
        await until(made.done.exists, "the next one is done", 30)
