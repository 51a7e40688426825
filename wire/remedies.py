"""What a node says of remedies: which it offers, its answer to an order, and what became of the latest orders."""

from typing import Annotated

import msgspec

from wire.orders import Action
from wire.ticks import MOST_RUNNERS, RunnerName
from wire.values import Count, Instant, Known, Sentence, Word

ANSWER_VERSION = 1
MOST_TOLD = 8  # orders of the journal in a heartbeat, the newest

LONGEST_DETAIL = 400
LongSentence = Annotated[str, msgspec.Meta(max_length=LONGEST_DETAIL)]


class Refusal(Known):
    """Why an order was not carried out. In each case nothing was done."""

    # it is no order for this node, this moment, or at all
    NO_KEY = "no_key"
    BAD_SIGNATURE = "bad_signature"
    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown_version"
    OTHER_NODE = "other_node"
    OTHER_BOOT = "other_boot"
    OTHER_SPOOL_EPOCH = "other_spool_epoch"
    EXPIRED = "expired"
    FROM_THE_FUTURE = "from_the_future"
    REPLAYED = "replayed"
    STALE_CHALLENGE = "stale_challenge"
    LOWER_FENCE = "lower_fence"
    # this node does not do it, or not now
    NOT_ENABLED = "not_enabled"
    POLICY_NOT_ALLOWED = "policy_not_allowed"
    TOO_SOON = "too_soon"
    BUDGET_SPENT = "budget_spent"
    UNDER_WAY = "under_way"
    HOST_BUSY = "host_busy"
    JOURNAL_BROKEN = "journal_broken"
    AGENT_STOPPED = "agent_stopped"
    # what was approved is no longer what is there
    PROCESSES_CHANGED = "processes_changed"
    PROCESSES_UNREADABLE = "processes_unreadable"
    OTHER_PROCESS = "other_process"
    RECOVERED = "recovered"
    NOT_CONFIRMED = "not_confirmed"
    UNKNOWN = "unknown"


class OrderState(Known):
    """Where an order stands on the node.

    `accepted`: taken, asked once more before it acts. `acting`: written to disk before the first step; it is never
    done again. `done`: the command ended well, or the node is in a new boot. `failed`: the command ended badly, so
    something may have been done. `lost`: the agent ended meanwhile, or the end did not come: the outcome is unknown.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"
    ACTING = "acting"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node's immediate answer to the request. `order_id` "": it could not be read. `detail` is a sentence.

    Accepted says only that the node asks its own canary now; what became of it is in the heartbeat's journal.
    """

    version: Count
    node: Word
    order_id: str
    accepted: bool
    refusal: Refusal | None = None
    detail: LongSentence = ""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One order, latest state. `at` is a label by the node's clock, `detail` a sentence (foreign: escape it)."""

    order_id: str
    action: Action
    state: OrderState
    at: Instant
    boot_id: Word
    runner: str = ""
    refusal: Refusal | None = None
    detail: LongSentence = ""


class AutoRemedy(Known):
    """What the node's own config lets a policy do; a word that is not known allows nothing."""

    OFF = "off"
    RESTART = "restart"
    RESTART_THEN_REBOOT = "restart_then_reboot"
    UNKNOWN = "unknown"


class NodeRemedies(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a heartbeat says of remedies; a node that offers none says nothing of them.

    `challenge` must be in the next order and is new after each one. `restart_runner` holds the runners that may be
    restarted and how, for people; `reboot_node` how, None: not offered. `policy_line` is the line of the node's config.
    `journal`: the latest orders, the newest last. An order that is neither there nor answered may still be on its way
    until it expires.
    """

    order_versions: list[Count]
    challenge: str
    highest_fence: Count = 0
    journal: Annotated[list[JournalEntry], msgspec.Meta(max_length=64)] = []
    restart_runner: Annotated[dict[RunnerName, Sentence], msgspec.Meta(max_length=MOST_RUNNERS)] = {}
    reboot_node: Sentence | None = None
    auto_remedy: AutoRemedy = AutoRemedy.OFF
    policy_line: Sentence = ""


class BadAnswerError(ValueError):
    """Bytes that are no answer of this node."""


def encode_answer(answer: Answer) -> bytes:
    return msgspec.json.encode(answer)


def decode_answer(node: str, body: bytes) -> Answer:
    """Raises BadAnswerError."""
    try:
        answer = msgspec.json.decode(body, type=Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswerError(f"it cannot be read: {error}") from error
    if answer.node != node:
        raise BadAnswerError(f"it names node {answer.node[:64]!r}, asked was {node}")
    return answer
