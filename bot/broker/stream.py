"""The stream OBS and its consumer `bot`, on whichever server the bot is connected to."""

import contextlib
import json
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from wire import subjects

log = logging.getLogger(__name__)

MAX_AGE = timedelta(days=7)
# A node sends 288 windows a day: a week of them, and as much again for restarts. Then it alone is refused.
MAX_MESSAGES_PER_NODE = 4000
DUPLICATE_WINDOW = timedelta(hours=1)  # 300 bytes of memory for each id in it
MAX_MESSAGE_BYTES = 65536
ACK_WAIT = timedelta(seconds=60)
MAX_ACK_PENDING = 2000
RESET_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class StreamState:
    """Sequence numbers can begin anew after a disaster: then `created` differs. `last_seq` is 0 in a new stream."""

    created: datetime
    first_seq: int
    last_seq: int


async def ensure_stream(
    js: JetStreamContext,
    max_bytes: int,
    max_messages_per_node: int = MAX_MESSAGES_PER_NODE,
    replicas: int | None = None,
) -> StreamState:
    """Makes the stream and the consumer, or changes what differs. `replicas` None leaves them as the operator set them.

    Raises nats.errors.Error when the server refuses or does not answer.
    """
    wanted = _stream_config(max_bytes, max_messages_per_node)
    if replicas is not None:
        wanted["num_replicas"] = replicas
    try:
        info = await js.stream_info(subjects.STREAM)
    except NotFoundError:
        info = await js.add_stream(api.StreamConfig(**wanted))
        log.info("stream made name=%s max_bytes=%d", subjects.STREAM, max_bytes)
    if any(getattr(info.config, key) != value for key, value in wanted.items()):
        info = await js.update_stream(info.config.evolve(**wanted))
        log.info("stream changed name=%s max_bytes=%d", subjects.STREAM, max_bytes)
    await _ensure_consumer(js)
    return _state(info)


async def reset_consumer(js: JetStreamContext, seq: int) -> StreamState:
    """The next message delivered is `seq` or the first one after it, then all later ones in order.

    A position beyond the end would starve silently: it is brought back to the end. What was unacknowledged before is
    delivered again in its place. Raises nats.errors.Error when the server refuses or does not answer.
    """
    state = _state(await js.stream_info(subjects.STREAM))
    start = max(1, min(seq, state.last_seq + 1))
    answer = await _request_reset(js, start)
    if "error" in answer:
        log.warning("consumer made anew, since the server cannot reset it error=%s", answer["error"].get("description"))
        with contextlib.suppress(NotFoundError):
            await js.delete_consumer(subjects.STREAM, subjects.CONSUMER)
        await js.add_consumer(subjects.STREAM, _consumer_config(start))
    return state


async def _ensure_consumer(js: JetStreamContext) -> None:
    config = _consumer_config()
    try:
        present = (await js.consumer_info(subjects.STREAM, subjects.CONSUMER)).config
    except NotFoundError:
        pass
    else:  # where it starts cannot be changed, and after a reset made by hand it is not the beginning
        config = config.evolve(deliver_policy=present.deliver_policy, opt_start_seq=present.opt_start_seq)
    await js.add_consumer(subjects.STREAM, config)


async def _request_reset(js: JetStreamContext, start: int) -> dict[str, Any]:
    """The server's answer; an answer with `error` also when it does not know the request (older than 2.14)."""
    subject = f"$JS.API.CONSUMER.RESET.{subjects.STREAM}.{subjects.CONSUMER}"
    try:
        reply = await js._nc.request(subject, json.dumps({"seq": start}).encode(), timeout=RESET_TIMEOUT_SECONDS)
    except TimeoutError:
        return {"error": {"description": "no answer"}}
    return dict(json.loads(reply.data))


def _stream_config(max_bytes: int, max_messages_per_node: int) -> dict[str, Any]:
    return {
        "name": subjects.STREAM,
        "subjects": [subjects.OBSERVATIONS],
        "storage": api.StorageType.FILE,
        "retention": api.RetentionPolicy.LIMITS,
        "discard": api.DiscardPolicy.NEW,
        "discard_new_per_subject": True,
        "max_msgs_per_subject": max_messages_per_node,
        "max_age": MAX_AGE.total_seconds(),
        "max_bytes": max_bytes,
        "max_msg_size": MAX_MESSAGE_BYTES,
        "duplicate_window": DUPLICATE_WINDOW.total_seconds(),
        "deny_delete": True,
        "compression": api.StoreCompression.S2,
    }


def _consumer_config(start: int | None = None) -> api.ConsumerConfig:
    return api.ConsumerConfig(
        durable_name=subjects.CONSUMER,
        deliver_policy=api.DeliverPolicy.ALL if start is None else api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=start,
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT.total_seconds(),
        max_deliver=-1,
        max_ack_pending=MAX_ACK_PENDING,
    )


def _state(info: api.StreamInfo) -> StreamState:
    if info.created is None:
        raise ValueError("the server did not say when the stream was made")
    return StreamState(info.created, info.state.first_seq, info.state.last_seq)
