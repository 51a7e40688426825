"""Orders: what the bot tells one node to do, once. Signed over the exact bytes; what is not known here is refused."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated

import msgspec
from nacl.signing import SigningKey

from wire import subjects
from wire.keychange import SIGNATURE_BYTES, is_signed_by
from wire.ticks import RunnerName, SignalClass, Value
from wire.values import Count, Identity, Instant, Known, Seconds, Sentence, Word

ORDER_VERSION = 1
LIFE = timedelta(seconds=180)
LONGEST_ORDER = 48 * 1024  # bytes
MOST_PROCESSES = 1000  # of a node: nobody looks through more than that
MOST_PEOPLE = 8
MOST_BLOCKERS = 16
LONGEST_WHY = 200  # characters: a refusal can quote what it refuses
SHARED_PROCESS = "shared_process"  # accepted by name: the process serves other runners too, whose work ends with it
_DOMAIN = b"gpuoncall-order-v1\0"


class Action(Known):
    """Decoded from a report a new one is `unknown`; in an order it is refused."""

    RESTART_RUNNER = "restart_runner"
    REBOOT_NODE = "reboot_node"
    UNKNOWN = "unknown"


class OrderVerdict(Known):
    """What was said of the runner, in the words of the stall rule; `none`: a person asked without a stall."""

    NONE = "none"
    STALLED = "stalled"
    UNCERTAIN = "uncertain"
    LOAD_STUCK = "load_stuck"
    ERRORING = "erroring"
    UNKNOWN = "unknown"


class AcceptedProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True, gc=False):
    """A process that the approver saw and that may be killed.

    `started`: its start in clock ticks since boot, as heartbeats and ticks say it. With the pid it is its identity.
    """

    pid: Count
    started: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class RunnerFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The runner as its latest tick showed it when the order was made: the node asks whether that is still so.

    All values are the tick's own, unchanged: `progress` is Tick.progress. None or a name that is not there: not read.
    """

    runner: RunnerName
    signal_class: SignalClass
    epoch: Word
    pid: Count | None = None
    started: Word = ""
    completed: Value | None = None
    progress: dict[Word, Value] = {}
    load: Value | None = None
    no_progress_seconds: Seconds = 0.0


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One remedy on one node.

    `boot_id` and `spool_epoch` are those that the approver saw, and the only ones that it may end. `runner` None: a
    reboot without a stall. `approvers` are Slack user ids or host:<user>; an order of a policy has none, and
    `policy` holds the line of the bot's config. `anything_may_run`: it was accepted by name that processes cannot be
    read. `accepted_blockers` are the names of blockers that were accepted. `reason` is the person's.
    """

    version: Count
    order_id: Identity
    action: Action
    node: Identity
    boot_id: Identity
    spool_epoch: Identity
    challenge: Identity
    fence: Count
    incident_id: Count
    verdict: OrderVerdict
    issued: Instant
    expires: Instant
    runner: RunnerFacts | None = None
    processes: Annotated[list[AcceptedProcess], msgspec.Meta(max_length=MOST_PROCESSES)] = []
    anything_may_run: bool = False
    accepted_blockers: Annotated[list[Word], msgspec.Meta(max_length=MOST_BLOCKERS)] = []
    approvers: Annotated[list[Word], msgspec.Meta(max_length=MOST_PEOPLE)] = []
    policy: Sentence = ""
    reason: Sentence = ""


class BadOrderError(ValueError):
    """Bytes that are no order of a version that is known here; the text says why."""


class UnknownVersionError(BadOrderError):
    """An order of another version."""


class _Versioned(msgspec.Struct, frozen=True):
    version: Count


def sign_order(key: SigningKey, order: Order) -> bytes:
    """What travels: the signature, then the body. Raises BadOrderError for an order that no node would take."""
    body = msgspec.json.encode(order)
    decode_order(body)
    return key.sign(_DOMAIN + body).signature + body


def opened(keys: Iterable[bytes], message: bytes) -> bytes | None:
    """The body, if one of the raw public keys signed exactly it. None: nothing in it may be looked at."""
    if not SIGNATURE_BYTES < len(message) <= SIGNATURE_BYTES + LONGEST_ORDER:
        return None
    signature, body = message[:SIGNATURE_BYTES], message[SIGNATURE_BYTES:]
    return body if any(is_signed_by(key, _DOMAIN + body, signature) for key in keys) else None


def decode_order(body: bytes) -> Order:
    """Of a body that was opened. Raises BadOrderError, UnknownVersionError."""
    if len(body) > LONGEST_ORDER:
        raise BadOrderError(f"it has {len(body)} bytes, at most {LONGEST_ORDER} are taken")
    try:
        version = msgspec.json.decode(body, type=_Versioned).version
        if version != ORDER_VERSION:
            raise UnknownVersionError(f"it has version {version}, known here is {ORDER_VERSION}")
        order = msgspec.json.decode(body, type=Order)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadOrderError(f"it cannot be read: {str(error)[:LONGEST_WHY]}") from error
    problem = next(_problems(order), None)
    if problem is not None:
        raise BadOrderError(problem)
    return order


def _problems(order: Order) -> Iterator[str]:
    """What no single field can show."""
    facts = order.runner
    if Action.UNKNOWN is order.action or OrderVerdict.UNKNOWN is order.verdict:
        yield "it names an action or a verdict that is not known here"
    if facts is not None and facts.signal_class is SignalClass.UNKNOWN:
        yield "it names a class of runners that is not known here"
    if not subjects.is_node_name(order.node):
        yield "it names no node"
    if bool(order.approvers) == bool(order.policy):
        yield "it names neither an approver nor a policy, or both"
    if not timedelta(0) < order.expires - order.issued <= LIFE:
        yield f"it lives longer than {LIFE.total_seconds():g} s, or not at all"
    if facts is None and (order.action is Action.RESTART_RUNNER or order.verdict is not OrderVerdict.NONE):
        yield "it names no runner"
