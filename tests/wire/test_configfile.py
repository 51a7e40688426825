"""The loader on whole files: what is right loads, what is wrong is told with its line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.configfile import ConfigError, Duration, Problem, Size, load_section


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    every: Duration = Duration(seconds=10)
    most: Size = Size(1024)

    def problems(self) -> Iterable[Problem]:
        if self.every < Duration(seconds=1):
            yield Problem("every", "wants at least 1s")


class Runner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 80


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: str = "n"
    file: Path | None = None
    inner: Inner = msgspec.field(default_factory=Inner)
    maybe: Inner | None = None
    runners: list[Runner] = []
    by_model: dict[str, int] = {}


@pytest.fixture
def load(tmp_path: Path):
    def write_and_load(text: str) -> Outer:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return load_section(path, "agent", Outer)

    return write_and_load


def test_every_kind_of_value_arrives_as_its_type(load):
    config = load(
        "agent:\n  node: a\n  file: /x\n  inner: {every: 1h30m, most: 2GiB}\n  maybe: {}\n"
        "  runners: [{name: r, port: 8000}]\n  by_model: {H100: 4}\n"
    )
    assert config == Outer(
        node="a",
        file=Path("/x"),
        inner=Inner(Duration(hours=1, minutes=30), Size(2 << 30)),
        maybe=Inner(),
        runners=[Runner("r", 8000)],
        by_model={"H100": 4},
    )


@pytest.mark.parametrize(
    "text", ["bot: {}", "agent:", "agent: {}", "agent:\n  inner:\n", "bot: {whatever: 1}\nagent: {}"]
)
def test_a_missing_or_empty_section_means_defaults_and_the_other_section_is_not_read(load, text):
    assert load(text) == Outer()


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("agent:\n  nod: a\n", 2, "agent.nod: there is no such key; did you mean `node`?"),
        ("agent:\n  inner:\n    evry: 1s\n", 3, "agent.inner.evry: there is no such key; did you mean `every`?"),
        ("agent:\n  zzz: 1\n", 2, "the keys here are node, file, inner"),
        ("agent:\n  bot_token: hush\n", 2, "secrets never stand in this file"),
        ("agnet: {}\n", 1, "agnet: there is no such section; did you mean `agent`?"),
        ("agent:\n  node: 12\n", 2, "agent.node: wants text, got the number 12; for example `node: n`"),
        ("agent:\n  inner: 5\n", 2, "agent.inner: wants keys with values, got the number 5"),
        ("agent:\n  inner: {every: 10}\n", 2, "got the number 10; for example `every: 10s`"),
        ("agent:\n  inner: {every: 0s}\n", 2, "agent.inner.every: wants at least 1s"),
        ("agent:\n  maybe:\n    every: 10ms\n", 3, "agent.maybe.every: wants at least 1s"),
        ("agent:\n  inner: {most: 1 MB}\n", 2, "wants a size (KiB, MiB, GiB), got `1 MB`; for example `most: 1KiB`"),
        (
            "agent:\n  runners:\n    - name: a\n    - port: 1\n",
            4,
            "agent.runners[1]: the key name is missing; for example",
        ),
        (
            "agent:\n  runners:\n    - name: a\n      port: 0\n",
            4,
            "agent.runners[0].port: wants a whole number (at least 1",
        ),
        ("agent:\n  by_model:\n    H100: many\n", 3, "agent.by_model.H100: wants a whole number, got `many`"),
        ("agent:\n  node: a\n  inner: {}\n  node: b\n", 4, "the key node is there twice, first in line 2"),
        ("agent:\n\tnode: a\n", 2, "a tab stands where YAML wants spaces"),
        ("agent: [\n", 2, "this is not valid YAML"),
        ("agent: &a [*a]\n", 1, "an anchor contains itself"),
        ("agent: {}\n---\nagent: {}\n", 2, "this is not valid YAML"),
        ("agent: !!python/object:os.system x\n", 1, "this is not valid YAML"),
        ("just words\n", 1, "the file must consist of `key: value` lines"),
    ],
)
def test_a_mistake_is_told_with_file_line_key_and_what_to_do(load, text, line, sentence):
    with pytest.raises(ConfigError) as error:
        load(text)
    assert sentence in str(error.value)
    assert f"config.yaml:{line}: " in str(error.value)
    assert "\n" not in str(error.value)


def test_every_mistake_of_a_file_is_told_in_the_order_of_its_lines(load):
    with pytest.raises(ConfigError) as error:
        load("agent:\n  inner: {every: soon}\n  nod: a\nagnet: 1\n")
    assert [line.split(":")[1] for line in str(error.value).splitlines()] == ["2", "3", "4"]


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n"])
def test_an_empty_file_is_an_error_because_it_is_more_likely_lost_than_meant(load, text):
    with pytest.raises(ConfigError, match="the file is empty"):
        load(text)


def test_words_that_yaml_1_1_takes_for_booleans_numbers_and_dates_stay_text(load):
    for word in ("off", "no", "on", "1:30", "2026-01-01"):
        assert load(f"agent: {{node: {word}}}").node == word


def test_a_text_that_may_hold_a_password_is_not_shown(load):
    with pytest.raises(ConfigError) as error:
        load("agent:\n  inner: {every: 'https://me:hush@host'}\n")
    assert "hush" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_section(tmp_path / "absent.yaml", "agent", Outer)
    (tmp_path / "latin.yaml").write_bytes(b"agent: {node: \xe9}")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_section(tmp_path / "latin.yaml", "agent", Outer)


def test_a_file_that_is_no_config_by_its_size_is_not_read_to_its_end(tmp_path):
    for path in (Path("/dev/zero"), tmp_path / "log.yaml"):
        if not path.exists():
            path.write_text("- a line of a log\n" * 100_000)
        with pytest.raises(ConfigError, match=f"{path}: has more than 1,000,000 characters: this is no config file"):
            load_section(path, "agent", Outer)


@given(st.one_of(st.binary(max_size=60), st.text("agent:node inr{}[],&*!#'\"\n\t-?|>%@5", max_size=60).map(str.encode)))
def test_any_bytes_load_or_are_told(tmp_path_factory, body):
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(body)
    assert str(path) in _told(path) or _told(path) == "loaded"


def _told(path: Path) -> str:
    try:
        load_section(path, "agent", Outer)
    except ConfigError as error:
        return str(error)
    return "loaded"
