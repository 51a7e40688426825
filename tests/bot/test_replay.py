"""gpu-oncall replay: the record judged again, and what differs from what was said."""

from datetime import timedelta

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from bot import clock
from bot.__main__ import cli
from bot.incident import Kind
from bot.ingest import Arrived
from bot.render.words import words
from bot.replay.compare import Difference, compare
from bot.replay.text import comparison
from tests.bot.build_cards import candidate
from tests.bot.build_cards import gpu as on_card
from tests.bot.build_incidents import finding
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from tests.build_ticks import hung, tick
from wire.messages import Verdict, encode

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
C, H = Verdict.CANDIDATE, Verdict.HELD


def incident(kind=Kind.CANDIDATE, subject="gpu-01", opened=0.0, closed=None, **changes):
    closed_at = None if closed is None else START + closed * MINUTE
    values = {"kind": kind, "subject": subject, "opened_at": START + opened * MINUTE, "closed_at": closed_at}
    return replace(candidate(on_card(0)), **{**values, **changes})


A = incident(opened=5, closed=15)


@pytest.mark.parametrize(
    ("then", "now", "same", "differences"),
    [
        pytest.param([A], [A], 1, [], id="the same"),
        pytest.param([A], [incident(opened=6, closed=99)], 1, [], id="a minute is no difference"),
        pytest.param([A], [incident(opened=9, closed=15)], 0, ["both"], id="later"),
        pytest.param([A], [incident(opened=16)], 0, ["then", "now"], id="two different ones"),
        pytest.param([A], [incident(subject="gpu-02", opened=6)], 0, ["then", "now"], id="another node"),
        pytest.param([A], [], 0, ["then"], id="not said now"),
        pytest.param([], [A], 0, ["now"], id="only said now"),
        pytest.param([incident(opened=-90)], [incident(opened=3)], 1, [], id="it was open before the record begins"),
    ],
)
def test_what_was_said_is_compared_by_place_and_time(then, now, same, differences):
    found, others = compare(then, now, START, START + HOUR)
    assert (found, [_kind(one) for one in others]) == (same, differences)


def _kind(one: Difference) -> str:
    return "both" if one.then and one.now else "then" if one.then else "now"


def test_another_verdict_is_a_difference():
    stalled, down = (
        incident(Kind.RUNNER, "gpu-01/chat", finding=finding(what), gpus=()) for what in ("stalled", "down")
    )
    assert compare([stalled], [down], START, START + HOUR)[1] == [Difference(stalled, down)]


# --- the command ----------------------------------------------------------------------------------------------------


def ticks(first_minute: float, count: int):
    """Ten ticks of a window, in which a runner of class A hangs on."""
    return [hung(at_minutes=m, minutes=m, gpu_highest_percent=100) for m in _halves(first_minute, count)]


def _halves(first_minute: float, count: int):
    return [first_minute + number / 2 for number in range(count)]


@pytest.fixture
async def recorded(store, fleet, advance, ingest):
    """Nine windows: a GPU that is free from the third to the seventh, and a runner that hangs for 30 minutes."""
    for number in range(9):
        at = number * 5.0
        read = [tick(at_minutes=at + 0.5, has_moved=True)] if number > 6 else ticks(at + 0.5, 10)
        one = observation(FIRST_WINDOW + number, [H if number == 7 else C], ticks=read)
        fleet.heard(heartbeat(one.window_number, [one.gpus[0].verdict], sent_at=clock.now()))
        await ingest.take("OBS", START, [Arrived("gpuoncall.obs.gpu-01", number + 1, encode(one))])
        for each in read:
            fleet.heard(heartbeat(one.window_number, [one.gpus[0].verdict], runners=[each], sent_at=clock.now()))
            await advance.look_around()


@pytest.fixture
def replay(tmp_path, recorded):
    def replay(**stall):
        config = tmp_path / "config.yaml"
        thresholds = ", ".join(f"{key}: {value}" for key, value in stall.items())
        config.write_text(
            f"bot: {{data_dir: {tmp_path}, database: 'sqlite:///{tmp_path}/bot.db', bus: {{insecure: true}},"
            f" stall: {{{thresholds}}}}}\n"
        )
        done = CliRunner().invoke(cli, ["replay", "--config", str(config), "--since", "1h"], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output.splitlines()

    return replay


async def test_the_record_tells_what_was_said_and_when(replay):
    lines = replay()
    assert [line.partition("UTC  ")[2] for line in lines[:4]] == [
        "FREE gpu-01: 1 GPU free",
        "STALL gpu-01 chat: 0 results for 17 min, 12 waiting",
        "RECOVERED gpu-01 chat. It was: a runner is stalled (36 min: work moves again)",
        "OVER gpu-01: 1 no longer free (25 min)",
    ]
    assert lines[0].startswith("2026-11-30 00:15 UTC")
    assert lines[1].startswith("2026-11-30 12:17 UTC")


async def test_stricter_thresholds_say_it_later_or_not_at_all(replay):
    assert _stalls(replay(stalled_slow_a="25m")) == ["2026-11-30 12:25 UTC"]
    lines = replay(stalled_slow_a="2h", uncertain="2h")
    assert _stalls(lines) == []
    assert any(line.startswith("  only then  ") and "gpu-01 chat: a runner is stalled" in line for line in lines)


def _stalls(lines):
    return [line.partition("  ")[0] for line in lines if "  STALL" in line]


def test_a_difference_is_told_with_how_much_later_and_as_what():
    later = incident(Kind.RUNNER, "gpu-01/chat", opened=13, finding=finding("down"), gpus=())
    stalled = incident(Kind.RUNNER, "gpu-01/chat", opened=5, finding=finding("stalled"), gpus=())
    head, line = comparison(words("en"), 3, [Difference(stalled, later)])
    assert head == "Against what was said: 3 the same, 1 different"
    expected = "gpu-01 chat: a runner is stalled: now 8 min later, now a runner is down"
    assert line == f"  both       2026-11-30 00:05 UTC  {expected}"


async def test_nothing_is_written(replay, store, tmp_path):
    before = {path.name: path.stat().st_size for path in tmp_path.glob("bot.db*")}
    replay()
    assert {path.name: path.stat().st_size for path in tmp_path.glob("bot.db*")} == before


def test_without_a_record_there_is_nothing_to_judge(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"bot: {{data_dir: {tmp_path}, bus: {{insecure: true}}}}\n")
    done = CliRunner().invoke(cli, ["replay", "--config", str(config)])
    assert "there is no record yet" in str(done.exception)


def test_a_node_of_which_nothing_is_recorded_is_told(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"bot: {{data_dir: {tmp_path}, bus: {{insecure: true}}}}\n")
    assert CliRunner().invoke(cli, ["db", "migrate", "--config", str(config)]).exit_code == 0
    done = CliRunner().invoke(cli, ["replay", "--config", str(config), "--node", "gpu-10"])
    assert str(done.exception) == "of the node gpu-10 nothing is recorded: gpu-oncall status names those that are"


def test_a_duration_that_is_none_is_told(tmp_path):
    done = CliRunner().invoke(cli, ["replay", "--since", "long"])
    assert done.exit_code == 2
    assert "wants a duration such as 7d or 12h" in done.output
