"""Whose orders a node takes: the key that it joined with, then the ones that this key led to."""

from datetime import UTC, datetime, timedelta

import pytest
from nacl.signing import SigningKey

from agent.trusted_keys import OLD_KEY_LIFE, TrustedKeys
from wire.files import write_private
from wire.keychange import BadKeyChangeError, key_change, key_name
from wire.nodefiles import order_key_file, order_key_text
from wire.orders import Action, Order, OrderVerdict, opened, sign_order

ORDER = Order(
    version=1,
    order_id="0123456789abcdef",
    action=Action.REBOOT_NODE,
    node="gpu-01",
    boot_id="boot-1",
    spool_epoch="0123456789abcdef",
    challenge="c" * 32,
    fence=1,
    incident_id=1,
    verdict=OrderVerdict.NONE,
    issued=datetime(2026, 11, 30, tzinfo=UTC),
    expires=datetime(2026, 11, 30, 0, 3, tzinfo=UTC),
    approvers=["U0ALICE"],
)
FIRST, SECOND, THIRD, THIEFS = (SigningKey(name * 32) for name in (b"1", b"2", b"3", b"x"))
HOUR = OLD_KEY_LIFE.total_seconds()


class StoppedClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.boot, self.seconds = "boot-1", 1000.0

    def boottime_seconds(self) -> float:
        return self.seconds

    def boot_id(self) -> str:
        return self.boot

    def wall(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.seconds)


def public(key: SigningKey) -> bytes:
    return bytes(key.verify_key)


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture
def keys(tmp_path, clock):
    write_private(order_key_file(tmp_path), order_key_text(public(FIRST)))
    return TrustedKeys(tmp_path, clock)


def test_the_key_before_counts_for_an_hour_and_not_a_second_longer(keys, clock):
    assert keys.take(key_change(FIRST, public(SECOND)))
    assert keys.valid() == (public(SECOND), public(FIRST))
    assert keys.name == key_name(public(SECOND))
    clock.seconds += HOUR - 1
    assert keys.valid() == (public(SECOND), public(FIRST))
    clock.seconds += 1
    assert keys.valid() == (public(SECOND),)


def test_an_order_of_the_key_before_is_opened_within_the_hour_and_not_after_it(keys, clock):
    signed = {name: sign_order(key, ORDER) for name, key in {"old": FIRST, "new": SECOND, "thief": THIEFS}.items()}
    keys.take(key_change(FIRST, public(SECOND)))
    assert {name for name, order in signed.items() if opened(keys.valid(), order)} == {"old", "new"}
    clock.seconds += HOUR
    assert {name for name, order in signed.items() if opened(keys.valid(), order)} == {"new"}


def test_another_boot_ends_the_key_before_at_once(keys, clock):
    keys.take(key_change(FIRST, public(SECOND)))
    clock.boot, clock.seconds = "boot-2", 10.0
    assert keys.valid() == (public(SECOND),)


def test_it_is_all_there_after_the_agents_restart(keys, clock, tmp_path):
    keys.take(key_change(FIRST, public(SECOND)))
    again = TrustedKeys(tmp_path, clock)
    assert (again.valid(), again.name) == ((public(SECOND), public(FIRST)), key_name(public(SECOND)))


def test_a_change_that_is_heard_twice_gives_the_key_before_no_second_hour(keys, clock):
    assert keys.take(key_change(FIRST, public(SECOND)))
    clock.seconds += HOUR / 2
    assert not keys.take(key_change(FIRST, public(SECOND)))
    clock.seconds += HOUR / 2
    assert keys.valid() == (public(SECOND),)


@pytest.mark.parametrize(
    "body",
    [key_change(THIEFS, public(SECOND)), key_change(SECOND, public(THIRD)), b"{}", b""],
    ids=["by a key that never counted", "by a key that does not count yet", "no change", "nothing"],
)
def test_a_forged_change_is_refused_and_changes_nothing(keys, body):
    with pytest.raises(BadKeyChangeError):
        keys.take(body)
    assert keys.valid() == (public(FIRST),)


def test_a_stolen_key_that_was_replaced_wins_nothing_back_in_its_last_hour(keys):
    keys.take(key_change(FIRST, public(SECOND)))
    with pytest.raises(BadKeyChangeError, match="not signed with the key that counts here"):
        keys.take(key_change(FIRST, public(THIEFS)))
    assert keys.valid() == (public(SECOND), public(FIRST))


def test_a_node_that_was_off_for_two_changes_follows_both(keys):
    for change in (key_change(FIRST, public(SECOND)), key_change(SECOND, public(THIRD))):
        assert keys.take(change)
    assert keys.valid() == (public(THIRD), public(SECOND))


def test_join_puts_all_keys_before_it_out_of_force(keys, tmp_path):
    keys.take(key_change(FIRST, public(SECOND)))
    write_private(order_key_file(tmp_path), order_key_text(public(THIRD)))
    assert keys.valid() == (public(THIRD),)
    keys.look()
    assert keys.name == key_name(public(THIRD))


@pytest.mark.parametrize("content", [None, "", "no key", "AAAA"])
def test_without_a_key_no_order_counts_and_no_change_either(tmp_path, clock, content):
    if content is not None:
        write_private(order_key_file(tmp_path), content)
    keys = TrustedKeys(tmp_path, clock)
    assert (keys.valid(), keys.name) == ((), "")
    with pytest.raises(BadKeyChangeError):
        keys.take(key_change(FIRST, public(SECOND)))


def test_a_change_that_was_cut_off_between_its_two_files_is_taken_the_next_time(keys, tmp_path, clock):
    keys.take(key_change(FIRST, public(SECOND)))
    write_private(order_key_file(tmp_path), order_key_text(public(FIRST)))  # the second write never came
    assert keys.valid() == (public(FIRST),)
    assert keys.take(key_change(FIRST, public(SECOND)))
    assert keys.valid() == (public(SECOND), public(FIRST))
