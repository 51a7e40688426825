"""What the config says, as the parts of the bot want it."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from bot.advance import AdvanceSettings
from bot.config import STALL_VERDICTS, BotConfig, Mode
from bot.incident import CANDIDATES, Kind
from bot.judge.candidate import CandidateRule
from bot.judge.stall import StallSettings
from bot.remedy.model import Times
from bot.report.model import Price
from bot.reporting import ReportSettings
from wire.configfile import ConfigError, Duration
from wire.secrets import secret


def rule(config: BotConfig) -> CandidateRule:
    """The thresholds of the config; only `mode: demo` may believe short windows and recordings."""
    is_demo = config.mode is Mode.DEMO
    return CandidateRule(
        windows=config.candidates.windows,
        heartbeat_max_age_seconds=config.candidates.heartbeat_max_age.total_seconds(),
        sample_max_age_seconds=config.candidates.sample_max_age.total_seconds(),
        shortest_window_seconds=0.0 if is_demo else CandidateRule().shortest_window_seconds,
        believe_recordings=is_demo,
    )


def stall_settings(config: BotConfig) -> StallSettings:
    """The thresholds of the section `stall`, whose keys are the settings' names without the unit."""
    given = msgspec.structs.asdict(config.stall)
    return StallSettings(**dict(_setting(name, value) for name, value in given.items() if name != "post"))


def _setting(name: str, value: Any) -> tuple[str, Any]:
    return (f"{name}_seconds", value.total_seconds()) if isinstance(value, Duration) else (name, value)


def advance_settings(config: BotConfig) -> AdvanceSettings:
    return AdvanceSettings(
        gather=config.candidates.gather,
        edit_every=config.slack.edit_every,
        shadow=config.mode is Mode.SHADOW,
        groups=config.groups,
        calendar=config.calendar(),
        zone=config.slack.zone(),
        not_posted=STALL_VERDICTS - frozenset(config.stall.post),
        times=remedy_times(config),
        own_boot_id=own_boot_id(),
    )


def remedy_times(config: BotConfig) -> Times:
    """Plain timedeltas: they go into the record of each request."""
    given = msgspec.structs.asdict(config.remedies)
    return Times(**{name: timedelta(seconds=value.total_seconds()) for name, value in given.items()})


def own_boot_id() -> str:
    """Of the bot's own host, so that a card can say that the bot goes away with the node; "" where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def report_settings(config: BotConfig) -> ReportSettings:
    power = config.power
    price = Price(power.watts_idle, power.price_per_kwh, power.currency)
    return ReportSettings(config.slack.zone(), price, is_shadow=config.mode is Mode.SHADOW)


def channels(config: BotConfig) -> tuple[Mapping[Kind, str], str]:
    """The channel of each kind, and the home channel. Raises ConfigError where none is set."""
    named = config.slack.channels
    home = named.default or named.incidents or named.candidates
    if home is None:
        raise ConfigError("bot.slack.channels.default is not set: put the id of the channel for cards there")
    by_kind = {kind: (named.candidates if kind in CANDIDATES else named.incidents) or home for kind in Kind}
    return by_kind | {Kind.REMEDY: named.approvals or by_kind[Kind.REMEDY]}, home


def fallback_urls(config: BotConfig, environment: Mapping[str, str]) -> list[str]:
    """Raises ConfigError for the name of a secret that is not there."""
    return [_address("fallback", address, environment) for address in config.fallback]


def heartbeat_url(config: BotConfig, environment: Mapping[str, str]) -> str | None:
    """None where nobody is to be pinged; raises ConfigError for the name of a secret that is not there."""
    url = config.heartbeat_url
    return None if url is None else _address("heartbeat_url", url, environment)


def _address(key: str, address: str, environment: Mapping[str, str]) -> str:
    return address if "://" in address else _secret(key, address, environment)


def _secret(key: str, name: str, environment: Mapping[str, str]) -> str:
    url = secret(name, environment)
    if url is None:
        raise ConfigError(f"bot.{key} names the secret {name}: put the address into it, or a file into {name}_FILE")
    return url
