"""The agent dies at each step of an order: it ends in done once, or in a clear word, and nothing is ever done again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.answering import Reply
from tests.agent.order_node import OrderNode, order_node
from tests.build import BOOT, OTHER_BOOT
from tests.build_orders import KEY
from tests.nats_server import NatsServer, until
from wire.acks import Failure
from wire.orders import Action, Order, sign_order
from wire.remedies import JournalEntry, OrderState, Refusal

KILL_AGENT = "kill -KILL $PPID"
KILL_RUNNER = 'kill -TERM "$GPU_ONCALL_PID"'


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OrderNode]:
    async with (
        NatsServer(tmp_path / "nats", ["node-a"]) as server,
        server.bot() as bot,
        order_node(server, bot, tmp_path / "a") as node,
    ):
        yield node


async def after(node: OrderNode, order: Order, boot_id: str = BOOT) -> JournalEntry:
    """The entry that the next run of the agent tells; the same bytes must not be taken once more by it."""
    done = list(node.done)
    node.systemctl(KILL_RUNNER)
    await node.start(boot_id)
    entry = await node.entry(order)
    again = await node.ask(sign_order(KEY, order))
    assert not again.accepted
    assert again.refusal in (Refusal.REPLAYED, Refusal.OTHER_BOOT)
    assert node.done == done
    return entry


@pytest.mark.parametrize(
    ("dies_at", "action", "state", "refusal"),
    [
        ("accepted", Action.RESTART_RUNNER, OrderState.REFUSED, Refusal.AGENT_STOPPED),
        ("acting", Action.RESTART_RUNNER, OrderState.LOST, None),
        ("acting", Action.REBOOT_NODE, OrderState.LOST, None),
    ],
)
async def test_killed_between_the_journal_and_the_act_nothing_was_done_and_nothing_is_done_later(
    node: OrderNode, dies_at: str, action: Action, state: OrderState, refusal: Refusal | None
) -> None:
    await node.start(dies_at=dies_at)
    await node.stalled()
    order = node.order(action)
    await node.send(sign_order(KEY, order), 3.0)
    await node.dead()
    assert node.done == []
    entry = await after(node, order)
    assert (entry.state, entry.refusal) == (state, refusal)
    assert node.done == []
    assert node.runner_lives()


async def test_killed_before_it_could_answer_the_order_is_in_the_journal(node: OrderNode) -> None:
    await node.start(dies_at="accepted")
    await node.stalled()
    order = node.order()
    answer = await node.send(sign_order(KEY, order), 3.0)
    assert isinstance(answer, bytes | Failure), "with or without an answer the journal tells"
    await node.dead()
    entry = await after(node, order)
    assert entry.detail == "the agent was stopped before it began: nothing was done"


async def accepted_with_its_canary_out(node: OrderNode) -> Order:
    await node.start()
    await node.stalled()
    node.vllm.routes["/v1/completions"] = Reply(hang=True)
    order = node.order()
    assert (await node.ask(order)).accepted
    return order


async def test_killed_while_the_canary_is_out_nothing_was_done(node: OrderNode) -> None:
    order = await accepted_with_its_canary_out(node)
    await node.kill()
    assert node.done == []
    entry = await after(node, order)
    assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.AGENT_STOPPED)


async def test_stopped_by_its_operator_while_the_canary_is_out_nothing_was_done(node: OrderNode) -> None:
    order = await accepted_with_its_canary_out(node)
    await node.stop()
    entry = await after(node, order)
    assert (entry.state, entry.refusal) == (OrderState.REFUSED, Refusal.AGENT_STOPPED)


async def killed_by(node: OrderNode, command: str, action: Action = Action.RESTART_RUNNER) -> Order:
    """The order that was taken, and whose command ended the agent."""
    await node.start()
    await node.stalled()
    node.systemctl(command)
    order = node.order(action)
    assert (await node.ask(order)).accepted
    await node.dead()
    return order


@pytest.mark.parametrize("then", [KILL_AGENT, f"{KILL_RUNNER}; {KILL_AGENT}"], ids=["before", "after"])
async def test_killed_in_the_middle_of_a_restart_its_outcome_is_not_known_and_it_is_not_repeated(
    node: OrderNode, then: str
) -> None:
    order = await killed_by(node, then)
    entry = await after(node, order)
    assert (entry.state, entry.refusal) == (OrderState.LOST, None)
    assert "is not known" in entry.detail
    assert len(node.done) == 1


async def test_a_reboot_is_done_when_the_node_is_in_another_boot(node: OrderNode) -> None:
    order = await killed_by(node, KILL_AGENT, Action.REBOOT_NODE)
    assert len(node.done) == 1
    assert node.done[0].startswith("--no-ask-password --message=gpu-oncall reboots this node, approved by U0123")
    acting = [e for beat in node.beats if beat.remedies for e in beat.remedies.journal if e.state is OrderState.ACTING]
    assert acting, "the bot knows before the node is gone"
    entry = await after(node, order, OTHER_BOOT)
    assert (entry.state, entry.detail) == (OrderState.DONE, "the node is in another boot now")


async def test_a_reboot_that_was_taken_and_did_not_come_is_not_repeated(node: OrderNode) -> None:
    await node.start()
    await node.stalled()
    node.systemctl("exit 0")
    order = node.order(Action.REBOOT_NODE)
    assert (await node.ask(order)).accepted
    await node.entry(order, OrderState.ACTING)
    await until(lambda: node.done, "it was asked for", 30)
    other = await node.ask(node.order())
    assert (other.accepted, other.refusal) in ((False, Refusal.UNDER_WAY), (False, Refusal.STALE_CHALLENGE))
    await node.kill()
    entry = await after(node, order)
    assert entry.state is OrderState.LOST
    assert len(node.done) == 1


async def test_a_second_reboot_is_too_soon_also_in_the_next_boot(node: OrderNode) -> None:
    await killed_by(node, KILL_AGENT, Action.REBOOT_NODE)
    node.systemctl("exit 0")
    await node.start(OTHER_BOOT)
    await node.stalled()
    answer = await node.ask(node.order(Action.REBOOT_NODE))
    assert answer.refusal is Refusal.TOO_SOON
    assert len(node.done) == 1
