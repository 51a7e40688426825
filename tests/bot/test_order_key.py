"""The key for orders and its changes stand in one file, and the key before is nowhere."""

import pytest

from bot.order_key import make_order_key, order_key_file, public_order_key, read_order_keys, rotate_order_key
from wire.configfile import ConfigError
from wire.keychange import decode_key_change, key_name


def test_a_change_leads_from_each_earlier_key_to_the_newest(tmp_path):
    make_order_key(tmp_path)
    first = read_order_keys(tmp_path)
    second, third = rotate_order_key(tmp_path), rotate_order_key(tmp_path)
    assert read_order_keys(tmp_path).public == third.public == public_order_key(tmp_path)
    followed = first.public
    for change in map(decode_key_change, third.since(key_name(first.public))):
        assert change.old_key == followed
        followed = change.new_key
    assert followed == third.public
    assert len(third.since(key_name(second.public))) == 1
    assert third.since(key_name(third.public)) == ()
    assert third.since("0123456789abcdef") is None


def test_the_key_before_is_nowhere_and_the_file_is_for_its_owner_only(tmp_path):
    make_order_key(tmp_path)
    secret = order_key_file(tmp_path).read_text().split()[0]
    keys = rotate_order_key(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["orders.key"]
    assert secret not in order_key_file(tmp_path).read_text()
    assert order_key_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert order_key_file(tmp_path).read_text().split()[0] not in repr(keys)


@pytest.mark.parametrize("damage", ["", "no key\n", "AAAA\n", "first line only, then {}\n"])
def test_a_damaged_file_is_told_and_never_overwritten(tmp_path, damage):
    make_order_key(tmp_path)
    if damage.startswith("first"):
        damage = order_key_file(tmp_path).read_text() + "e30=\n"
    order_key_file(tmp_path).write_text(damage)
    with pytest.raises(ConfigError, match=r"orders\.key holds no key: put back the right one"):
        rotate_order_key(tmp_path)
    assert order_key_file(tmp_path).read_text() == damage
