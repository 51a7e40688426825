"""The bot's section: wrong files and the sentence that each gets; config.yaml documents every key."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import fields

from bot.config import BotConfig, Bus, EmbeddedBus, load
from wire.configfile import ConfigError
from wire.yamllines import parse

ROOT = Path(__file__).parents[2]
WRONG = sorted((ROOT / "tests/cases/config/bot").glob("*.yaml"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_config_gets_its_sentence(path):
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value).replace(str(path), "config.yaml") == path.with_suffix(".txt").read_text().rstrip("\n")
    assert "hush" not in str(error.value)


def test_the_shipped_file_says_the_defaults():
    assert load(ROOT / "config.yaml") == BotConfig(bus=Bus(embedded=EmbeddedBus()))


def test_the_shipped_file_documents_every_key_and_its_examples_load(tmp_path):
    text = re.sub(r"^( *)#(\w|- )", r"\1\2", (ROOT / "config.yaml").read_text(), flags=re.MULTILINE)
    documented = {".".join(part for part in place if isinstance(part, str)) for place in parse(text).lines}
    assert set(_keys(BotConfig, "bot")) <= documented
    path = tmp_path / "config.yaml"
    path.write_text(
        re.sub(r"^    servers: \[tls://nats-1.*\n", "", text.replace("    replicas: 1\n", ""), flags=re.MULTILINE)
    )
    load(path)


def _keys(struct: type[msgspec.Struct], above: str):
    for info in fields(struct):
        yield f"{above}.{info.name}"
        for option in (info.type, *get_args(info.type)):
            if isinstance(option, type) and issubclass(option, msgspec.Struct):
                yield from _keys(option, f"{above}.{info.name}")


def test_demo_may_be_faster_than_real_life(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("bot: {mode: demo, candidates: {windows: 1, gather: 0s}, bus: {insecure: true}}\n")
    assert load(path).candidates.windows == 1


def test_a_server_is_started_unless_others_are_named():
    assert Bus().embedded_server() == EmbeddedBus()
    assert Bus(servers=["nats://127.0.0.1:4222"]).embedded_server() is None


def test_the_key_lies_in_the_data_dir_unless_a_file_is_named():
    assert BotConfig(data_dir=Path("/d")).key_file() == Path("/d/bot.nkey")
    assert BotConfig(bus=Bus(credentials=Path("/k"))).key_file() == Path("/k")
