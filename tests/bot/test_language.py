"""Every language has every sentence, with the same values in it; and what is drawn in it fits and is harmless."""

import ast
import re
import string
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import bot
from bot.config import Slack
from bot.judge.verdict import Said
from bot.manifest import manifest
from bot.render import reply
from bot.render.card import Drawing, card
from bot.render.finding_card import sentence
from bot.render.report import week
from bot.render.words import words
from bot.slack.commands import COMMANDS
from tests.bot.any_input import CANDIDATES, FOUND, GROUPED, assert_fits_and_is_harmless
from tests.bot.test_render_cards import named

CATALOGUES = {
    path.name.removesuffix(".yaml"): yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in resources.files("bot.render.language").iterdir()
    if path.name.endswith(".yaml")
}
EN = CATALOGUES["en"]
OTHERS = sorted(set(CATALOGUES) - {"en"})
NOW = datetime(2026, 11, 30, tzinfo=UTC)
JAPANESE = re.compile(r"[぀-ヿ一-鿿]")


def names_in(sentence):
    return sorted({name for _, name, _, _ in string.Formatter().parse(sentence) if name})


def needed(key):
    """A language may do without a form for one."""
    return f"{key.removesuffix('.one')}.other" not in EN or not key.endswith(".one")


def test_the_config_allows_the_languages_that_there_are():
    assert set(get_args(Slack.__annotations__["language"])) == set(CATALOGUES)


@pytest.mark.parametrize("language", OTHERS)
def test_no_key_is_missing(language):
    missing = [key for key in EN if needed(key) and key not in CATALOGUES[language]]
    assert missing == [], f"write these keys of en.yaml into {language}.yaml too"


@pytest.mark.parametrize("language", OTHERS)
def test_no_key_is_left_that_english_does_not_have(language):
    assert [key for key in CATALOGUES[language] if key not in EN] == []


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_has_the_values_of_the_english_one(language):
    wrong = {
        key: (names_in(str(sentence)), names_in(str(EN[key])))
        for key, sentence in CATALOGUES[language].items()
        if key in EN and names_in(str(sentence)) != names_in(str(EN[key]))
    }
    assert wrong == {}


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_key_stands_once_in_its_file(language):
    text = resources.files("bot.render.language").joinpath(f"{language}.yaml").read_text(encoding="utf-8")
    keys = re.findall(r"^([a-z][\w.-]*):", text, re.MULTILINE)
    assert sorted({key for key in keys if keys.count(key) > 1}) == []


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_a_form_for_one_has_a_form_for_any_other_number(language):
    catalogue = CATALOGUES[language]
    alone = [key for key in catalogue if key.endswith(".one") and f"{key.removesuffix('.one')}.other" not in catalogue]
    assert alone == ["incidents.one"]  # a line about one of them


def test_a_language_without_a_form_for_one_counts_with_the_other():
    assert words("en").counted("incidents.open", 1) == "*1 open incident*"
    assert words("ja").counted("incidents.open", 1) == "*未解決のインシデント 1 件*"


def test_japanese_sentences_are_japanese():
    """Values, codes and names alone stay as they are."""

    def is_words(text):
        bare = re.sub(r"`[^`]*`|\{\w+\}|\b(GPU|PID|UUID|API|Slurm|Pod|h|m|d|until|ja)\b", "", text)
        return re.search(r"[A-Za-z]{2,}", bare) is not None

    left = [key for key, text in CATALOGUES["ja"].items() if is_words(str(text)) and not JAPANESE.search(str(text))]
    assert left == []


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_bold_is_read_as_bold_by_slack(language):
    """Outside of asterisks there must be a blank, a line's end, or punctuation that Slack knows."""
    wrong = []
    for key, text in CATALOGUES[language].items():
        bare = re.sub(r"`[^`]*`", "", str(text))
        if bare.count("*") % 2 or re.search(r"[^\s(]\*[^*\n]+\*|\*[^*\n]+\*[^\s:.,()·]", f" {bare} "):
            wrong.append(key)
    assert wrong == []


# --- what is drawn --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("incidents", [CANDIDATES, FOUND], ids=["candidates", "findings"])
def test_any_card_in_japanese_fits_and_is_harmless(incidents):
    @settings(max_examples=40, deadline=None)
    @given(incidents)
    def drawn(incident):
        assert_fits_and_is_harmless(card(words("ja"), Drawing(incident, "t", frozenset(), NOW)), named(incident))

    drawn()


@settings(max_examples=40, deadline=None)
@given(GROUPED, st.lists(CANDIDATES, max_size=3))
def test_any_group_in_japanese_fits_and_is_harmless(group, members):
    drawing = Drawing(group, "t", frozenset(), NOW, members=members)
    assert_fits_and_is_harmless(card(words("ja"), drawing), named(group))


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_help_usage_and_manifest_are_there_for_every_command(language):
    names = [name.removeprefix("/") for name in COMMANDS]
    assert_fits_and_is_harmless(reply.help_of(words(language), names))
    for name in names:
        assert reply.usage(words(language), name).text.startswith(f"/{name}")
    commands = manifest(words(language))["features"]["slash_commands"]
    assert all(0 < len(one["description"]) <= 2000 for one in commands)
    assert len(manifest(words(language))["display_information"]["description"]) <= 140


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_buttons_and_titles_fit_into_slacks_limits(language):
    catalogue = CATALOGUES[language]
    assert [key for key in catalogue if key.startswith(("button.", "menu.")) and len(catalogue[key]) > 75] == []
    titles = ("modal.snooze", "modal.not_a_stall", "modal.show_all", "modal.restart_runner", "modal.reboot_node")
    assert [key for key in titles if len(catalogue[key]) > 24] == []
    assert len(catalogue["modal.close"]) <= 24


def test_a_week_in_japanese_stands_in_columns():
    lines = week(words("ja"), [None] * 168)
    assert [line[0] for line in lines[1:]] == list("月火水木金土日")
    assert len({len(line) for line in lines[1:]}) == 1


# --- sentences in the code ------------------------------------------------------------------------------------------


def said_keys():
    """Every key that a `Said` of the code names in full."""
    for path in sorted(Path(bot.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_said = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Said" and node.args
            if is_said and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_what_judges_say_is_in_every_catalogue(language):
    catalogue = CATALOGUES[language]
    assert [key for key in said_keys() if key not in catalogue and f"{key}.other" not in catalogue] == []


def test_a_sentence_of_another_version_is_shown_by_its_key():
    assert sentence(words("en"), Said("evidence.backlog", texts={"why": "x"})) == (
        "a sentence of another version of this bot: evidence.backlog"
    )
