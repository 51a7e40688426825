"""The simulated fleet of `make scale`, in a tiny form: what it sends is what a node sends, and nothing gets lost."""

import pytest

from bench.page import write_section
from bench.scale.measured import Measured, growth_table, reckoned, walls
from bench.scale.phases import Phases
from bench.scale.place import Place, slow_server
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
    slow = slow_server(tmp_path / "slow")
    async with Place(tmp_path / "place", 5, slow) as place:
        phases = Phases(place, steady_seconds=1, spread_seconds=0.5)
        await phases.connect()
        await phases.steady()
        await phases.slow_herd(2)
        await phases.herd(windows=3, label="")
        await phases.mass_idle(quiet_seconds=1)
        phases.note_peaks()
    said = {row.name: row.value for row in phases.rows}
    closed = int(said["windows"].split()[0])
    assert closed >= 20 + 2 * bool(slow)
    assert said["windows"] == f"{closed} closed, {closed} stored: 0 lost, 0 refused or missing"
    noise = {"bot_mib", "server_mib"}  # what five nodes add is less than what a program lets go meanwhile
    assert min(value for name, value in vars(phases.measured).items() if name not in noise) >= 0
    assert phases.measured.database_bytes_per_window > 0
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


FLEET = Measured(
    nodes=10_000,
    bot_cores=0.25,
    server_cores=0.1,
    bot_mib=300.0,
    server_mib=500.0,
    herd_windows_per_second=1_800.0,
    herd_cpu_seconds_per_window=0.0005,
    database_bytes_per_window=4096.0,
    bot_peak_mib=700.0,
    server_peak_mib=900.0,
)


def test_a_larger_fleet_is_reckoned_from_what_was_measured():
    rows = {row[0]: row[1:] for row in map(cells, reckoned(FLEET).splitlines()) if len(row) == 4}
    assert rows["CPU of bots, steady"] == ["cores", "0.25", "2.5"]
    assert rows["CPU of bots for a flush, each window"] == ["ms", "0.5", "0.5"]
    assert rows["windows and heartbeats"] == ["messages/s", "367", "3,667"]
    assert rows["database, each day"] == ["GiB", "11", "110"]
    assert "| 1.12 MiB | 1,800 windows/s |" in growth_table([FLEET])


def test_the_first_wall_of_one_bot_says_how_many_bots_it_takes():
    assert sorted(walls(FLEET).values()) == [9_000, 10_000, 20_000]
    assert "- 9,000 nodes: 12 windows of every node judged and stored within 60 s" in reckoned(FLEET)
    assert "So 100,000 nodes are 12 bots with 8,334 nodes each." in reckoned(FLEET)


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]
