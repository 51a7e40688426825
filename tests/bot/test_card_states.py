"""Each state of each card, word for word; `make pictures` writes these files anew."""

import pytest

from demo.workspace.block_kit import message_problems
from tests.bot.card_states import STATES
from tests.bot.write_cards import GOLDEN, PAGE, golden, page


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_a_card_is_as_it_was_looked_at(state):
    assert (GOLDEN / f"{state.name}.json").read_text(encoding="utf-8") == golden(state), "run: make pictures"
    assert message_problems(state.draw().blocks) == []


def test_there_is_no_file_without_a_state():
    assert {file.stem for file in GOLDEN.glob("*.json")} == {state.name for state in STATES}


def test_the_page_of_cards_shows_every_state_with_a_picture_and_its_words():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make pictures"
    for state in STATES:
        picture = PAGE.parent / f"pictures/{state.name}.png"
        assert picture.exists(), "run: make pictures"
        assert picture.stat().st_size < 60_000
        assert len(state.alt) > 20
    assert sum(file.stat().st_size for file in (PAGE.parent / "pictures").iterdir()) < 2_000_000
