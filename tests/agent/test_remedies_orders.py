"""Orders on the real bus to the real agent: one that is carried out, and every attack, which ends in nothing done."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.clock import Clock
from tests.agent.answering import Reply
from tests.agent.order_node import METRICS, TOKEN, OrderNode, order_node, with_facts
from tests.build import OTHER_BOOT
from tests.build_orders import KEY, OTHER_KEY
from tests.nats_server import NatsServer, until
from wire import nodefiles
from wire.acks import Failure
from wire.orders import SHARED_PROCESS, AcceptedProcess, Action, Order, OrderVerdict, sign_order
from wire.remedies import AutoRemedy, OrderState, Refusal

NODES = ["node-a", "node-b"]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats", NODES) as server:
        yield server


@pytest.fixture
async def node(server: NatsServer, tmp_path: Path) -> AsyncIterator[OrderNode]:
    async with server.bot() as bot, order_node(server, bot, tmp_path / "a") as node:
        await node.start()
        await node.stalled()
        yield node


async def test_an_approved_restart_is_accepted_carried_out_once_and_told(node: OrderNode) -> None:
    before = node.remedies
    order = node.order()
    answer = await node.ask(order)
    assert (answer.accepted, answer.order_id, answer.refusal) == (True, order.order_id, None)
    entry = await node.entry(order)
    assert (entry.state, entry.detail, entry.runner) == (OrderState.DONE, "systemctl ended well", "chat")
    assert node.done == ["--no-ask-password restart -- vllm.service"]
    assert not node.runner_lives()
    assert node.vllm.paths("POST") != [], "it was asked for a token right before"
    acting = next(e for beat in node.beats for e in beat.remedies.journal if e.state is OrderState.ACTING)
    assert "approved by U0123" in acting.detail, "told before it was begun"
    assert node.remedies.challenge != before.challenge
    assert node.remedies.highest_fence == 7
    assert "gpu-oncall restarts chat" in node.log


async def test_what_the_node_offers_is_in_its_heartbeat(node: OrderNode) -> None:
    remedies = node.remedies
    assert remedies.order_versions == [1]
    assert remedies.restart_runner == {"chat": "systemd unit vllm.service"}
    assert (remedies.reboot_node, remedies.auto_remedy, remedies.policy_line) == ("systemd", AutoRemedy.OFF, "")
    process = next(p for gpu in node.beats[-1].gpus for p in gpu.processes or ())
    assert (process.pid, process.started) == (node.tick.pid, node.tick.process_started)


async def nothing_done(node: OrderNode, order: Order | bytes, refusal: Refusal, words: str) -> None:
    """Refused at once."""
    answer = await node.ask(order)
    assert (answer.accepted, answer.refusal) == (False, refusal), answer
    assert words in answer.detail
    assert node.done == []
    assert node.runner_lives()


async def not_begun(node: OrderNode, order: Order, refusal: Refusal, words: str) -> None:
    """Accepted, asked once more, and then refused."""
    answer = await node.ask(order)
    assert answer.accepted, answer
    entry = await node.entry(order)
    assert (entry.state, entry.refusal) == (OrderState.REFUSED, refusal), entry
    assert words in entry.detail
    assert entry.detail.endswith(": nothing was done")
    assert node.done == []
    assert node.runner_lives()


async def test_what_is_not_the_bots_for_this_node_and_moment_is_refused_and_the_next_good_order_still_counts(
    node: OrderNode,
) -> None:
    """One node for all of them: none of these may spend the challenge, or stop a good order after them."""
    good = node.order()
    signed = sign_order(KEY, good)
    changed = signed.replace(b"restart_runner", b"restart_Runner")
    late = Clock().wall() - timedelta(minutes=10)
    for message, refusal, words in (
        (b"", Refusal.BAD_SIGNATURE, "not signed"),
        (b"\xff" * 200, Refusal.BAD_SIGNATURE, "not signed"),
        (sign_order(OTHER_KEY, good), Refusal.BAD_SIGNATURE, "not signed"),
        (changed, Refusal.BAD_SIGNATURE, "not signed"),
        (node.order(node="node-b"), Refusal.OTHER_NODE, "node-b"),
        (node.order(challenge="0" * 32), Refusal.STALE_CHALLENGE, "challenge"),
    ):
        await nothing_done(node, message, refusal, words)
    assert node.remedies.challenge == good.challenge
    for order, refusal, words in (
        (node.order(boot_id=OTHER_BOOT), Refusal.OTHER_BOOT, "booted since"),
        (node.order(spool_epoch="f" * 32), Refusal.OTHER_SPOOL_EPOCH, "state folder"),
        (node.order(issued=late, expires=late + timedelta(seconds=180)), Refusal.EXPIRED, "before now"),
        (
            node.order(issued=late + timedelta(hours=1), expires=late + timedelta(hours=1, seconds=180)),
            Refusal.FROM_THE_FUTURE,
            "clocks is wrong",
        ),
        (with_facts(node.order(), pid=1), Refusal.OTHER_PROCESS, "another now"),
        (with_facts(node.order(), completed=1.0), Refusal.RECOVERED, "completed"),
        (node.order(processes=[]), Refusal.PROCESSES_CHANGED, "started on these GPUs"),
        (
            node.order(processes=[AcceptedProcess(node.runner.pid, "1")]),
            Refusal.PROCESSES_CHANGED,
            str(node.runner.pid),
        ),
        (node.order(approvers=[], policy="bot: restart"), Refusal.POLICY_NOT_ALLOWED, "auto_remedy: off"),
        (node.order(runner=replace(node.order().runner, runner="other")), Refusal.NOT_ENABLED, "restart_runner.other"),
    ):
        fresh = replace(order, challenge=await new_challenge(node))
        await nothing_done(node, fresh, refusal, words)
        entry = await node.entry(fresh)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, refusal), "also in the journal, should it get lost"
    assert (await node.ask(node.order(challenge=await new_challenge(node)))).accepted


async def new_challenge(node: OrderNode) -> str:
    """The one that is heard when all is quiet: a heartbeat after each order."""
    heard = len(node.beats)
    await until(lambda: len(node.beats) > heard + 1, "two more heartbeats")
    return node.remedies.challenge


async def test_an_order_that_comes_again_is_refused_as_replayed_also_after_a_restart_of_the_agent(
    node: OrderNode,
) -> None:
    order = node.order()
    message = sign_order(KEY, order)
    assert (await node.ask(message)).accepted
    await node.entry(order)
    again = await node.ask(message)
    assert (again.accepted, again.refusal) == (False, Refusal.REPLAYED)
    await node.kill()
    await node.start()
    again = await node.ask(message)
    assert (again.accepted, again.refusal) == (False, Refusal.REPLAYED)
    assert len(node.done) == 1


async def test_an_order_that_comes_again_after_the_journal_was_lost_is_refused_by_its_challenge(
    node: OrderNode,
) -> None:
    order = node.order()
    message = sign_order(KEY, order)
    assert (await node.ask(message)).accepted
    await node.entry(order)
    await node.kill()
    (node.folder / "state" / "remedies.json").unlink()
    await node.start()
    again = await node.ask(message)
    assert (again.accepted, again.refusal) == (False, Refusal.STALE_CHALLENGE)
    assert len(node.done) == 1


async def test_a_bot_that_was_replaced_is_refused(node: OrderNode) -> None:
    first = node.order(fence=9, verdict=OrderVerdict.LOAD_STUCK)
    assert not (await node.ask(first)).accepted
    await until(lambda: node.remedies.highest_fence == 9, "the fence is told")
    await nothing_done(node, node.order(fence=8), Refusal.LOWER_FENCE, "number 8, seen before 9")
    stale = await node.ask(node.order(fence=11, challenge="0" * 32))
    assert stale.refusal is Refusal.STALE_CHALLENGE
    await until(lambda: node.remedies.highest_fence == 11, "also the fence of an order that was not taken is told")
    await nothing_done(node, node.order(fence=10), Refusal.LOWER_FENCE, "number 10, seen before 11")


async def test_a_second_restart_is_too_soon(node: OrderNode) -> None:
    order = node.order()
    assert (await node.ask(order)).accepted
    await node.entry(order)
    answer = await node.ask(node.order(challenge=await new_challenge(node)))
    assert (answer.accepted, answer.refusal) == (False, Refusal.TOO_SOON)
    assert len(node.done) == 1


async def test_a_process_that_serves_another_runner_too_is_left_alone_unless_that_was_accepted(
    server: NatsServer, tmp_path: Path
) -> None:
    async with server.bot() as bot, order_node(server, bot, tmp_path / "a", also=["embed"]) as node:
        await node.start()
        await node.stalled()
        await until(lambda: len(node.beats[-1].runners) == 2, "both are watched", 30)
        await nothing_done(node, node.order(), Refusal.NOT_CONFIRMED, "its process also serves embed")
        order = node.order(challenge=await new_challenge(node), accepted_blockers=[SHARED_PROCESS])
        assert (await node.ask(order)).accepted
        assert (await node.entry(order)).state is OrderState.DONE


async def test_what_was_not_switched_on_on_this_node_is_refused(server: NatsServer, tmp_path: Path) -> None:
    async with server.bot() as bot, order_node(server, bot, tmp_path / "a", reboot_node=None) as node:
        await node.start()
        await node.stalled()
        assert node.remedies.reboot_node is None
        await nothing_done(node, node.order(Action.REBOOT_NODE), Refusal.NOT_ENABLED, "reboot_node is not in")


async def test_a_node_that_offers_nothing_says_nothing_and_hears_no_order(server: NatsServer, tmp_path: Path) -> None:
    off: dict[str, Any] = {"restart_runner": {}, "reboot_node": None}
    async with server.bot() as bot, order_node(server, bot, tmp_path / "a", **off) as node:
        await node.start()
        assert node.beats[-1].remedies is None
        assert isinstance(await node.send(b"x" * 100), Failure)
        assert not (node.folder / "state" / "remedies.json").exists()


async def test_a_node_without_the_bots_key_takes_no_order(node: OrderNode) -> None:
    nodefiles.order_key_file(node.folder / "state").unlink()
    await nothing_done(node, node.order(), Refusal.NO_KEY, "no key")


async def test_processes_that_cannot_be_read_are_not_taken_for_none(node: OrderNode) -> None:
    order = node.order()
    node.hold("unreadable")
    await until(lambda: node.beats[-1].gpus[0].processes is None, "it is unreadable")
    await nothing_done(node, order, Refusal.PROCESSES_UNREADABLE, "GPU 0 cannot be read")


async def test_processes_that_cannot_be_read_and_were_accepted_by_name_stop_nothing(node: OrderNode) -> None:
    node.hold("unreadable")
    await until(lambda: node.beats[-1].gpus[0].processes is None, "it is unreadable")
    order = node.order(anything_may_run=True, accepted_blockers=["processes_unreadable"])
    assert (await node.ask(order)).accepted
    assert (await node.entry(order)).state is OrderState.DONE


async def test_a_process_that_starts_while_the_canary_is_out_stops_the_restart(node: OrderNode) -> None:
    node.vllm.routes["/v1/completions"] = Reply(hang=True)
    order = node.order()
    assert (await node.ask(order)).accepted
    node.hold(node.runner.pid, 1)
    entry = await node.entry(order)
    assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.PROCESSES_CHANGED)
    assert node.done == []


async def test_a_runner_that_answers_now_is_left_alone(node: OrderNode) -> None:
    order = node.order()
    await until(lambda: node.tick.canary_outstanding_seconds is None, "no canary is on its way")
    node.vllm.routes["/v1/completions"] = TOKEN
    await not_begun(node, order, Refusal.RECOVERED, "answered a canary")


async def test_a_canary_that_was_on_its_way_when_the_order_came_does_not_speak_for_now(node: OrderNode) -> None:
    """Its request hangs for ever, and the runner works again meanwhile."""
    node.vllm.routes["/v1/completions"] = Reply(hang=True)
    await until(lambda: node.tick.canary_outstanding_seconds is not None, "a canary is on its way", 30)
    order = node.order()
    assert (await node.ask(order)).accepted
    node.vllm.routes["/v1/completions"] = TOKEN
    entry = await node.entry(order)
    assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.RECOVERED)
    assert "it answered a canary just now" in entry.detail, "one that was sent for the order"
    assert node.done == []


async def test_a_runner_that_is_busy_now_proves_nothing(node: OrderNode) -> None:
    node.vllm.routes["/v1/completions"] = Reply("", 503)
    await not_begun(node, node.order(), Refusal.NOT_CONFIRMED, "ended as busy")


async def test_work_that_moves_while_the_canary_is_out_is_left_alone(node: OrderNode) -> None:
    """Every new page shows a token more."""
    order = node.order()

    def moving(_: object) -> Reply:
        return Reply(METRICS.replace("1200.0", f"{1200 + len(node.vllm.asked)}.0"))

    def begins_to_move(_: object) -> Reply:
        node.vllm.routes["/metrics"] = moving
        return Reply("", 500)

    node.vllm.routes["/v1/completions"] = begins_to_move
    answer = await node.ask(order)
    if answer.accepted:
        entry = await node.entry(order)
        assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.RECOVERED)
    else:  # a canary of the agent's own was faster
        assert answer.refusal is Refusal.RECOVERED
    assert node.done == []


async def test_an_order_that_expires_while_the_canary_is_out_is_not_begun(node: OrderNode) -> None:
    node.vllm.routes["/v1/completions"] = Reply(hang=True)
    order = node.order(life=timedelta(seconds=2))
    await not_begun(node, order, Refusal.EXPIRED, "in time")


async def test_a_hang_is_confirmed_by_a_canary_sent_for_the_order(node: OrderNode) -> None:
    node.vllm.routes["/v1/completions"] = Reply(hang=True)
    asked = len(node.vllm.paths("POST"))
    order = node.order()
    assert (await node.ask(order)).accepted
    assert (await node.entry(order)).state is OrderState.DONE
    assert len(node.vllm.paths("POST")) > asked


async def test_two_agents_on_one_host_never_act_at_once(server: NatsServer, tmp_path: Path) -> None:
    lock = {"lock_file": str(tmp_path / "lock")}
    async with (
        server.bot() as bot,
        order_node(server, bot, tmp_path / "a", "node-a", **lock) as one,
        order_node(server, bot, tmp_path / "b", "node-b", **lock) as other,
    ):
        for node in (one, other):
            await node.start()
            await node.stalled()
        one.systemctl('while [ ! -e "$0.go" ]; do sleep 0.05; done; kill -TERM "$GPU_ONCALL_PID"')
        first = one.order()
        assert (await one.ask(first)).accepted
        await until(lambda: one.done, "the first one has begun", 30)
        await not_begun(other, other.order(), Refusal.HOST_BUSY, "another agent of this host")
        (one.programs / "systemctl.go").touch()
        assert (await one.entry(first)).state is OrderState.DONE


async def test_one_order_at_a_time(node: OrderNode) -> None:
    node.systemctl('while [ ! -e "$0.go" ]; do sleep 0.05; done; kill -TERM "$GPU_ONCALL_PID"')
    first = node.order()
    assert (await node.ask(first)).accepted
    second = await node.ask(node.order(Action.REBOOT_NODE, challenge=await new_challenge(node)))
    assert (second.accepted, second.refusal) == (False, Refusal.UNDER_WAY)
    (node.programs / "systemctl.go").touch()
    assert (await node.entry(first)).state is OrderState.DONE
    assert len(node.done) == 1


async def test_two_orders_at_once_end_in_one_restart(node: OrderNode) -> None:
    """Both hold the same challenge: whoever comes second holds a stale one."""
    orders = [node.order(), node.order()]
    answers = await asyncio.gather(*map(node.ask, orders))
    assert sorted(answer.accepted for answer in answers) == [False, True]
    assert {answer.refusal for answer in answers} == {None, Refusal.STALE_CHALLENGE}
    await node.entry(orders[0] if answers[0].accepted else orders[1])
    assert len(node.done) == 1


async def test_a_restart_that_leaves_the_old_process_is_told_as_failed(node: OrderNode) -> None:
    node.systemctl("exit 0")
    order = node.order()
    assert (await node.ask(order)).accepted
    entry = await node.entry(order)
    assert entry.state is OrderState.FAILED
    assert f"process {node.runner.pid} is still there" in entry.detail


async def test_a_restart_that_fails_is_told_with_its_words_and_is_not_tried_again(node: OrderNode) -> None:
    node.systemctl('echo "Unit vllm.service not found." >&2; kill -TERM "$GPU_ONCALL_PID"; exit 5')
    order = node.order()
    assert (await node.ask(order)).accepted
    entry = await node.entry(order)
    assert entry.state is OrderState.FAILED
    assert entry.detail == "systemctl ended with status 5: Unit vllm.service not found."
    assert len(node.done) == 1


async def test_a_policy_that_this_node_allows_is_carried_out_with_nobodys_approval(
    server: NatsServer, tmp_path: Path
) -> None:
    async with server.bot() as bot, order_node(server, bot, tmp_path / "a", auto_remedy="restart") as node:
        await node.start()
        await node.stalled()
        assert node.remedies.policy_line == "agent.remedies.auto_remedy: restart"
        order = node.order(approvers=[], policy="bot.groups.0.auto_remedy: restart", reason="")
        assert (await node.ask(order)).accepted
        assert (await node.entry(order)).state is OrderState.DONE
        assert "by the policy bot.groups.0.auto_remedy: restart" in node.log


async def test_orders_that_come_too_fast_are_not_answered_and_not_carried_out(node: OrderNode) -> None:
    message = sign_order(KEY, node.order(challenge="0" * 32))
    answers = await asyncio.gather(*[node.send(message, 2.0) for _ in range(40)])
    assert node.done == []
    assert {isinstance(answer, bytes) for answer in answers} == {True, False}
    await node.bot.wait_connected()
    assert (await node.ask(node.order())).accepted
