"""The second path to people, for when Slack takes nothing: the Apprise URLs of `fallback:`, mail, ntfy and others."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import apprise

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 30.0

# Apprise logs URLs, and URLs have passwords in them.
logging.getLogger("apprise").setLevel(logging.CRITICAL)


class Fallback:
    """`tell` never raises: whoever calls it has no third path."""

    def __init__(self, urls: Sequence[str], is_held: Callable[[], bool] = lambda: True) -> None:
        """`is_held` False: another bot works, and nothing leaves this one."""
        self._is_held = is_held
        self._targets: list[tuple[str, apprise.Apprise]] = []
        for url in urls:
            target = apprise.Apprise()
            if not target.add(url):
                log.error("An address of fallback is not one that Apprise understands; address=%s", _scheme(url))
                continue
            self._targets.append((_scheme(url), target))
        self._silent: set[str] = set()

    @property
    def is_there(self) -> bool:
        return bool(self._targets)

    async def tell(self, title: str, text: str) -> bool:
        """Whether at least one address took it. Each that fails is said once, and once when it works again."""
        if not self._is_held():
            return False
        taken = await asyncio.gather(*(self._one(scheme, target, title, text) for scheme, target in self._targets))
        return any(taken)

    async def _one(self, scheme: str, target: apprise.Apprise, title: str, text: str) -> bool:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                # In a thread: several of Apprise's services block, whatever its own async says.
                done = bool(await asyncio.to_thread(target.notify, title=title, body=text, body_format="text"))
        except Exception as error:  # any of a hundred services may fail in its own way
            self._say(scheme, False, type(error).__name__)
            return False
        self._say(scheme, done, "it did not take the message")
        return done

    def _say(self, scheme: str, works: bool, why: str) -> None:
        if works and scheme in self._silent:
            log.info("The second path works again; address=%s", scheme)
            self._silent.discard(scheme)
        elif not works and scheme not in self._silent:
            log.error("The second path does not work; address=%s error=%s", scheme, why)
            self._silent.add(scheme)


def understood(url: str) -> bool:
    """Whether Apprise knows what to do with it; sends nothing."""
    return apprise.Apprise.instantiate(url, suppress_exceptions=True) is not None


def _scheme(url: str) -> str:
    """The rest of it may be secret."""
    return url.partition("://")[0][:20] + "://…"
