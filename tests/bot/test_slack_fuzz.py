"""Whatever Slack delivers, people get a sentence or nothing, and nothing is done that was not allowed.

Envelopes go through the SDK's own request, Bolt's own dispatch and our listeners to a real database; only the network
is not there. FUZZ_RUNS sets the size: 2 payloads for 7 runs. What a run found stands in tests/cases/messages/slack.
"""

import asyncio
import json
import logging
import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import sqlalchemy as sa
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot import clock
from bot.act.desk import Wish
from bot.advance import Advance, AdvanceSettings, Outcome
from bot.advance.remedies import Ask
from bot.fleet import Fleet
from bot.groups import Approvers, Group
from bot.judge.candidate import CandidateRule
from bot.remedy.model import Remedy
from bot.slack.envelopes import REFUSED, EnvelopeHandler
from bot.store import incidents, schema
from bot.store.migrate import migrate
from bot.store.writer import Store, Transaction
from demo.workspace.block_kit import message_problems
from tests.bot.remedy_bot import Node
from tests.bot.slack_bot import SlackBot
from tests.bot.slack_payloads import APPROVER, CHANNELS, COLLEAGUE, TEAM, mutated_envelope
from wire.orders import Action

RUNS = int(os.environ.get("FUZZ_RUNS", "2100")) * 2 // 7
SEED = int(os.environ.get("FUZZ_SEED", "20261130"))
ROUND = 500  # payloads for one database
NEW_CARD_EVERY, MOST_TOKENS, MOST_PLANS = 25, 12, 5
CASES = Path(__file__).parents[1] / "cases/messages/slack"
HANG_SECONDS = 20.0


class NoNetwork(AsyncWebClient):
    """Slack's client with an answer at hand; remembers what was to be shown to people."""

    def __init__(self) -> None:
        super().__init__(token="xoxb-none")
        self.shown: list[object] = []
        self.carried: list[str] = []  # what open dialogs will bring back

    async def api_call(self, api_method, **request):
        parts = [request.get(kind) or {} for kind in ("json", "params", "data")]
        self.shown += [part for part in parts if part]
        carried = [part["view"].get("private_metadata") for part in parts if isinstance(part.get("view"), dict)]
        self.carried = [*self.carried, *filter(None, carried)][-MOST_PLANS:]
        data = {"ok": True, "team_id": TEAM, "user_id": "U0BOT", "view": {"id": "V1"}, "channel": "C0", "ts": "1.2"}
        data["user"] = {"id": "U0BOT", "is_restricted": False}
        return SimpleNamespace(data=data, get=data.get)


class Respond:
    """What Bolt gives a listener to answer with, without the address that it would call."""

    def __init__(self, shown: list[object]) -> None:
        self.response_url, self._shown = "none", shown

    async def __call__(self, **message: object) -> SimpleNamespace:
        self._shown.append(message)
        return SimpleNamespace(status_code=200)


class Heard(logging.Handler):
    """Errors with a traceback, of our code and of the tasks that it left behind."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        is_refusal = record.getMessage().startswith(REFUSED)
        if record.exc_info or (record.levelno >= logging.ERROR and not is_refusal):
            self.found.append(self.format(record))


class Slack:
    """The bot behind Bolt's dispatch, with an open card for a GPU and one for a runner."""

    def __init__(self, store: Store, log: Heard) -> None:
        fleet = Fleet(CandidateRule())
        self.store, self.log, self.client = store, log, NoNetwork()
        workspace = SimpleNamespace(
            api_url="http://127.0.0.1:9/api/", app_token="xapp-none", bot_token="xoxb-none", channel=channel
        )
        groups = [Group("default", ["*"], approvers=Approvers(users=[APPROVER]), remedies_at_once=1000)]
        self.advance = advance = Advance(store, fleet, AdvanceSettings(timedelta(0), timedelta(0), False, groups))
        self.fleet = fleet
        self.bot = SlackBot(store, fleet, advance, workspace, client=self.client)
        self.bot.app.middleware(self._without_network)
        self.handler = EnvelopeHandler(self.bot.app, "xapp-none")
        self.acks: list[object] = []
        self._socket = SimpleNamespace(send_socket_mode_response=self._acked, logger=self.bot.app.logger)

    async def tokens(self, number: int) -> list[str]:
        """Of the buttons of all open cards, one of them new, and of the newest that are closed or decided."""
        if number == 0:
            await self.bot.idle()
        await self.bot.found(subject=f"gpu-{number:02}/chat")
        await self._ask_for_a_restart(f"node-{number}")

        def work(transaction: Transaction) -> list[str]:
            connection = transaction.connection
            for incident in incidents.all_open(connection):
                incidents.button_token(connection, incident, clock.now())
            button = schema.button.c
            query = sa.select(button.token).order_by(button.made_at.desc()).limit(MOST_TOKENS)
            asked = sa.select(sa.func.max(schema.remedy.c.incident_id)).scalar_subquery()
            newest = connection.execute(sa.select(button.token).where(button.incident_id == asked)).scalars().all()
            return [*connection.execute(query).scalars(), *newest * MOST_TOKENS]

        return await self.store.write(work)

    async def _ask_for_a_restart(self, name: str) -> None:
        """A colleague asks, for a runner that hangs on a node of its own."""
        node = Node(None, self.fleet, b"", name)
        for _ in range(2):
            node.beat()
            await self.advance.look_around()
        wish = Wish(Action.RESTART_RUNNER, name, "chat")
        planned = await self.bot.desk.planned(wish, COLLEAGUE)
        every = tuple(blocker.name for blocker in planned.blockers)
        await self.bot.desk.ask(Ask(planned.plan, COLLEAGUE, "it hangs since midnight", every))

    async def remedies(self) -> list[Remedy]:
        def work(connection):
            bodies = connection.execute(sa.select(schema.incident.c.id).order_by(schema.incident.c.id)).scalars().all()
            return [found.remedy for number in bodies if (found := incidents.load(connection, number)) and found.remedy]

        return await self.store.read(work)

    async def stop(self) -> None:
        await self.handler.client.close()

    async def _without_network(self, context, next):
        context["respond"] = Respond(self.client.shown)
        await next()

    async def _acked(self, response) -> None:
        self.acks.append(response.payload)

    async def deliver(self, envelope: object) -> None:
        """As the SDK does with a message of the socket; and until all that it began is over. Raises what it raises."""
        self.client.shown.clear()
        self.acks.clear()
        before = asyncio.all_tasks()
        try:
            request = SocketModeRequest.from_dict(envelope)
        except ValueError:  # the SDK refuses it, and goes on
            return
        if request is None:
            return
        async with asyncio.timeout(HANG_SECONDS):
            await self.handler.handle(self._socket, request)
            while begun := asyncio.all_tasks() - before:
                for task in (await asyncio.wait(begun))[0]:
                    task.result()

    async def decisions(self) -> object:
        """Everything that a press can change, but not the record of the press."""

        def work(connection):
            incident, snooze = schema.incident, schema.node_snooze
            revisions = sa.select(incident.c.id, incident.c.revision, incident.c.closed_at).order_by(incident.c.id)
            snoozed = sa.select(snooze.c.node, snooze.c.until).order_by(snooze.c.node)
            claimed = sa.select(schema.claim.c.id, schema.claim.c.ended_at).order_by(schema.claim.c.id)
            asked = sa.select(schema.remedy.c.incident_id, schema.remedy.c.state).order_by(schema.remedy.c.incident_id)
            return [tuple(row) for query in (revisions, snoozed, claimed, asked) for row in connection.execute(query)]

        return await self.store.read(work)


