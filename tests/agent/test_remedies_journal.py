"""The journal of orders: on disk before anything is done, and what is left open is ended and never begun again."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.remedies.facts import Act
from agent.remedies.journal import FILE_NAME, MOST_ENTRIES, Journal, JournalError
from agent.remedies.refused import Refused
from tests.build import BOOT, OTHER_BOOT
from tests.build_orders import ISSUED, order
from wire.orders import Action, Order
from wire.remedies import MOST_TOLD, OrderState, Refusal

NOT_YET = Refused(Refusal.TOO_SOON, "the last one was 60 s ago")
REBOOT = order(Action.REBOOT_NODE)


class NodeClock(Clock):
    """A node's clocks, which a test moves."""

    def __init__(self) -> None:
        self.boot, self.at, self.label = BOOT, 5000.0, ISSUED

    def boottime_seconds(self) -> float:
        return self.at

    def wall(self) -> datetime:
        return self.label

    def boot_id(self) -> str:
        return self.boot

    def pass_time(self, seconds: float) -> None:
        self.at, self.label = self.at + seconds, self.label + timedelta(seconds=seconds)

    def boot_anew(self, seconds_ago: float = 60.0) -> None:
        self.boot, self.at = OTHER_BOOT, seconds_ago


def opened(folder: Path, clock: Clock) -> Journal:
    journal = Journal(folder, clock)
    journal.open()
    return journal


def number(number: int, **changes: object) -> Order:
    return order(order_id=f"order-{number}", **changes)


def states(journal: Journal) -> list[tuple[OrderState, Refusal | None]]:
    return [(entry.state, entry.refusal) for entry in journal.told()]


