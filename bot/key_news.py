"""Tells nodes of a new key for orders, again and again until their heartbeats say that they believe it."""

import asyncio
import logging
from pathlib import Path

from bot import clock
from bot.fleet import Fleet
from bot.order_key import OrderKeys, order_key_file, read_order_keys
from wire import subjects
from wire.configfile import ConfigError
from wire.keychange import key_name
from wire.link import Link

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
AGAIN_SECONDS = 10.0  # a node that took it says so at once; one that does not hears it again


class KeyNews:
    """`run` until cancelled. A node that was off, however long, hears every change since the key that it has."""

    def __init__(self, data_dir: Path, link: Link, fleet: Fleet) -> None:
        self._data_dir = data_dir
        self._link = link
        self._fleet = fleet
        self._keys: OrderKeys | None = None
        self._changed_at = -1
        self._trouble = ""
        self._told_seconds: dict[str, float] = {}
        self._strange: set[tuple[str, str]] = set()

    async def run(self) -> None:
        while True:
            keys = self._read()
            if keys is not None:
                await self._tell_all(keys)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _read(self) -> OrderKeys | None:
        """The terminal changes the file while the bot runs. None where it cannot be used; that is told once."""
        try:
            changed_at = order_key_file(self._data_dir).stat().st_mtime_ns
            if changed_at != self._changed_at:
                self._changed_at = changed_at
                self._keys = read_order_keys(self._data_dir)
                self._told_seconds.clear()
            self._trouble = ""
        except FileNotFoundError:  # a bot that gives no orders
            self._keys, self._changed_at = None, -1
        except (OSError, ConfigError) as error:
            if str(error) != self._trouble:
                log.error("the orders' key cannot be used, no node takes orders error=%s", error)
            self._trouble, self._keys, self._changed_at = str(error), None, -1
        return self._keys

    async def _tell_all(self, keys: OrderKeys) -> None:
        newest = key_name(keys.public)  # nearly all nodes have it
        others = [(node, name) for node, name in self._fleet.order_keys().items() if name not in ("", newest)]
        for node, name in sorted(others):
            await self._tell(keys, node, name)

    async def _tell(self, keys: OrderKeys, node: str, name: str) -> None:
        changes, now_seconds = keys.since(name), clock.monotonic_seconds()
        if changes is None and (node, name) not in self._strange:
            self._strange.add((node, name))
            log.error(
                "node believes another key for orders than ours: copy orders.key from where another bot has a newer "
                "one, or let the node join again node=%s key=%s",
                *(node, name),
            )
        if not changes or now_seconds - self._told_seconds.get(node, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return
        self._told_seconds[node] = now_seconds
        for change in changes:
            await self._link.publish_core(subjects.key_change(node), change)
