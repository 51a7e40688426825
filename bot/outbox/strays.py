"""Cards that are in Slack and that a database of an earlier time does not know: nobody would ever take them back."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from bot.notify import DeliveryError, DeliveryKind, Notifier
from bot.render.notice import stray
from bot.render.words import Words
from bot.store import outbox
from bot.store.writer import Store

log = logging.getLogger(__name__)

CLOCKS_DIFFER_BY = timedelta(seconds=60)  # Slack's and ours
_CANNOT_BE_SEEN = (DeliveryKind.SCOPE, DeliveryKind.CHANNEL)
_CANNOT_BE_CHANGED = (DeliveryKind.GONE, DeliveryKind.UNEDITABLE, DeliveryKind.REFUSED)


async def take_back_strays(
    store: Store, notifier: Notifier, words: Words, channels: Iterable[str], since: datetime
) -> None:
    """Each says instead that it is not kept up to date. Raises DeliveryError: it is done again, and goes on there."""
    for channel in channels:
        try:
            strays = await _strays(store, notifier, channel, since)
        except DeliveryError as error:
            if error.kind not in _CANNOT_BE_SEEN:
                raise
            log.warning("Cards of after the backup cannot be looked for; channel=%s error=%s", channel, error)
            continue
        for ts, text in strays:
            if text != stray(words).text:
                await _take_back(notifier, words, channel, ts)


async def _strays(store: Store, notifier: Notifier, channel: str, since: datetime) -> list[tuple[str, str]]:
    """As (ts, text)."""
    found = []
    async for one in notifier.own(channel, since - CLOCKS_DIFFER_BY):
        if not await store.read(partial(outbox.is_known, delivery_key=one.delivery_key)):
            found.append((one.ts, one.text))
    return found


async def _take_back(notifier: Notifier, words: Words, channel: str, ts: str) -> None:
    try:
        await notifier.update(channel, ts, stray(words))
    except DeliveryError as error:
        if error.kind not in _CANNOT_BE_CHANGED:
            raise
        log.warning("A card of after the backup cannot be taken back; channel=%s ts=%s error=%s", channel, ts, error)
