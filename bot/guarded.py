"""A Slack client that asks whether it may still speak, right before each request leaves."""

import asyncio
from typing import Any, Protocol

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_internal_utils import _request_with_session


class Guard(Protocol):
    def check(self) -> None:
        """Raises where nothing may leave."""

    def note_cut(self) -> None:
        """A request was given up on its way: Slack may still carry it out."""


class _GuardedConnector(aiohttp.TCPConnector):
    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        """Connecting takes its time, and anything may have happened meanwhile: it is asked after that."""
        connection = await super().connect(*arguments, **options)
        try:
            self._guard.check()
        except BaseException:
            connection.close()
            raise
        return connection


class GuardedClient(AsyncWebClient):
    """A connection for each request, as the SDK has it by itself."""

    guard: Guard

    async def _request(self, *, http_verb: str, api_url: str, req_args: dict[str, Any]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with aiohttp.ClientSession(connector=_GuardedConnector(self.guard), timeout=timeout) as session:
                return await _request_with_session(
                    current_session=session,
                    timeout=self.timeout,
                    logger=self._logger,
                    http_verb=http_verb,
                    api_url=api_url,
                    req_args=req_args,
                    retry_handlers=self.retry_handlers,
                )
        except asyncio.CancelledError:
            self.guard.note_cut()
            raise
