"""A page of a program on loopback, as a browser reads it."""

import asyncio
import urllib.error
import urllib.request


async def page(port: int, path: str) -> tuple[int, str]:
    """Status and text. Raises OSError where nobody listens."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)
