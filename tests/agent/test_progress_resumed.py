"""Where the clock goes on and where it begins anew: another life of the runner, a gap, a boot, the agent restarted."""

import msgspec
import pytest
from msgspec.structs import replace

from agent.progress import Memory
from agent.runner_reading import RunnerProcess
from tests.agent.progress_node import BUSY, LATE, PLAN, Node, stalled
from tests.build import OTHER_BOOT
from wire.ticks import ProcessState, SignalClass

OTHER_LIVES = {
    "another pid": replace(BUSY, process=RunnerProcess(ProcessState.ALIVE, 8, "100", 5.0)),
    "the same pid, started again": replace(BUSY, process=RunnerProcess(ProcessState.ALIVE, 7, "900", 5.0)),
    "another exporter": replace(BUSY, exporter="1796400999.00"),
}


@pytest.mark.parametrize("name", OTHER_LIVES)
def test_another_life_of_the_runner_drops_every_clock_and_every_baseline(name):
    node = Node()
    node.sees(replace(BUSY, exporter="1796400000.00"), 20)
    node.sees(replace(BUSY, canary=LATE))
    tick = node.sees(replace(OTHER_LIVES[name], completed=99.0))
    assert (tick.no_progress_seconds, tick.canary_timeouts, tick.has_moved) == (0, 0, False)
    assert node.sees(OTHER_LIVES[name]).no_progress_seconds == 30


def test_a_process_that_cannot_be_looked_at_for_once_is_no_other_life():
    node = stalled(5)
    node.sees(replace(BUSY, process=None))
    assert node.sees(BUSY).no_progress_seconds == 360


@pytest.mark.parametrize("gap", [91.0, 3600.0 * 8])
def test_who_slept_knows_nothing_of_the_time_between(gap):
    node = stalled(10)
    assert node.sees(BUSY, after=gap).no_progress_seconds == 0
    assert node.sees(BUSY).no_progress_seconds == 30


def test_short_ticks_that_a_busy_machine_delays_are_no_sleep():
    """A demo's: three of them are less than a machine with more to do than cores is late by."""
    node = Node(replace(PLAN, tick_seconds=0.5))
    node.sees(BUSY, 10, after=0.5)
    assert node.sees(BUSY, after=4.0).no_progress_seconds == 8.5
    assert node.sees(BUSY, after=5.5).no_progress_seconds == 0


def test_another_boot_forgets_all_but_what_the_runner_usually_does():
    node = Node(replace(PLAN, signal_class=SignalClass.Q, canary=None))
    for done in range(30):
        node.sees(replace(BUSY, completed=float(done)))
    node.boot, node.at = OTHER_BOOT, 5.0
    tick = node.sees(BUSY)
    assert (tick.no_progress_seconds, tick.gaps, tick.gap_p99_seconds) == (0, 29, 30)


def test_a_restart_of_the_agent_neither_forgets_nor_invents():
    node = stalled(10)
    node.sees(replace(BUSY, canary=LATE))
    kept = msgspec.json.decode(msgspec.json.encode(node.memory), type=Memory)
    assert kept == node.memory
    node.memory = kept
    tick = node.sees(BUSY, after=75.0)
    assert (tick.no_progress_seconds, tick.canary_timeouts) == (705, 1)
