"""What a runner's config and preset come to: its class, its canary, and the pages that are left to read."""

from collections.abc import Mapping

from msgspec.structs import replace

from agent.progress import CanaryPlan, Plan
from agent.runner_config import Canary, RunnerConfig
from agent.runners.preset import CanarySpec, Page, Preset, Role
from agent.runners.presets import PRESETS
from wire.ticks import SignalClass

DEFAULT_CANARY = Canary()


def preset_of(config: RunnerConfig) -> Preset:
    """The preset without the signals for which the config names another source."""
    preset = PRESETS[config.preset]
    replaced = {Role.COMPLETED: config.completed, Role.DEMAND: config.demand}
    gone = {role for role, source in replaced.items() if source is not None}
    return replace(preset, pages=tuple(_without(page, gone) for page in preset.pages))


def plan_of(config: RunnerConfig, tick_seconds: float) -> Plan:
    spec = canary_spec(config)
    return Plan(
        runner=config.name,
        preset=config.preset,
        signal_class=_signal_class(config),
        tick_seconds=tick_seconds,
        canary=None if spec is None else CanaryPlan(_when_idle(config, spec), _adds(config, spec)),
    )


def canary_settings(config: RunnerConfig) -> Canary | None:
    """None where none may be sent."""
    if isinstance(config.canary, Canary):
        return config.canary
    return DEFAULT_CANARY if config.canary else None


def canary_spec(config: RunnerConfig) -> CanarySpec | None:
    """None where none is sent: switched off, or the preset has none, or it needs a name that is not given."""
    settings, spec = canary_settings(config), PRESETS[config.preset].canary
    if settings is None or spec is None or (spec.needs_name and settings.model == "auto"):
        return None
    return spec


def _without(page: Page, gone: set[Role]) -> Page:
    return replace(page, signals=tuple(signal for signal in page.signals if signal.role not in gone))


def _signal_class(config: RunnerConfig) -> SignalClass:
    """What sources of one's own add. Without a canary it stays what it is: nothing is then confirmed by it."""
    declared = PRESETS[config.preset].signal_class
    if declared is SignalClass.Q:
        return declared
    if config.progress:
        return SignalClass.A
    return SignalClass.B if config.completed is not None and declared is SignalClass.C else declared


def _when_idle(config: RunnerConfig, spec: CanarySpec) -> bool:
    settings = canary_settings(config)
    wanted = "no" if settings is None else settings.when_idle
    return spec.when_idle if wanted == "auto" else wanted == "yes"


def _adds(config: RunnerConfig, spec: CanarySpec) -> Mapping[str, float]:
    own = {progress_name(number): 0.0 for number in range(len(config.progress))}
    return {"completed": 1.0, **spec.adds, **own}


def progress_name(number: int) -> str:
    return f"progress_{number}"