def channel(name: str) -> SimpleNamespace:
    return SimpleNamespace(id=CHANNELS[name])


# --- the runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def log():
    handler = Heard()
    names = ("bot", "asyncio")
    for name in names:
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in names:
        logging.getLogger(name).removeHandler(handler)


def assert_told_decently(shown: list[object]) -> None:
    """Nothing of an exception; and blocks that Slack takes."""
    for part in shown:
        text = msgspec.json.encode(part, enc_hook=str).decode()
        for word in ("Traceback", "Error(", "Error:", "Exception", "sqlalchemy", ".py"):
            assert word not in text, text
        blocks = part.get("blocks") if isinstance(part, dict) else None
        assert not blocks or message_problems(blocks) == [], text


async def play(store: Store, log: Heard, seeds: range) -> int:
    """One database's share; how many were acknowledged."""
    slack, acknowledged, tokens = Slack(store, log), 0, []
    try:
        for number, run in enumerate(seeds):
            if number % NEW_CARD_EVERY == 0:
                tokens = await slack.tokens(number // NEW_CARD_EVERY)
            whole, may_act = mutated_envelope(run, [*tokens, *slack.client.carried])
            before = None if may_act else await slack.decisions()
            try:
                await slack.deliver(whole)
            except Exception as error:
                raise AssertionError(f"seed {run}: {json.dumps(whole)[:2000]}") from error
            assert log.found == [], f"seed {run}: {json.dumps(whole)[:2000]}\n{log.found[0]}"
            assert_told_decently([*slack.client.shown, *filter(None, slack.acks)])
            assert before is None or before == await slack.decisions(), f"seed {run}: a stranger changed something"
            acknowledged += bool(slack.acks)
        done = sa.select(sa.func.count()).select_from(schema.click).where(schema.click.c.outcome == Outcome.DONE)
        presses = await store.read(lambda connection: connection.execute(done).scalar())
        assert presses > 0 or len(seeds) < ROUND  # otherwise it would show nothing
        approvals = [approval.by for remedy in await slack.remedies() for approval in remedy.approvals]
        assert set(approvals) <= {APPROVER}
        print(f"{len(await slack.remedies())} restarts asked for, {len(approvals)} of them approved")
    finally:
        await slack.stop()
    return acknowledged


def fresh_store(file: Path) -> Store:
    store = Store(f"sqlite:///{file}")
    migrate(store.engine)
    return store


@pytest.mark.fuzz
async def test_mutated_payloads_break_nothing_and_do_nothing_that_was_not_allowed(tmp_path, log):
    acknowledged = 0
    for first in range(SEED, SEED + RUNS, ROUND):
        store = fresh_store(tmp_path / f"{first}.db")
        try:
            acknowledged += await play(store, log, range(first, min(first + ROUND, SEED + RUNS)))
        finally:
            store.close()
            for file in tmp_path.glob(f"{first}.db*"):
                file.unlink()
    print(f"{RUNS} mutated payloads, {acknowledged} of them acknowledged")
    assert acknowledged >= RUNS / 2


@pytest.mark.parametrize("file", sorted(CASES.glob("*.json")), ids=lambda file: file.stem)
async def test_a_payload_that_a_run_found_breaks_nothing(tmp_path, log, file):
    store = fresh_store(tmp_path / "case.db")
    slack = Slack(store, log)
    try:
        (token, *_) = await slack.tokens(0)
        await slack.deliver(json.loads(file.read_text().replace("TOKEN", token)))
        assert_told_decently([*slack.client.shown, *filter(None, slack.acks)])
    finally:
        await slack.stop()
        store.close()
    assert log.found == []
