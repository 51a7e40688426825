"""Which nodes hear of a new key for orders, and how often."""

import pytest

from bot.fleet import Fleet
from bot.judge.candidate import CandidateRule
from bot.key_news import KeyNews
from bot.order_key import OrderKeys, make_order_key, order_key_file, read_order_keys, rotate_order_key
from tests.build import heartbeat
from wire import subjects
from wire.keychange import key_name


class Heard:
    """The bus, as far as this needs it: what was said to whom."""

    def __init__(self) -> None:
        self.said: list[tuple[str, bytes]] = []

    async def publish_core(self, subject: str, body: bytes) -> bool:
        self.said.append((subject, body))
        return True


@pytest.fixture
def fleet():
    return Fleet(CandidateRule())


@pytest.fixture
def news(tmp_path, fleet):
    make_order_key(tmp_path)
    return KeyNews(tmp_path, Heard(), fleet)


async def told(news, fleet, **names: str) -> list[tuple[str, bytes]]:
    """What is said after these nodes announced the keys of these names."""
    for node, name in names.items():
        fleet.heard(heartbeat(None, node=node.replace("_", "-"), order_key=name))
    news._link.said.clear()
    await news._tell_all(news._read())
    return list(news._link.said)


async def test_each_node_hears_what_it_missed_and_who_knows_the_newest_hears_nothing(news, fleet, tmp_path):
    names = [key_name(read_order_keys(tmp_path).public)]
    names += [key_name(rotate_order_key(tmp_path).public) for _ in range(2)]
    first, second = read_order_keys(tmp_path).changes
    said = await told(news, fleet, gpu_01=names[0], gpu_02=names[1], gpu_03=names[2], gpu_04="")
    assert said == [
        (subjects.key_change("gpu-01"), first),
        (subjects.key_change("gpu-01"), second),
        (subjects.key_change("gpu-02"), second),
    ]
    assert await told(news, fleet) == []  # it is on its way


async def test_a_node_with_a_key_that_was_never_ours_is_named_once_and_told_nothing(news, fleet, caplog):
    assert await told(news, fleet, gpu_01="0123456789abcdef") == []
    assert await told(news, fleet, gpu_01="0123456789abcdef") == []
    assert caplog.text.count("node believes another key for orders than ours") == 1


async def test_a_file_that_cannot_be_used_is_told_once_and_read_again_when_it_is_mended(news, tmp_path, caplog):
    whole = order_key_file(tmp_path).read_text()
    order_key_file(tmp_path).write_text("no key")
    assert news._read() is None
    assert news._read() is None
    assert caplog.text.count("the orders' key cannot be used") == 1
    order_key_file(tmp_path).write_text(whole)
    assert news._read() is not None
    order_key_file(tmp_path).unlink()
    assert news._read() is None


async def test_a_fleet_that_has_the_newest_key_costs_no_search(news, fleet, tmp_path, monkeypatch):
    newest, asked = key_name(read_order_keys(tmp_path).public), []
    monkeypatch.setattr(OrderKeys, "since", lambda keys, name: asked.append(name))
    await told(news, fleet, gpu_01=newest, gpu_02=newest, gpu_03="", gpu_04="0123456789abcdef")
    assert asked == ["0123456789abcdef"]


def test_the_names_of_a_fleet_are_sorted_again_only_when_a_node_came(fleet):
    for node in ("gpu-02", "gpu-01"):
        fleet.heard(heartbeat(None, node=node))
    assert fleet.nodes() == ("gpu-01", "gpu-02")
    fleet.heard(heartbeat(None, node="gpu-01"))
    assert fleet.nodes() is fleet.nodes()
    fleet.heard(heartbeat(None, node="gpu-00"))
    assert fleet.nodes() == ("gpu-00", "gpu-01", "gpu-02")
