"""What config and preset come to: the class, whether canaries go out, and what is taken out for them."""

import pytest

from agent.runner_config import Canary, RunnerConfig, Source
from agent.runners.plan import plan_of, preset_of
from agent.runners.preset import Role
from agent.runners.presets import PRESETS
from wire.ticks import MOST_SIGNALS

URL = "http://127.0.0.1:1"
FILE = Source(file="/n")


def plan(preset: str, **config):
    return plan_of(RunnerConfig(name="chat", preset=preset, url=URL, **config), 30.0)


@pytest.mark.parametrize(
    ("preset", "config", "seen"),
    [
        ("vllm", {}, "A"),
        ("openai", {}, "C"),
        ("openai", {"completed": FILE}, "B"),
        ("openai", {"progress": [FILE]}, "A"),
        ("triton", {}, "B"),
        ("comfyui", {"progress": [FILE]}, "Q"),
        ("generic", {"completed": FILE, "demand": FILE}, "Q"),
    ],
)
def test_the_class_follows_what_is_configured(preset, config, seen):
    assert plan(preset, **config).signal_class == seen


@pytest.mark.parametrize(
    ("preset", "config", "when_idle"),
    [
        ("vllm", {}, True),
        ("vllm", {"canary": Canary(when_idle="no")}, False),
        ("vllm", {"canary": False}, None),
        ("openai", {}, False),
        ("openai", {"canary": Canary(model="m", when_idle="yes")}, True),
        ("triton", {}, None),
        ("triton", {"canary": Canary(model="m")}, True),
        ("comfyui", {}, None),
        ("generic", {}, None),
    ],
)
def test_whether_canaries_go_out_and_also_while_idle(preset, config, when_idle):
    canary = plan(preset, **config).canary
    assert (None if canary is None else canary.when_idle) is when_idle


@pytest.mark.parametrize("name", PRESETS)
def test_every_reading_of_progress_that_a_canary_moves_is_taken_out(name):
    preset = PRESETS[name]
    if preset.canary is None:
        return
    moving = {Role.COMPLETED, Role.COUNTER, Role.GAUGE}
    signals = {signal.name for page in preset.pages for signal in page.signals if signal.role in moving}
    assert signals <= plan(name, canary=Canary(model="m")).canary.adds.keys() | ({""} if name == "openai" else set())


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fits_into_a_tick(name):
    roles = [signal.role for page in PRESETS[name].pages for signal in page.signals]
    assert roles.count(Role.COUNTER) + roles.count(Role.GAUGE) + 4 <= MOST_SIGNALS


def test_a_source_of_ones_own_takes_the_place_of_the_presets():
    config = RunnerConfig(name="chat", preset="tgi", url=URL, completed=FILE, demand=FILE)
    roles = {signal.role for page in preset_of(config).pages for signal in page.signals}
    assert roles == {Role.COUNTER}
