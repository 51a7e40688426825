"""What a preset consists of: data that says where a runner shows which signal, and how to ask it for one token."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from wire.ticks import SignalClass


class Role(StrEnum):
    """What a number on a page means.

    `counter` only grows, `gauge` may move either way; a change of either is progress. `demand` is published by a part
    that does not hang with the engine, `own_demand` by the engine itself. `awake` 0 means paused, `loaded` 0 that no
    model is loaded. `exporter` changes with every start.
    """

    COMPLETED = "completed"
    COUNTER = "counter"
    GAUGE = "gauge"
    DEMAND = "demand"
    OWN_DEMAND = "own_demand"
    AWAKE = "awake"
    LOADED = "loaded"
    EXPORTER = "exporter"


class Signal(msgspec.Struct, frozen=True):
    """`metrics`: names of which the first one that is there counts (old and new versions); samples are summed.

    `value` is a JMESPath expression instead; numbers in a list are summed, an empty list is nothing read.
    `zero_is_unread`: the place shows 0 also when it shows nothing. `is_idle`: the number is 1 when nothing is in work,
    so that demand is its opposite.
    """

    role: Role
    name: str
    metrics: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = {}
    value: str = ""
    zero_is_unread: bool = False
    is_idle: bool = False


class Page(msgspec.Struct, frozen=True):
    """`port` where it is not the API's. `hang_is_witness`: it is served by the loop that does the work. `wakes`:
    reading it would load the model of a server that sleeps.

    `header` names, in lower case, a header of the answer that changes with every start.
    """

    path: str
    signals: tuple[Signal, ...]
    port: int | None = None
    hang_is_witness: bool = False
    wakes: bool = False
    is_metrics: bool = False
    header: str = ""


class CanarySpec(msgspec.Struct, frozen=True):
    """A request for one token. `{model}` and `{nonce}` in path and body are filled in; `tokens` counts what came back.

    `models` is the page and expression that list what is loaded; "" where the request needs no name. `auto_if_single`:
    the list also holds what is not loaded, so a name is taken from it only when it holds one. `adds`: how much a good
    canary adds to which reading, at most.
    """

    path: str
    body: Mapping[str, Any]
    tokens: str
    models_path: str = ""
    models: str = ""
    auto_if_single: bool = False
    needs_name: bool = False
    when_idle: bool = True
    adds: Mapping[str, float] = {}


class Preset(msgspec.Struct, frozen=True):
    """`alive` proves connectivity and nothing else; "" where any answer will do.

    `loading_word` in a 503 there means that a model is being loaded.
    """

    name: str
    signal_class: SignalClass
    alive: str = ""
    pages: tuple[Page, ...] = ()
    canary: CanarySpec | None = None
    loading_word: str = ""