def test_a_new_journal_has_a_challenge_that_stays_over_restarts_and_is_nobody_elses(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    assert len(journal.challenge) == 32
    assert opened(tmp_path, NodeClock()).challenge == journal.challenge
    (tmp_path / FILE_NAME).unlink()
    assert opened(tmp_path, NodeClock()).challenge != journal.challenge, "a lost journal lets no old order in"
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_each_order_spends_the_challenge_also_when_it_is_refused(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    challenges = {journal.challenge}
    for one, refused in enumerate((None, NOT_YET, None)):
        journal.spend(number(one), refused)
        challenges.add(journal.challenge)
    assert len(challenges) == 4
    assert opened(tmp_path, NodeClock()).challenge == journal.challenge
    assert journal.seen == {"order-0", "order-1", "order-2"}
    assert states(journal)[1] == (OrderState.REFUSED, Refusal.TOO_SOON)
    assert journal.told()[1].detail == NOT_YET.why


def test_the_highest_fence_is_kept_whatever_became_of_its_order(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    journal.spend(number(1, fence=9), NOT_YET)
    journal.spend(number(2, fence=3), NOT_YET)
    assert journal.highest_fence == 9
    journal.saw_fence(11)
    journal.saw_fence(2)
    assert opened(tmp_path, NodeClock()).highest_fence == 11


def test_an_order_goes_from_accepted_over_acting_to_its_end(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    assert journal.under_way() == ""
    journal.spend(order(), None)
    assert (journal.under_way(), states(journal)) == (order().order_id, [(OrderState.ACCEPTED, None)])
    assert journal.acts() == ()
    journal.acting(order(), "words")
    assert (journal.under_way(), states(journal)) == (order().order_id, [(OrderState.ACTING, None)])
    journal.end(order(), OrderState.DONE, "systemctl ended well\n\x1b[31m")
    (told,) = journal.told()
    assert (told.state, told.runner, told.detail) == (OrderState.DONE, "chat", "systemctl ended well  [31m")
    assert journal.under_way() == ""
    assert opened(tmp_path, NodeClock()).told() == [told]


def test_what_was_refused_at_the_last_moment_was_not_done_and_counts_for_no_limit(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    journal.spend(order(), None)
    journal.acting(order(), "words")
    journal.end(order(), OrderState.REFUSED, "too late", Refusal.EXPIRED)
    assert journal.acts() == ()


@pytest.mark.parametrize(
    ("one", "is_begun", "is_other_boot", "expected"),
    [
        (order(), False, False, (OrderState.REFUSED, Refusal.AGENT_STOPPED)),
        (REBOOT, False, True, (OrderState.REFUSED, Refusal.AGENT_STOPPED)),
        (order(), True, False, (OrderState.LOST, None)),
        (order(), True, True, (OrderState.LOST, None)),
        (REBOOT, True, False, (OrderState.LOST, None)),
        (REBOOT, True, True, (OrderState.DONE, None)),
    ],
)
def test_what_an_earlier_run_left_open_is_ended_with_the_truth(
    tmp_path: Path, one: Order, is_begun: bool, is_other_boot: bool, expected: tuple[OrderState, Refusal | None]
) -> None:
    clock = NodeClock()
    journal = opened(tmp_path, clock)
    journal.spend(one, None)
    if is_begun:
        journal.acting(one, "words")
    if is_other_boot:
        clock.boot_anew()
    after = opened(tmp_path, clock)
    assert states(after) == [expected]
    assert after.under_way() == ""
    assert one.order_id in after.seen, "it is never taken again"
    assert len(after.acts()) == is_begun


def test_ages_are_by_the_time_since_boot_whatever_is_done_to_the_wall_clock(tmp_path: Path) -> None:
    clock = NodeClock()
    journal = opened(tmp_path, clock)
    journal.spend(order(), None)
    journal.acting(order(), "words")
    clock.pass_time(90)
    clock.label += timedelta(days=400)
    assert journal.acts() == (Act(Action.RESTART_RUNNER, "chat", 90.0, True),)


@pytest.mark.parametrize(
    ("label_then", "label_now", "age"),
    [
        (ISSUED, ISSUED + timedelta(seconds=600), 600.0),
        (ISSUED, ISSUED - timedelta(days=9), 60.0),
        (datetime(1970, 1, 1, tzinfo=UTC), ISSUED, 60.0),
    ],
)
def test_between_two_boots_the_wall_clock_counts_only_where_it_can_be_believed(
    tmp_path: Path, label_then: datetime, label_now: datetime, age: float
) -> None:
    clock = NodeClock()
    clock.label = label_then
    journal = opened(tmp_path, clock)
    journal.spend(REBOOT, None)
    journal.acting(REBOOT, "words")
    clock.boot_anew()
    clock.label = label_now
    assert opened(tmp_path, clock).acts() == (Act(Action.REBOOT_NODE, "chat", age, False),)


@pytest.mark.parametrize("text", ["", "{", '{"version":2,"challenge":"x"}', '{"version":1,"challenge":""}', "[]"])
def test_a_journal_that_cannot_be_read_is_moved_aside_and_counts_as_one_of_everything(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = NodeClock()
    (tmp_path / FILE_NAME).write_text(text)
    journal = opened(tmp_path, clock)
    assert (tmp_path / f"{FILE_NAME}.damaged-1").read_text() == text
    assert journal.acts() == (Act(Action.UNKNOWN, "", 0.0, True),)
    assert "moved aside" in caplog.text
    assert opened(tmp_path, clock).challenge == journal.challenge


def test_a_disk_that_refuses_lets_nothing_begin_and_changes_nothing(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    journal = opened(state, NodeClock())
    before = journal.challenge
    os.rename(state, gone := tmp_path / "gone")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.spend(order(), None)
    assert (journal.challenge, journal.told()) == (before, [])
    os.rename(gone, state)
    journal.spend(order(), None)
    os.rename(state, gone)
    with pytest.raises(JournalError):
        journal.acting(order(), "words")
    assert states(journal) == [(OrderState.ACCEPTED, None)]


def test_the_outcome_is_told_also_where_the_disk_refuses_it(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    journal = opened(state, NodeClock())
    journal.spend(order(), None)
    journal.acting(order(), "words")
    os.rename(state, gone := tmp_path / "gone")
    journal.end(order(), OrderState.DONE, "systemctl ended well")
    assert states(journal) == [(OrderState.DONE, None)]
    os.rename(gone, state)
    assert states(opened(state, NodeClock())) == [(OrderState.LOST, None)]


def test_it_stays_small_and_forgets_what_was_begun_last(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    journal.spend(number(0), None)
    journal.acting(number(0), "words")
    for one in range(1, 3 * MOST_ENTRIES):
        journal.spend(number(one), NOT_YET)
    assert len(journal.seen) == MOST_ENTRIES
    assert {"order-0", f"order-{3 * MOST_ENTRIES - 1}"} <= journal.seen
    assert len(journal.acts()) == 1
    assert len(journal.told()) == MOST_TOLD
    assert journal.told()[-1].order_id == f"order-{3 * MOST_ENTRIES - 1}"


def test_a_journal_full_of_what_was_begun_still_takes_the_next_one(tmp_path: Path) -> None:
    journal = opened(tmp_path, NodeClock())
    for one in range(MOST_ENTRIES + 3):
        journal.spend(number(one), None)
        journal.acting(number(one), "words")
        assert journal.told()[-1].state is OrderState.ACTING
