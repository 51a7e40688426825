"""Hears of a new key for the bot's orders, and believes it where the key so far signed it."""

import asyncio
import logging
from collections.abc import Callable

from nats.aio.msg import Msg

from agent.trusted_keys import TrustedKeys
from wire import subjects
from wire.keychange import BadKeyChangeError
from wire.link import Link

log = logging.getLogger(__name__)


async def follow_key_changes(link: Link, node: str, keys: TrustedKeys, changed: Callable[[], None]) -> None:
    """On this connection and all later ones. Nothing is answered: the next heartbeat, after `changed`, tells.

    `changed` is called at each new connection too.
    """
    told = ""

    def connected() -> None:
        """A node that joined again comes back with a new connection."""
        keys.look()
        changed()

    async def hear(message: Msg) -> None:
        nonlocal told
        try:
            if await asyncio.to_thread(keys.take, message.data):
                log.info("orders are signed with a new key from now on key=%s", keys.name)
            changed()  # also where it was known: the bot has heard of an older one
        except BadKeyChangeError as error:
            if str(error) != told:
                log.error("a new key for orders is not believed why=%s", error)
            told = str(error)
        except OSError as error:
            log.error("a new key for orders cannot be kept, the bot tells it again error=%s", error)

    link.on_connected = connected
    await link.subscribe(subjects.key_change(node), hear)
