"""The answers to /gpu-status and /gpu-incidents."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bot.claims import Claim
from bot.incident import Incident
from bot.render import message
from bot.render.claims import claim_lines
from bot.render.drawing import quiet_note
from bot.render.message import Message
from bot.render.reply import lines
from bot.render.runner import RunnerStatus, status_line
from bot.render.values import instant, length, person, utc
from bot.render.words import Mrkdwn, Words, code, escape

COLUMNS = ("node", "free", "in_use", "unknown", "heard", "open")
MOST_INCIDENTS = 40
MOST_CLICKS = 30


class GpuStatus(msgspec.Struct, frozen=True):
    """`state` is plain text of ours."""

    index: int
    uuid: str
    model: str | None
    state: str


class NodeStatus(msgspec.Struct, frozen=True):
    """One node this moment. `heard_seconds` None: no heartbeat since the bot's start.

    `taken` GPUs are idle, and allocated by a scheduler or claimed by a person.
    """

    node: str
    free: int
    in_use: int
    unknown: int
    heard_seconds: float | None
    incidents: Sequence[Incident]
    gpus: Sequence[GpuStatus]
    snoozed_until: datetime | None = None
    runners: Sequence[RunnerStatus] = ()
    taken: int = 0
    claims: Sequence[Claim] = ()
    maintained_until: datetime | None = None


class PastClick(msgspec.Struct, frozen=True):
    """What somebody pressed or typed, and what it came to."""

    at: datetime
    user: str
    action: str
    outcome: str


# --- status ---------------------------------------------------------------------------------------------------------


def fleet(words: Words, nodes: Sequence[NodeStatus], of_no_node: Sequence[Incident], now: datetime) -> Message:
    """`of_no_node` are the open incidents of the fleet and of the bot."""
    if not nodes:
        return lines(words, [words.say("candidates.no_nodes")])
    counts = {name: sum(getattr(node, name) for node in nodes) for name in ("free", "in_use", "unknown")}
    still_open = len(of_no_node) + sum(len(node.incidents) for node in nodes)
    named = words.plain_counted("count.nodes", len(nodes))
    head = [words.say("status.fleet", nodes=named, **counts), words.counted("status.open", still_open)]
    head += [_of(words, one) for one in of_no_node[:MOST_INCIDENTS]]
    foot = words.say("status.foot", at=instant(now))
    rows = [_row(words, node) for node in sorted(nodes, key=lambda one: (-len(one.incidents), one.node))]
    fitting = message.rows_that_fit(rows)
    more = words.say("answer.more")
    names = [words.plain(f"column.{column}") for column in COLUMNS]
    blocks = [message.section(head, more), message.table([names, *rows[:fitting]]), message.context(foot)]
    if rows[fitting:]:
        blocks.append(message.context(words.counted("candidates.left_out", len(rows) - fitting)))
    return message.message([*head, foot, *(escape(" · ".join(row)) for row in [names, *rows])], blocks, more)


def _row(words: Words, node: NodeStatus) -> list[str]:
    heard = words.plain("status.never") if node.heard_seconds is None else length(node.heard_seconds)
    notes = [f"#{one.id} {words.plain(f'what.{one.what}')}" for one in node.incidents]
    if node.taken:
        notes.append(words.plain("status.taken", count=node.taken))
    if node.snoozed_until:
        notes.append(words.plain("status.snoozed", until=utc(node.snoozed_until)))
    if node.maintained_until:
        notes.append(words.plain("status.maintained", until=utc(node.maintained_until)))
    return [node.node, str(node.free), str(node.in_use), str(node.unknown), heard, "; ".join(notes) or "-"]


def one_node(words: Words, nodes: Sequence[NodeStatus], of_no_node: Sequence[Incident], now: datetime) -> Message:
    """The only one of `nodes`, with its GPUs."""
    (node,) = nodes
    counts = {"free": node.free, "in_use": node.in_use, "unknown": node.unknown}
    said = [words.say("status.node", node=node.node, **counts)]
    if node.heard_seconds is None:
        said.append(words.say("status.never_heard"))
    else:
        said.append(words.say("status.heard", age=length(node.heard_seconds)))
    if node.taken:
        said.append(words.say("status.taken", count=node.taken))
    said += claim_lines(words, node.claims)
    if node.snoozed_until:
        said.append(words.say("status.node_snoozed", until=instant(node.snoozed_until)))
    if node.maintained_until:
        said.append(words.say("status.node_maintained", until=instant(node.maintained_until)))
    said += [_of(words, one) for one in node.incidents[:MOST_INCIDENTS]]
    said += [
        words.say("status.gpu", index=gpu.index, state=gpu.state, uuid=code(gpu.uuid, 60), model=gpu.model or "-")
        for gpu in node.gpus
    ]
    said += [status_line(words, one) for one in node.runners]
    return lines(words, [*said, words.say("status.foot", at=instant(now))])


def _of(words: Words, one: Incident) -> Mrkdwn:
    what = words.plain(f"what.{one.what}")
    return words.say("status.incident", number=one.id, what=what, since=instant(one.opened_at))


# --- incidents ------------------------------------------------------------------------------------------------------


def incidents(
    words: Words, found: Sequence[tuple[Incident, str]], count: int, now: datetime, *, is_mine: bool
) -> Message:
    """The first ones of `count`, each with the first line of its card."""
    said = [words.counted("incidents.mine" if is_mine else "incidents.open", count)]
    said += [_listed(words, one, title) for one, title in found[:MOST_INCIDENTS]]
    left_out = count - MOST_INCIDENTS
    if left_out > 0:
        said.append(words.counted("incidents.left_out", left_out))
    return lines(words, [*said, words.say("incidents.foot", at=instant(now))])


def _listed(words: Words, one: Incident, title: str) -> Mrkdwn:
    said = [words.say("incidents.one", number=one.id, title=title, since=instant(one.opened_at))]
    if one.acknowledged_by and one.acknowledged_at:
        said.append(words.say("note.acknowledged", by=person(one.acknowledged_by), at=instant(one.acknowledged_at)))
    if one.quiet:
        said.append(quiet_note(words, one.quiet))
    return Mrkdwn(" · ".join(said))


def _named(words: Words, family: str, name: str) -> str:
    """In words where the catalogue has some; a deed of another version by its own name."""
    key = f"{family}.{name.partition(':')[0].replace(' ', '_')}"
    return words.plain(key) if key in words.sentences else name


def one_incident(words: Words, card: Message, clicks: Sequence[PastClick]) -> Message:
    """Its card as it stands, without buttons, and what people did about it."""
    did = [
        words.say(
            "incidents.click",
            at=instant(one.at),
            by=person(one.user),
            action=_named(words, "did", one.action),
            outcome=_named(words, "came", one.outcome),
        )
        for one in clicks[-MOST_CLICKS:]
    ]
    more = words.say("answer.more")
    head = [words.say("incidents.clicks")] if did else []
    blocks = [block for block in card.blocks if block["type"] != "actions"]
    if did:
        blocks.append(message.section([*head, *did], more).to_dict())
    text = message.joined([*map(Mrkdwn, card.text.split("\n")), *head, *did], message.LONGEST_TEXT, more)
    return Message(text, blocks)
