"""What the embedded server says of itself on its monitoring port."""

import re
from dataclasses import dataclass
from typing import Any

import aiohttp

_UNRECOVERABLE = re.compile(r"JetStream (?:stream|consumer) '([^']+)' could not be recovered")


@dataclass(frozen=True)
class Health:
    """`trouble` None means well. `lost` is account, stream and perhaps consumer of what the server cannot recover."""

    trouble: str | None
    lost: tuple[str, ...] = ()


async def read_health(monitor: str, deadline_seconds: float) -> Health:
    """Never raises for a server that does not answer: that is a trouble too."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=deadline_seconds)) as session,
            session.get(f"http://{monitor}/healthz", allow_redirects=False) as response,
        ):
            return _judged(response.status, await response.json(content_type=None))
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        return Health(f"no answer on the monitoring port: {str(error) or type(error).__name__}")


def _judged(status: int, body: Any) -> Health:
    if status == 200:
        return Health(None)
    trouble = str(body.get("error")) if isinstance(body, dict) else f"status {status}"
    match = _UNRECOVERABLE.search(trouble)
    return Health(trouble, tuple(match[1].split(" > ")) if match else ())
