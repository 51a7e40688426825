"""A runner with vLLM's surface on loopback that works, rests, or hangs while its API answers and its gauge says 0."""

import asyncio
from enum import StrEnum

from aiohttp import web


class Doing(StrEnum):
    WORKING = "working"
    RESTING = "resting"
    HANGING = "hanging"


class Runner:
    """`asked` holds every generation that was asked of it, as it came."""

    def __init__(self, doing: Doing = Doing.RESTING) -> None:
        self.doing = doing
        self.asked: list[dict[str, object]] = []
        self.url = ""
        self._completed, self._tokens = 400, 90_000
        self._site: web.AppRunner | None = None
        self._let_go = asyncio.Event()

    async def __aenter__(self) -> "Runner":
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
            ]
        )
        self._site = web.AppRunner(app, shutdown_timeout=0.1)
        await self._site.setup()
        await web.TCPSite(self._site, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._site.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._let_go.set()
        assert self._site is not None
        await self._site.cleanup()

    def recover(self, doing: Doing = Doing.WORKING) -> None:
        """What hung is answered after all."""
        self.doing = doing
        self._let_go.set()
        self._let_go = asyncio.Event()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "demo-model"}]})

    async def _metrics(self, _: web.Request) -> web.Response:
        if self.doing is Doing.WORKING:
            self._completed, self._tokens = self._completed + 1, self._tokens + 120
        running = 3 if self.doing is Doing.WORKING else 0
        lines = [
            f'vllm:request_success_total{{finished_reason="stop"}} {self._completed}',
            f"vllm:generation_tokens_total {self._tokens}",
            f"vllm:prompt_tokens_total {self._tokens // 3}",
            "vllm:kv_cache_usage_perc 0.1",
            f"vllm:num_requests_running {running}",
            "vllm:num_requests_waiting 0",
            "process_start_time_seconds 1764500000",
        ]
        return web.Response(text="\n".join([*lines, ""]))

    async def _completions(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        if self.doing is Doing.HANGING:
            await self._let_go.wait()
        self._completed, self._tokens = self._completed + 1, self._tokens + 1
        return web.json_response({"choices": [{"text": "pong"}], "usage": {"completion_tokens": 1}})
