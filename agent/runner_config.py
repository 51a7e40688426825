"""The list `runners:` of the agent's section: which runners are watched, and how each is read."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import fields

from wire import bounds
from wire.configfile import Duration, Problem, Size
from wire.ticks import MOST_RUNNERS

PresetName = Literal[
    "vllm", "sglang", "tgi", "ollama", "llama.cpp", "koboldcpp", "triton", "comfyui", "openai", "generic"
]
LARGEST_BODY = Size(16 * 1024 * 1024)
MOST_PROGRESS = 4

_NAME = re.compile(r"[0-9a-z][0-9a-z-]{0,31}", re.ASCII)
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[^\s@#]*)?", re.ASCII)
_URL_SENTENCE = "wants a URL without user and password, such as http://127.0.0.1:8000; keys go into headers_file"


class HttpJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number in a JSON answer. `value` is a JMESPath expression."""

    url: str
    value: str
    headers_file: Path | None = None

    def problems(self) -> Iterator[Problem]:
        yield from _url("url", self.url)
        import jmespath  # only nodes that use it load it

        try:
            jmespath.compile(self.value)
        except jmespath.exceptions.JMESPathError:
            yield Problem("value", "wants a JMESPath expression, for example length(queue)")


class Prometheus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sum of a metric's samples whose labels have the given values."""

    url: str
    metric: str
    labels: dict[str, str] = {}
    headers_file: Path | None = None

    def problems(self) -> Iterator[Problem]:
        yield from _url("url", self.url)
        if not re.fullmatch(r"[A-Za-z_:][A-Za-z0-9_:]*", self.metric):
            yield Problem("metric", "wants the name of a metric without labels, for example jobs_done_total")


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many lines matched since the agent first looked: in a file, or in the journal of a systemd unit."""

    match: str
    file: Path | None = None
    systemd_unit: str | None = None

    def problems(self) -> Iterator[Problem]:
        if (self.file is None) == (self.systemd_unit is None):
            yield Problem("", "wants either file or systemd_unit")
        yield from _absolute("file", self.file)
        try:
            re.compile(self.match)
        except re.error as error:
            yield Problem("match", f"wants a regular expression: {error}")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one number comes from: exactly one of the keys."""

    file: Path | None = None
    files: str | None = None
    http_json: HttpJson | None = None
    prometheus: Prometheus | None = None
    log: Log | None = None
    command: list[str] | None = None
    litellm: str | None = None
    while_process_runs: Literal[True] | None = None

    def problems(self) -> Iterator[Problem]:
        given = [info.name for info in fields(self) if getattr(self, info.name) is not None]
        if len(given) != 1:
            yield Problem("", f"wants exactly one of {', '.join(info.name for info in fields(self))}")
        yield from _absolute("file", self.file)
        if self.files is not None and not self.files.startswith("/"):
            yield Problem("files", 'wants a pattern with an absolute path, for example "/data/out/*.json"')
        if self.command == []:
            yield Problem("command", "wants a program and its arguments, for example [redis-cli, llen, jobs]")
        if self.litellm is not None:
            yield from _url("litellm", self.litellm)


class ProcessMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one process that runs exactly this file, of this user where one is named."""

    executable: Path
    user: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from _absolute("executable", self.executable)


class StateLayer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the runner's process is found: exactly one of the keys."""

    pid_file: Path | None = None
    systemd_unit: str | None = None
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    process: ProcessMatch | None = None

    def problems(self) -> Iterator[Problem]:
        given = [info.name for info in fields(self) if getattr(self, info.name) is not None]
        if len(given) != 1:
            yield Problem("", f"wants exactly one of {', '.join(info.name for info in fields(self))}")
        yield from _absolute("pid_file", self.pid_file)


class Canary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tiny real generation. `when_idle` auto: where the preset can load or evict nothing."""

    model: str = "auto"
    first_token_timeout: Duration = Duration(seconds=75)
    when_idle: Literal["auto", "yes", "no"] = "auto"

    def problems(self) -> Iterator[Problem]:
        if not self.model:
            yield Problem("model", "is empty: wants a model's name, or auto")
        limits = (
            Duration(seconds=5),
            Duration(seconds=110),
        )  # one at most is outstanding, and one is sent in 2 minutes
        yield from bounds.outside([("first_token_timeout", self.first_token_timeout, *limits)])


class RunnerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One runner. `canary` False: none is ever sent. A source given here takes the place of the preset's own."""

    name: str
    preset: PresetName
    url: str | None = None
    metrics_url: str | None = None
    headers_file: Path | None = None
    ca_file: Path | None = None
    gpus: Literal["all"] | list[str] = "all"
    canary: Canary | bool = True
    completed: Source | None = None
    progress: list[Source] = []
    demand: Source | None = None
    state: StateLayer | None = None
    body_max_size: Size = Size(2 * 1024 * 1024)

    def problems(self) -> Iterator[Problem]:
        if not _NAME.fullmatch(self.name):
            yield Problem("name", "wants lower-case letters, digits and hyphens, 32 at most, for example chat")
        for key in ("url", "metrics_url"):
            value = getattr(self, key)
            yield from _url(key, value) if value is not None else ()
        yield from self._sources()
        for key in ("headers_file", "ca_file"):
            yield from _absolute(key, getattr(self, key))
        yield from bounds.outside([("body_max_size", self.body_max_size, Size(64 * 1024), LARGEST_BODY)])

    def _sources(self) -> Iterator[Problem]:
        if self.preset == "generic":
            if self.completed is None and not self.progress:
                yield Problem("", "the preset generic needs completed or progress: nothing else shows that it works")
            if self.demand is None:
                yield Problem("", "the preset generic needs demand: without it nobody knows whether somebody waits")
        elif self.url is None:
            yield Problem("", f"the preset {self.preset} needs url, for example url: http://127.0.0.1:8000")
        if any(source is not None and source.while_process_runs for source in (self.completed, *self.progress)):
            yield Problem("", "while_process_runs is a demand: that a process runs shows no work")
        if len(self.progress) > MOST_PROGRESS:
            yield Problem("progress", f"wants at most {MOST_PROGRESS} sources")
        if self.demand is not None and self.demand.while_process_runs and self.state is None:
            yield Problem("demand", "while_process_runs needs state, so that the process can be found")


def runner_problems(runners: list[RunnerConfig]) -> Iterator[Problem]:
    """What only the list as a whole can show."""
    names = [runner.name for runner in runners]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("runners", f"two runners are called {name}: each needs a name of its own")
    if len(runners) > MOST_RUNNERS:
        yield Problem("runners", f"wants at most {MOST_RUNNERS}, so that a window's report stays small enough to send")


def _url(key: str, value: str) -> Iterator[Problem]:
    if not _URL.fullmatch(value):
        yield Problem(key, _URL_SENTENCE)


def _absolute(key: str, path: Path | None) -> Iterator[Problem]:
    if path is not None and not path.is_absolute():
        yield Problem(key, "wants an absolute path")
