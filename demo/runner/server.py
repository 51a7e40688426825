"""The runner as a server on loopback, with a log that proves what was asked of it, and in which state it was then."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from demo.runner.life import HOLDING, MOVING, Life, State
from demo.runner.surfaces import CONTEXT, MODEL, SURFACES, Page, Reply, Shown

HOST = "127.0.0.1"
_KEPT = 50_000  # requests: hours of a demo


@dataclass(frozen=True)
class Asked:
    """One request as it came. `loaded` holds the models that were loaded then, each with its context length."""

    method: str
    path: str
    body: Any
    state: State
    loaded: dict[str, int]

    @property
    def beside_work(self) -> bool:
        """Whether tokens moved when it came."""
        return self.state in MOVING


class Runner:
    """`surface` is the name of a preset. `key`: what a state that wants one accepts. `is_endless`: see Shown.

    `log` holds every request, `generations` those that ask for tokens.
    """

    def __init__(
        self, state: State = State.RESTING, surface: str = "vllm", *, key: str = "key", is_endless: bool = False
    ) -> None:
        self.state, self.url, self.is_endless = state, "", is_endless
        self.life, self.log = Life(), deque[Asked](maxlen=_KEPT)
        self._surface, self._key, self._port = SURFACES[surface], key, 0
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._changed, self._is_closing = asyncio.Event(), False

    @property
    def generations(self) -> list[Asked]:
        return [asked for asked in self.log if asked.path in self._surface.generations]

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await self._listen()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://{HOST}:{self._port}"
        if self.state in self._surface.silent:
            await self._hush()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closing = True
        self._changed.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def become(self, state: State) -> None:
        """Into another state in which it listens too. What was held is answered as the new state answers it."""
        self.life.begin(state)
        self.state = state
        self._changed.set()
        self._changed = asyncio.Event()

    async def put(self, state: State) -> None:
        """Into any other state."""
        self.become(state)
        if state in self._surface.silent:
            await self._hush()
        elif self._site is None:
            await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, HOST, self._port, reuse_address=True)
        await self._site.start()

    async def _hush(self) -> None:
        """Nobody at the port."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.log.append(Asked(request.method, request.path, body, self.state, self._loaded()))
        page = self._surface.pages.get(request.path)
        if self._misses_key(request, page):
            return _response(Reply({"error": "invalid key"}, 401))
        if self.state is State.LOADING and self._surface.loads_with is not None:
            return _response(self._surface.loads_with)
        reply = await self._reply(request.path, page)
        if self.state in self._surface.silent and request.transport is not None:
            request.transport.abort()  # what was held ends with the process
        return _response(reply)

    async def _reply(self, path: str, page: Page | None) -> Reply:
        if page is not None:
            return await self._page(page)
        answer = self._surface.generations.get(path)
        return Reply("not found", 404) if answer is None else await self._generation(answer)

    async def _page(self, page: Page) -> Reply:
        await self._while_in({State.HUNG} if page.by_loop else set())
        if page.is_look:
            self.life.look(self.state)
        return page.show(self._shown())

    async def _generation(self, answer: Reply) -> Reply:
        await self._while_in(HOLDING)
        if self.state is State.ERRORING:
            return Reply({"error": "CUDA error: an illegal memory access was encountered"}, 500)
        self.life.did(completed=1, generated=1, prompted=8)
        return answer

    async def _while_in(self, states: "set[State] | frozenset[State]") -> None:
        while self.state in states and not self._is_closing:
            await self._changed.wait()

    def _misses_key(self, request: web.Request, page: Page | None) -> bool:
        is_open = page is not None and page.is_open
        given = request.headers.get("Authorization", "")
        return self.state is State.WANTS_KEY and not is_open and given != f"Bearer {self._key}"

    def _loaded(self) -> dict[str, int]:
        is_away = self.state in (State.LOADING, State.ASLEEP) or (self._surface.unloads and not self._shown().is_listed)
        return {} if is_away else {MODEL: CONTEXT}

    def _shown(self) -> Shown:
        return Shown(self.life, self.state, self.is_endless)


def _response(reply: Reply) -> web.Response:
    if isinstance(reply.body, str):
        return web.Response(text=reply.body, status=reply.status, headers=reply.headers)
    return web.json_response(reply.body, status=reply.status, headers=reply.headers)
