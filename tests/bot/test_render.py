"""Cards and answers: within every limit of Slack for any input, nothing of it a mention or a link."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import bot.render
import bot.slack
from bot.incident import GROUPS, CardState, Kind, QuietWhy
from bot.judge.track import LastHeld
from bot.judge.verdict import Because, Presence, Standing
from bot.offer import Offer, Offered
from bot.render import thread, why
from bot.render.candidates import candidates
from bot.render.card import Drawing, Shown, card
from bot.render.values import index_ranges, length, memory, reason
from bot.render.words import clean, code, escape, words
from bot.slack.commands import COMMANDS
from demo.workspace.block_kit import message_problems
from tests.bot.any_input import (
    ALICE,
    BOB,
    INSTANTS,
    NUMBERS,
    PROCESSES,
    REASONS,
    TEXTS,
    assert_fits_and_is_harmless,
)
from tests.bot.build_cards import NOW, gpu
from tests.bot.build_cards import candidate as incident
from tests.build import gpu_uuid, observation
from wire.messages import GpuWindow, Verdict
from wire.reasons import Reason, ReasonCode

EN = words("en")


def drawn(shown, free_now=None, **changes):
    free = {one.uuid for one in shown.gpus} if free_now is None else free_now
    return card(EN, Drawing(shown, "t" * 22, free, NOW, **changes))


# --- what the card says ---------------------------------------------------------------------------------------------


def test_a_free_gpu_shows_conditions_over_three_windows_who_had_it_and_for_how_long():
    text = drawn(incident(gpu(3))).text
    assert text.splitlines()[0] == "FREE gpu-07: 1 GPU free"
    assert "*GPU 3: free* for 25 min, since <!date^1796006100^{date_short_pretty} {time}|2026-11-30 02:35 UTC>" in text
    assert "Utilisation 0 %, 0 %, 0 % · memory 0 B, 0 B, 0 B · processes 0, 0, 0 (last windows of 5 min)" in text
    assert "by `alice`, PID 4321, `python train.py`" in text
    assert f"`NVIDIA H100 80GB HBM3` · `{gpu_uuid(3)}`" in text


@pytest.mark.parametrize(
    ("shown", "free_now", "title", "line"),
    [
        (gpu(), set(), "BEING JUDGED gpu-07: 1 being judged", "*GPU 0: being judged*. It was free for 25 min"),
        (
            gpu(state=CardState.NOT_JUDGED, because=Because.HEARTBEAT_OLD, detail="75 s"),
            None,
            "NOT JUDGED gpu-07: 1 not judged",
            "2026-11-30 03:00 UTC>: the node's last heartbeat is 75 s old. Do not count on it",
        ),
        (
            gpu(state=CardState.DISPUTED),
            None,
            "SAID TO BE IN USE gpu-07: 1 said to be in use",
            "*GPU 0: said to be in use* by <@U0BOB>, <!date^",
        ),
        (
            gpu(state=CardState.LEFT, because=Because.WINDOW_HELD, detail="compute_process"),
            None,
            "OVER gpu-07: 1 no longer free",
            "a window showed it in use (a compute process). It had been idle for 25 min",
        ),
        (
            gpu(state=CardState.LEFT, because=Because.NEW_BOOT),
            None,
            "OVER gpu-07: 1 no longer free",
            "the node was started anew",
        ),
        (
            gpu(last_held=None),
            None,
            "FREE gpu-07: 1 GPU free",
            "Nobody was seen on it since the node started or was first watched",
        ),
        (gpu(last_held=LastHeld(1, NOW)), None, "FREE gpu-07: 1 GPU free", "no process was listed"),
    ],
)
def test_every_state_has_its_title_and_its_line(shown, free_now, title, line):
    message = drawn(incident(shown, disputed_by=BOB, disputed_at=NOW), free_now)
    assert message.text.splitlines()[0] == title
    assert message.blocks[0]["text"]["text"] == title
    assert line in message.text
    assert line in message.blocks[1]["text"]["text"]


def elements(message):
    return [element for block in message.blocks if block["type"] == "actions" for element in block["elements"]]


def labels(message):
    found = elements(message)
    options = chain.from_iterable(element.get("options", []) for element in found)
    return [one["text"]["text"] for one in [*(element for element in found if "text" in element), *options]]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, ["Acknowledge", "Snooze…", "Why?", "Claim…", "It was in use"]),
        ({"acknowledged_by": ALICE, "acknowledged_at": NOW}, ["Snooze…", "Why?", "Claim…", "It was in use"]),
        ({"disputed_by": BOB, "disputed_at": NOW}, ["Acknowledge", "Snooze…", "Why?"]),
        ({"closed_at": NOW}, []),
    ],
)
def test_only_buttons_that_still_do_something_are_drawn(changes, shown):
    message = drawn(incident(gpu(), **changes))
    assert labels(message) == shown


def test_an_acknowledged_card_says_by_whom_and_when():
    text = drawn(incident(gpu(), acknowledged_by=ALICE, acknowledged_at=NOW)).text
    assert "Acknowledged by <@U0ALICE>, <!date^1796007600^" in text


def test_a_card_still_says_who_disputed_it_when_its_gpus_have_left():
    left = gpu(0, CardState.LEFT, because=Because.SAMPLE_HELD, detail="utilization")
    text = drawn(incident(left, disputed_by=BOB, disputed_at=NOW, closed_at=NOW)).text
    assert "Said to be in use by <@U0BOB>, <!date^" in text


def test_a_closed_card_says_how_long_all_were_idle():
    left = [gpu(index, CardState.LEFT, because=Because.SAMPLE_HELD, detail="memory_held") for index in range(3)]
    text = drawn(incident(*left, closed_at=NOW)).text
    assert "no GPU of this card is free any more. In all they were idle for 1.2 h" in text


@pytest.mark.parametrize("count", [1, 8, 9, 16, 200])
def test_any_number_of_gpus_fits_and_every_one_is_named_or_counted(count):
    message = drawn(incident(*(gpu(index) for index in range(count))))
    assert message.text.startswith(f"FREE gpu-07: {count} GPU")
    assert message_problems(message.blocks) == []
    assert len(message.text) <= 4000
    if count > 8:
        assert f"Also free: GPU 8{f'–{count - 1}' if count > 9 else ''} ({count - 8})" in str(message.blocks)


def test_what_is_free_stands_first():
    left = gpu(0, CardState.LEFT, because=Because.SAMPLE_HELD, detail="utilization")
    blocks = drawn(incident(left, gpu(1))).blocks
    assert blocks[1]["text"]["text"].startswith("*GPU 1: free*")


# --- any input ------------------------------------------------------------------------------------------------------

TIMES = st.sampled_from([1, 7, 70])
WINDOWS = st.builds(
    GpuWindow,
    index=NUMBERS,
    uuid=TEXTS,
    verdict=st.sampled_from(Verdict),
    reasons=st.lists(REASONS, max_size=2),
    samples=NUMBERS,
    expected_samples=NUMBERS,
    model=st.none() | TEXTS,
    utilization_max_percent=st.none() | NUMBERS,
    memory_max_bytes=st.none() | NUMBERS,
    processes=st.lists(PROCESSES, max_size=2),
    processes_cut=st.integers(0, 1000),
)
STANDINGS = st.builds(
    Standing,
    st.sampled_from(Presence),
    st.sampled_from(Because),
    NUMBERS,
    TEXTS,
    st.lists(REASONS, max_size=2).map(tuple),
)
REPORTS = st.builds(
    lambda window, errors, at: observation(gpus=[window], errors=errors, started_at=at, closed_at=at),
    WINDOWS,
    st.lists(REASONS, max_size=2),
    INSTANTS,
)
WHYS = st.builds(
    why.Why,
    node=TEXTS,
    uuid=TEXTS,
    index=NUMBERS,
    model=st.none() | TEXTS,
    at=st.none() | INSTANTS,
    window=st.none() | REPORTS,
    gpu=st.none() | WINDOWS,
    before=st.none() | REPORTS,
    streak=NUMBERS,
    windows=NUMBERS,
    standing=st.none() | STANDINGS,
    on_card=st.none() | st.sampled_from(CardState),
)
OFFERED = st.builds(
    Offered,
    offer=st.sampled_from(Offer),
    node=TEXTS,
    uuid=TEXTS,
    index=NUMBERS,
    model=st.none() | TEXTS,
    since=INSTANTS,
    idle_seconds=st.floats(),
    because=st.sampled_from(Because),
    detail=TEXTS,
    windows=NUMBERS,
    again=st.none() | NUMBERS,
    memory_bytes=st.none() | NUMBERS,
)


def multiplied(found, times):
    """With so many reasons, processes and errors."""
    if found.gpu is not None:
        many = {"reasons": found.gpu.reasons * times, "processes": found.gpu.processes * times}
        found = replace(found, gpu=replace(found.gpu, **many))
    if found.window is not None:
        found = replace(found, window=replace(found.window, errors=found.window.errors * times))
    return found


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(st.lists(WHYS, min_size=1, max_size=2), TIMES)
def test_any_why_fits_and_is_harmless(found, times):
    assert_fits_and_is_harmless(why.several(EN, [multiplied(one, times) for one in found] * 4))


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(st.lists(OFFERED, max_size=5), st.lists(TEXTS, max_size=3), TIMES)
def test_any_list_of_candidates_fits_and_is_harmless(offered, nodes, times):
    assert_fits_and_is_harmless(candidates(EN, offered * times, nodes, NOW))


def test_a_very_long_list_of_candidates_says_how_many_are_left_out():
    one = Offered(Offer.FREE, "gpu-07", gpu_uuid(0), 0, "NVIDIA H100", NOW, 900.0, Because.CONFIRMED, "3", 3)
    message = candidates(EN, [replace(one, index=index) for index in range(5000)], ["gpu-07", "gpu-08"], NOW)
    assert_fits_and_is_harmless(message)
    (table,) = [block for block in message.blocks if block["type"] == "table"]
    assert f"+ {5000 - (len(table['rows']) - 1)} more: ask for one node" in str(message.blocks)


def test_thread_lines_are_new_messages_and_mention_nobody():
    for key in ("thread.acknowledged", "thread.said_in_use"):
        assert_fits_and_is_harmless(thread.line(EN, key, {"user": ALICE}))


# --- pieces ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("<!channel>", "`&lt;!channel&gt;`"),
        ("a`b", "`a'b`"),
        ("&lt;", "`&amp;lt;`"),
        ("", "`-`"),
        ("a\x00\u202eb\nc", "`a b c`"),
        ("x" * 200, "`" + "x" * 59 + "…`"),
    ],
)
def test_foreign_text_in_fixed_width(foreign, shown):
    assert code(foreign, 60) == shown


def test_foreign_text_is_cut_before_it_is_escaped():
    assert escape(clean("<" * 100, 10)) == "&lt;" * 9 + "…"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (1500, "25 min"), (3600, "1.0 h"), (1e9, "277777.8 h"), (float("nan"), "?"), (-1, "?")],
)
def test_lengths(seconds, shown):
    assert length(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (4 << 20, "4.0 MiB"), (80 << 30, "80.0 GiB"), (-5, "-5 B")]
)
def test_memory(count, shown):
    assert memory(count) == shown


@pytest.mark.parametrize(
    ("indexes", "shown"),
    [([], ""), ([3], "3"), ([0, 1, 2, 7], "0–2, 7"), ([7, 0, 7], "0, 7"), (range(0, 200, 2), None)],
)
def test_ranges_of_indexes(indexes, shown):
    assert index_ranges(indexes) == shown or index_ranges(indexes).endswith(", 58 + 70")


def test_bytes_in_a_reason_are_shown_as_people_read_them():
    assert reason(EN, Reason(ReasonCode.MEMORY_HELD, "4194304")) == "4.0 MiB of memory are in use"
    assert reason(EN, Reason(ReasonCode.SAMPLE_ERROR, "<x>")) == "the reading failed: `&lt;x&gt;`"


# --- the catalogue --------------------------------------------------------------------------------------------------

FAMILIES = [
    *(f"because.{one}" for one in Because),
    *(f"{family}.{one}" for family in ("reason", "short") for one in ReasonCode),
    *(f"{family}.{one}" for family in ("title", "also") for one in Shown),
    *(f"what.{one}" for one in Kind if one is not Kind.RUNNER),
    *(f"{family}.{one}" for family in ("group",) for one in GROUPS),
    *(f"note.{one}" for one in QuietWhy),
    *(f"count.{one}.{form}" for one in Shown for form in ("one", "other")),
    *(f"thread.{one}.{form}" for one in CardState if one is not CardState.DISPUTED for form in ("one", "other")),
    *(f"candidates.{one}" for one in Offer if one is not Offer.FREE),
    *(f"state.{one}" for one in Offer),
    *(f"verdict.{one}" for one in Verdict),
    *(f"why.{one}" for one in Presence),
    *(f"{family}.{one.removeprefix('/')}" for family in ("usage", "help") for one in COMMANDS),
]
KEY = re.compile(r"[a-z]+(\.[a-z_-]*[a-z])+")


def sources():
    """The whole bot, without keys of the config, which look like ours."""
    return [path.read_text() for path in sorted(Path(bot.__path__[0]).rglob("*.py")) if path.name != "config.py"]


def constants():
    """Every text in the code that looks like a key, and every f-string as a pattern."""
    plain, patterns = set(), set()
    for node in chain.from_iterable(ast.walk(ast.parse(source)) for source in sources()):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain.add(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = [
                re.escape(part.value) if isinstance(part, ast.Constant) else r"[a-z0-9_.-]+" for part in node.values
            ]
            patterns.add("".join(parts))
    return plain, patterns


def test_every_key_that_the_code_uses_is_in_the_catalogue():
    namespaces = {key.split(".")[0] for key in EN.sentences}
    plain, _ = constants()
    used = {text for text in plain if KEY.fullmatch(text) and text.split(".")[0] in namespaces}
    missing = {key for key in used if key not in EN.sentences and f"{key}.other" not in EN.sentences}
    assert missing == set()
    assert len(used) > 60


def test_every_member_of_every_enum_has_its_sentence():
    assert [key for key in FAMILIES if key not in EN.sentences] == []


def test_every_sentence_of_the_catalogue_is_used():
    plain, patterns = constants()
    stems = {key: re.sub(r"\.(one|other)$", "", key) for key in EN.sentences}
    unused = [
        key
        for key, stem in stems.items()
        if not {key, stem} & plain
        and key not in FAMILIES
        and not any(re.fullmatch(one, key) for one in patterns if "\\." in one)
    ]
    assert unused == []


def test_a_sentence_for_one_has_its_twin_for_many():
    forms = [key for key in EN.sentences if key.endswith((".one", ".other"))]
    assert sorted({re.sub(r"\.(one|other)$", "", key) for key in forms}) == sorted(
        re.sub(r"\.one$", "", key) for key in forms if key.endswith(".one")
    )


def test_a_language_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError):
        words("tlh")
