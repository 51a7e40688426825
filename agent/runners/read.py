"""Reads one runner: its API, its pages, its sources and its process, all at once, each with its own deadline."""

import asyncio
from collections.abc import Awaitable
from typing import Any
from urllib.parse import urlsplit

from agent.progress.moves import COMPLETED, DEMAND
from agent.runner_config import RunnerConfig, Source
from agent.runner_reading import Api, CanaryResult, GpuLook, RunnerReading
from agent.runners import ollama
from agent.runners.canary import Target, send
from agent.runners.gathered import Gathered
from agent.runners.http import Answer, Failure, Server, status_words
from agent.runners.pages import BadPageError, compiled, json_value, metric_value, parse_json, parse_metrics
from agent.runners.plan import canary_settings, canary_spec, preset_of, progress_name
from agent.runners.preset import CanarySpec, Page, Role, Signal
from agent.runners.presets import PROPS_PATH, SLOTS_PAGE
from agent.runners.sources import NumberSource, Unread, source_of
from agent.runners.state import ProcessFinder
from wire.ticks import ApiState, ProcessState, Witness, WitnessKind

ANSWER_SECONDS = 5.0
LOADING_SECONDS = 900.0  # for weights from a slow disk


class RunnerReader:
    """`saved` is what an earlier run of the agent kept: `state` then and now."""

    def __init__(self, config: RunnerConfig, saved: Any = None, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.name, self._config, self._preset = config.name, config, preset_of(config)
        self._answer_seconds = answer_seconds
        saved = saved if isinstance(saved, dict) else {}
        self._server = None if config.url is None else self._server_at(config.url)
        self._page_servers = [self._server_of(page) for page in self._preset.pages]
        self._sources = _sources(config, saved.get("sources"))
        self._finder = None if config.state is None else ProcessFinder(config.state)
        self._slots_answered_at_work = bool(saved.get("slots_answered_at_work"))
        own_port = 0 if self._server is None else self._server.port
        self._children = ollama.Children(own_port, config.body_max_size, answer_seconds)
        self._loaded: ollama.LoadedModels | None = None

    @property
    def state(self) -> dict[str, Any]:
        sources = {name: source.state for name, source in self._sources.items() if source.state is not None}
        return {"sources": sources, "slots_answered_at_work": self._slots_answered_at_work}

    async def read(self, gpu: GpuLook) -> RunnerReading:
        gathered = Gathered()
        parts: list[Awaitable[None]] = [self._read_source(gathered, *named) for named in self._sources.items()]
        if self._server is not None:
            parts.append(self._read_api(gathered, self._server))
            pages = zip(self._preset.pages, self._page_servers, strict=True)
            parts += [self._read_page(gathered, page, server) for page, server in pages]
        if self._finder is not None:
            parts.append(self._read_process(gathered, self._finder))
        if self._preset.name == "ollama" and self._server is not None:
            parts.append(self._read_ollama(gathered, self._server))
        await asyncio.gather(*parts)
        self._while_process_runs(gathered)
        self._judge_slots(gathered)
        return gathered.reading(gpu)

    async def canary(self, may_load: bool = False) -> CanaryResult | Unread:
        """Sends one and waits for its end. Unread: there is nothing that may be asked now, and why.

        `may_load`: the model that the config names may be loaded by it, which takes longer.
        """
        settings, spec = canary_settings(self._config), canary_spec(self._config)
        if settings is None or spec is None or self._server is None:
            return Unread("no canary is configured")
        target = await self._target(self._server, spec, settings.model)
        if may_load and isinstance(target, Unread) and self._is_unloaded(settings.model):
            target = Target(settings.model, loads=True)
        if isinstance(target, Unread):
            return target
        seconds = LOADING_SECONDS if target.loads else settings.first_token_timeout.total_seconds()
        return await send(self._server, spec, target, seconds)

    def _server_at(self, url: str) -> Server:
        config = self._config
        return Server(url, config.headers_file, config.ca_file, config.body_max_size)

    def _server_of(self, page: Page) -> Server | None:
        """None: the API's own."""
        if page.is_metrics and self._config.metrics_url is not None:
            return self._server_at(self._config.metrics_url)
        if page.port is None or self._config.url is None:
            return None
        parts = urlsplit(self._config.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return self._server_at(f"{parts.scheme}://{host}:{page.port}")

    async def _read_api(self, gathered: Gathered, server: Server) -> None:
        """What our own mistake hides (a key, a certificate, a redirect) is not seen, and not the runner's end."""
        answer = await server.get(self._preset.alive, self._answer_seconds)
        if isinstance(answer, Failure) and answer.is_ours:
            gathered.unread("API", Unread(answer.why, is_config_error=True))
        elif isinstance(answer, Failure):
            gathered.api = Api(answer.state, detail=answer.why)
        elif answer.status in (401, 403) or 300 <= answer.status < 400:
            gathered.unread("API", Unread(status_words(answer.status), is_config_error=True))
        elif answer.status == 200 or (not self._preset.alive and answer.status < 500):
            gathered.api = Api(ApiState.OK, answer.milliseconds)
        else:
            gathered.api = Api(ApiState.STATUS, answer.milliseconds, status_words(answer.status))
            gathered.is_loading = gathered.is_loading or self._says_loading(answer)

    def _says_loading(self, answer: Answer) -> bool:
        word = self._preset.loading_word.encode()
        return bool(word) and answer.status == 503 and word in answer.body

    async def _read_page(self, gathered: Gathered, page: Page, server: Server | None) -> None:
        asked = server or self._server
        assert asked is not None, "a page without a port of its own is read from the API's server"
        if page.wakes and await self._sleeps(asked):
            gathered.loaded = 0.0
            return
        is_moved = server is not None and page.is_metrics and self._config.metrics_url is not None
        answer = await asked.get("" if is_moved else page.path, self._answer_seconds)
        self._take_page(gathered, page, answer)

    async def _sleeps(self, server: Server) -> bool:
        """Its model is unloaded until somebody asks for something. A server that does not tell does not sleep."""
        answer = await server.get(PROPS_PATH, self._answer_seconds)
        if isinstance(answer, Failure) or answer.status != 200:
            return False
        try:
            document = parse_json(answer.body)
        except BadPageError:
            return False
        return isinstance(document, dict) and document.get("is_sleeping") is True

    def _take_page(self, gathered: Gathered, page: Page, answer: Answer | Failure) -> None:
        values: dict[str, float | None] = {}
        if isinstance(answer, Failure):
            gathered.unread(page.path, Unread(answer.why, is_config_error=answer.is_ours))
            if page.hang_is_witness and answer.state is ApiState.TIMEOUT:
                gathered.witnesses.append(Witness(WitnessKind.LOOP_HANGS, detail=f"{page.path} does not answer"))
        elif answer.status != 200:
            words = status_words(answer.status)
            gathered.unread(page.path, Unread(words, is_config_error=answer.status in (401, 403)))
        else:
            values = self._values(gathered, page, answer)
        for signal in page.signals:
            gathered.signal(signal, values.get(signal.name))

    def _values(self, gathered: Gathered, page: Page, answer: Answer) -> dict[str, float | None]:
        try:
            values = _metrics(page, answer.body) if page.is_metrics else _fields(page, answer.body)
        except BadPageError as error:
            gathered.unread(page.path, Unread(str(error)))
            return {}
        if page.header in answer.headers:
            gathered.exporter = answer.headers[page.header][:40]
        absent = [name for name, value in values.items() if value is None and name not in _OFTEN_ABSENT]
        if absent:
            gathered.unread(page.path, Unread(f"no {', '.join(absent)} on the page"))
        return values

    async def _read_source(self, gathered: Gathered, name: str, source: NumberSource) -> None:
        value = await source.read()
        if isinstance(value, Unread):
            gathered.unread(name, value)
        role = {COMPLETED: Role.COMPLETED, DEMAND: Role.DEMAND}.get(name, Role.GAUGE)
        gathered.signal(Signal(role, name), None if isinstance(value, Unread) else value)

    async def _read_process(self, gathered: Gathered, finder: ProcessFinder) -> None:
        found = await finder.find()
        if isinstance(found, Unread):
            gathered.unread("process", found)
        else:
            gathered.process, gathered.read_bytes = found.process, found.read_bytes

    def _while_process_runs(self, gathered: Gathered) -> None:
        demand, process = self._config.demand, gathered.process
        if demand is None or not demand.while_process_runs:
            return
        gathered.demands[DEMAND] = None if process is None else float(process.state is not ProcessState.GONE)

    def _judge_slots(self, gathered: Gathered) -> None:
        """A hanging page is evidence only where it was seen to answer while there was work, and where the API lives."""
        if (gathered.own_demands.get("processing") or 0) > 0:
            self._slots_answered_at_work = True
        lives = gathered.api is not None and gathered.api.state is ApiState.OK
        if not (lives and self._slots_answered_at_work):
            gathered.witnesses.clear()

    async def _read_ollama(self, gathered: Gathered, server: Server) -> None:
        answer = await server.get("/api/ps", self._answer_seconds)
        try:
            loaded = ollama.loaded_models(answer) if isinstance(answer, Answer) and answer.status == 200 else None
        except BadPageError as error:
            gathered.unread("/api/ps", Unread(str(error)))
            return
        if loaded is None:
            why = answer.why if isinstance(answer, Failure) else status_words(answer.status)
            gathered.unread("/api/ps", Unread(why))
            return
        self._loaded = loaded
        gathered.gauges["expires"] = loaded.expires
        gathered.loaded = float(len(loaded.models))
        gathered.may_ask_when_idle = all(model.is_endless for model in loaded.models)
        gathered.own_demands["overdue"] = float(loaded.overdue)
        await self._read_children(gathered)

    async def _read_children(self, gathered: Gathered) -> None:
        """Slots of all children together: one that moves is Ollama that works."""
        slots: list[Any] = []
        for answer in await self._children.slots():
            if isinstance(answer, Answer) and answer.status == 200:
                slots += ollama.slots(answer)
            elif isinstance(answer, Answer) and answer.status == 503 and b"oading model" in answer.body:
                gathered.is_loading = True
            else:
                self._take_page(gathered, SLOTS_PAGE, answer)
                return
        if slots:
            for signal in SLOTS_PAGE.signals:
                gathered.signal(signal, json_value(slots, signal.value))

    async def _target(self, server: Server, spec: CanarySpec, wanted: str) -> Target | Unread:
        if self._preset.name == "ollama":
            return self._loaded_target(wanted)
        if not spec.models_path:
            return Target("" if wanted == "auto" else wanted)
        answer = await server.get(spec.models_path, self._answer_seconds)
        if isinstance(answer, Failure):
            return Unread(f"the list of models cannot be read: {answer.why}", is_config_error=answer.is_ours)
        if answer.status != 200:
            return Unread(f"the list of models: {status_words(answer.status)}", is_config_error=answer.status < 500)
        return _listed_target(answer.body, spec, wanted)

    def _is_unloaded(self, wanted: str) -> bool:
        """Whether it is an Ollama that holds nothing, and the config names what it should hold."""
        holds_nothing = self._loaded is not None and not self._loaded.models
        return self._preset.name == "ollama" and holds_nothing and wanted != "auto"

    def _loaded_target(self, wanted: str) -> Target | Unread:
        """Only what is loaded, as it is loaded."""
        models = () if self._loaded is None else self._loaded.models
        named = [model for model in models if wanted in ("auto", model.name, model.name.removesuffix(":latest"))]
        if not named:
            return Unread("no model that may be asked is loaded")
        if named[0].context is None:
            why = "this Ollama does not tell the context length of a loaded model, so asking could load it anew"
            return Unread(why, is_config_error=True)
        return Target(named[0].name, named[0].context)


_OFTEN_ABSENT = frozenset({"awake", "started", "text_length", "kv_cache", "token_usage", "newest_prompt"}) | {
    "decoded",  # a slot that was never used has none of these
    "prompt_processed",
    "tasks",
}


def _sources(config: RunnerConfig, saved: Any) -> dict[str, NumberSource]:
    named: dict[str, Source | None] = {COMPLETED: config.completed, DEMAND: config.demand}
    named |= {progress_name(number): source for number, source in enumerate(config.progress)}
    states = saved if isinstance(saved, dict) else {}
    made = {
        name: source_of(source, config.ca_file, config.body_max_size, states.get(name))
        for name, source in named.items()
        if source is not None
    }
    return {name: source for name, source in made.items() if source is not None}


def _metrics(page: Page, body: bytes) -> dict[str, float | None]:
    samples = parse_metrics(body, frozenset(name for signal in page.signals for name in signal.metrics))
    return {signal.name: metric_value(samples, signal.metrics, signal.labels) for signal in page.signals}


def _fields(page: Page, body: bytes) -> dict[str, float | None]:
    document = parse_json(body)
    return {signal.name: json_value(document, signal.value) for signal in page.signals}


def _listed_target(body: bytes, spec: CanarySpec, wanted: str) -> Target | Unread:
    try:
        found = compiled(spec.models).search(parse_json(body))
    except BadPageError as error:
        return Unread(f"the list of models cannot be read: {error}")
    names = [name for name in found or () if isinstance(name, str)]
    if wanted != "auto":
        return Target(wanted) if wanted in names else Unread("the model of the canary is not listed", True)
    if not names:
        return Unread("the list of models is empty")
    if spec.auto_if_single and len(names) > 1:
        return Unread(f"{len(names)} models are listed: name one that is always loaded in canary.model", True)
    return Target(names[0])
