"""The simulated fleet of `make scale`, in a tiny form: what it sends is what a node sends, and nothing gets lost."""

import pytest

from bench.page import write_section
from bench.scale.phases import Phases
from bench.scale.place import Place
from bench.scale.reports import FIRST_WINDOW, beat_body, message_id, window_body
from wire import subjects
from wire.messages import Verdict, decode_heartbeat, decode_observation


@pytest.mark.parametrize(("idle", "verdict"), [(True, Verdict.CANDIDATE), (False, Verdict.HELD)])
def test_what_a_simulated_node_sends_is_what_the_bot_reads(idle, verdict):
    window = decode_observation(subjects.observations("gpu-07"), window_body("gpu-07", 3, idle=idle))
    beat = decode_heartbeat(subjects.heartbeat("gpu-07"), beat_body("gpu-07", 3, idle=idle))
    assert (window.seq, window.window_number) == (3, FIRST_WINDOW + 2)
    assert (beat.last_seq, beat.last_closed_window) == (3, FIRST_WINDOW + 2)
    assert {gpu.verdict for gpu in (*window.gpus, *beat.gpus)} == {verdict}
    assert message_id("gpu-07", 3) == f"gpu-07.{window.spool_epoch}.3"


async def test_a_small_herd_comes_back_and_nothing_of_it_is_lost(tmp_path):
    async with Place(tmp_path / "place", nodes=5) as place:
        phases = Phases(place, steady_seconds=1, spread_seconds=0.5)
        await phases.connect()
        await phases.herd(windows=3, label="")
        await phases.mass_idle(quiet_seconds=1)
    said = {row.name: row.value for row in phases.rows}
    assert said["windows"] == "20 closed, 20 stored: 0 lost, 0 refused or missing"
    assert int(said["cards"]) <= 6
    assert "16 GPUs called free after the last window, after" in said


def test_each_command_writes_its_own_section_and_leaves_the_others(tmp_path):
    page = tmp_path / "performance.md"
    write_section("scale", "a fleet", page)
    write_section("bench", "old", page)
    write_section("bench", "new", page)
    text = page.read_text()
    assert text.startswith("# Performance")
    assert "old" not in text
    assert text.index("new") < text.index("a fleet")
