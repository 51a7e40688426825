"""A runner read over HTTP, while it answers well, badly or not at all."""

import asyncio
import errno
import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from agent.runner_config import RunnerConfig, Source
from agent.runner_reading import GpuLook, RunnerReading
from agent.runners import http
from agent.runners.read import RunnerReader
from tests.agent.answering import Reply, answering
from tests.agent.answering_runner import (
    DEADLINE,
    ENDLESS,
    FIVE_MINUTES,
    METRICS,
    OVERDUE,
    PAGES,
    answering_vllm,
    ps,
    reading,
)
from wire.configfile import Size
from wire.ticks import ApiState, RunnerState, WitnessKind

SLOTS = json.loads((PAGES / "llama_cpp_slots.json").read_text())
SECRET = "Bearer hush-hush"


@pytest.fixture
async def server():
    async with answering_vllm() as server:
        yield server


def is_nothing(seen: RunnerReading) -> bool:
    values = (seen.completed, seen.demand, seen.own_demand, seen.exporter)
    return all(value is None for value in values) and not seen.counters and not seen.gauges


async def test_a_runner_that_answers_is_read_in_full(server):
    seen = await reading(server)
    assert seen.api.state is ApiState.OK
    assert (seen.completed, seen.own_demand, seen.state) == (42, 7, RunnerState.READY)
    assert (seen.missing, seen.config_error) == ((), None)


BAD_PAGES = {
    "truncated": (Reply(METRICS[:500], cut=True), "broke"),
    "cut in a line": (Reply(METRICS[:-10]), "cut off"),
    "huge": (Reply("# filler\n" * 20_000), "larger than 65536 bytes"),
    "slow": (Reply(METRICS[:200], drip=True), "no answer within"),
    "hanging": (Reply(hang=True), "no answer within"),
    "HTML": (Reply("<!doctype html><html>welcome</html>"), "not a page of metrics"),
    "renamed": (Reply(METRICS.replace("vllm:", "vllm2:")), "no completed, generation_tokens"),
    "NaN": (Reply(METRICS.replace(" 42.0", " NaN").replace(" 30.0", " NaN")), "no completed"),
    "a redirect": (Reply(status=302, headers={"Location": "/elsewhere"}), "redirect, which is not followed"),
    "a wrong key": (Reply({"error": "no"}, 401), "key in headers_file is missing or wrong"),
    "an error": (Reply("oops", 500), "status 500"),
    "compressed": (Reply(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "compressed"),
    "empty": (Reply(""), "no completed"),
}


@pytest.mark.parametrize("name", BAD_PAGES)
async def test_a_bad_page_is_missing_with_its_reason_and_never_0(server, name):
    server.routes["/metrics"], why = BAD_PAGES[name]
    seen = await reading(server, body_max_size=Size(65536))
    assert seen.api.state is ApiState.OK, "the page is not the API"
    assert seen.completed is None
    assert name in ("NaN", "renamed") or is_nothing(seen)
    assert name == "NaN" or seen.own_demand is None
    assert why in " ".join(seen.missing)
    assert (seen.config_error is not None) is (name == "a wrong key")
    assert "/elsewhere" not in server.paths()


BAD_APIS = {
    "hangs": (Reply(hang=True), ApiState.TIMEOUT),
    "is broken": (Reply("x", 503), ApiState.STATUS),
    "stops in the middle": (Reply("x", cut=True), ApiState.BROKEN),
}


@pytest.mark.parametrize("name", BAD_APIS)
async def test_an_api_that_does_not_answer_well_is_not_ok(server, name):
    server.routes["/health"], state = BAD_APIS[name]
    seen = await reading(server)
    assert seen.api.state is state
    assert seen.completed == 42, "its page may still answer"


OUR_MISTAKES = {
    "redirects": (Reply(status=301, headers={"Location": "/health2"}), "a redirect, which is not followed"),
    "wants a key": (Reply({"error": "no"}, 401), "the key in headers_file is missing or wrong"),
    "forbids": (Reply("", 403), "the key in headers_file is missing or wrong"),
}


@pytest.mark.parametrize("name", OUR_MISTAKES)
async def test_an_api_that_our_own_mistake_hides_is_not_seen_and_not_dead(server, name):
    server.routes["/health"], why = OUR_MISTAKES[name]
    seen = await reading(server)
    assert seen.api is None
    assert why in seen.config_error


async def test_a_llama_cpp_that_sleeps_is_not_woken_by_reading_its_slots(server):
    server.routes |= {"/props": Reply({"is_sleeping": True}), "/slots": Reply(SLOTS)}
    asleep = await reading(server, "llama.cpp")
    assert asleep.state is RunnerState.UNLOADED
    assert "/slots" not in server.paths()
    for answer in (Reply({"is_sleeping": False}), Reply({"total_slots": 1}), Reply("<html>"), Reply("", 404)):
        server.routes["/props"] = answer
        assert (await reading(server, "llama.cpp")).state is RunnerState.READY
    assert server.paths().count("/slots") == 4


async def test_nobody_at_the_port_is_refused(server):
    reader = RunnerReader(RunnerConfig(name="chat", preset="vllm", url="http://127.0.0.1:9"))
    seen = await reader.read(GpuLook())
    assert seen.api.state is ApiState.REFUSED
    assert is_nothing(seen)


@pytest.fixture
def resolver(monkeypatch):
    """What this host's own resolver does with names; numbers need none."""

    def answers(how):
        real = socket.getaddrinfo

        def getaddrinfo(host, *more, **options):
            return how() if host == "chat.internal" else real(host, *more, **options)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return answers


def raises(number):
    def how():
        raise socket.gaierror(number, "Temporary failure in name resolution")

    return how


def hangs():
    threading.Event().wait(2 * DEADLINE)
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize("how", [raises(socket.EAI_AGAIN), hangs])
async def test_a_runner_whose_name_cannot_be_looked_up_now_is_not_seen_and_not_dead(resolver, how):
    """The resolver is away, the runner is not: all runners of a cluster would be called down at once."""
    resolver(how)
    reader = RunnerReader(RunnerConfig(name="chat", preset="vllm", url="http://chat.internal:9"), None, DEADLINE)
    seen = await reader.read(GpuLook())
    assert seen.api is None
    assert "its name could not be looked up" in seen.config_error


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOMEM])
async def test_a_node_that_has_nothing_left_to_ask_with_calls_no_runner_dead(server, monkeypatch, number):
    async def open_connection(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    seen = await reading(server)
    assert seen.api is None
    assert f"this node cannot ask: {os.strerror(number)}" in seen.config_error


async def test_a_runner_whose_name_is_gone_is_refused(resolver):
    """As that of a container that was stopped."""
    resolver(raises(socket.EAI_NONAME))
    reader = RunnerReader(RunnerConfig(name="chat", preset="vllm", url="http://chat.internal:9"), None, DEADLINE)
    assert (await reader.read(GpuLook())).api.state is ApiState.REFUSED


async def test_keys_go_to_the_runner_and_into_no_message(server, tmp_path, caplog):
    (tmp_path / "h").write_text(f"# keys\nAuthorization: {SECRET}\n")
    server.routes["/metrics"] = Reply({}, 403)
    seen = await reading(server, headers_file=tmp_path / "h")
    assert {asked.headers["authorization"] for asked in server.asked} == {SECRET}
    assert "hush" not in f"{seen} {caplog.text}"


@pytest.mark.parametrize("text", ["Authorization Bearer hush", "Host: elsewhere-hush", "Content-Length: 3"])
async def test_a_headers_file_that_is_wrong_is_our_mistake_and_shows_no_key(server, tmp_path, text):
    (tmp_path / "h").write_text(text)
    seen = await reading(server, headers_file=tmp_path / "h")
    assert "line 1 of the headers_file" in seen.config_error
    assert seen.api is None
    assert "hush" not in str(seen)
    assert server.asked == []


def make_certificate(pem: Path, ca: Path) -> None:
    what = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", str(ca)]
    subprocess.run([*what, *where], check=True, capture_output=True)
    pem.write_text(pem.read_text() + ca.read_text())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to make a certificate with")
async def test_a_certificate_that_nobody_vouches_for_is_our_mistake(tmp_path):
    pem = tmp_path / "server.pem"
    make_certificate(pem, tmp_path / "ca.pem")
    async with answering(tls=pem) as server:
        server.routes |= {"/health": Reply({}), "/metrics": Reply(METRICS)}
        seen = await reading(server)
        assert "certificate is not trusted" in seen.config_error
        assert is_nothing(seen)
        trusting = await reading(server, ca_file=tmp_path / "ca.pem")
        assert trusting.completed == 42


async def test_llama_cpp_that_loads_says_so(server):
    server.routes["/health"] = Reply({"error": {"message": "Loading model", "code": 503}}, 503)
    assert (await reading(server, "llama.cpp")).state is RunnerState.LOADING


async def test_hanging_slots_are_a_witness_only_where_they_answered_during_work_before(server):
    server.routes |= {"/slots": Reply(hang=True), "/metrics": Reply(hang=True)}
    config = RunnerConfig(name="chat", preset="llama.cpp", url=server.url)
    reader = RunnerReader(config, answer_seconds=DEADLINE)
    assert (await reader.read(GpuLook())).witnesses == ()
    server.routes["/slots"] = Reply([{**SLOTS[0], "is_processing": True}])
    assert (await reader.read(GpuLook())).own_demand == 1
    server.routes["/slots"] = Reply(hang=True)
    kinds = [witness.kind for witness in (await reader.read(GpuLook())).witnesses]
    assert kinds == [WitnessKind.LOOP_HANGS]
    later = RunnerReader(config, reader.state, DEADLINE)
    assert (await later.read(GpuLook())).witnesses != (), "a restart of the agent does not forget it"
    server.routes["/health"] = Reply(hang=True)
    assert (await later.read(GpuLook())).witnesses == (), "the whole API hangs: that is another finding"


async def test_sources_of_ones_own_take_the_place_of_the_presets(server, tmp_path):
    (tmp_path / "done").write_text("7\n")
    (tmp_path / "step").write_text("3.5")
    (tmp_path / "jobs").write_text("2")
    sources = {"completed": Source(file=tmp_path / "done"), "demand": Source(file=tmp_path / "jobs")}
    seen = await reading(server, **sources, progress=[Source(file=tmp_path / "step")])
    assert (seen.completed, seen.demand, seen.own_demand) == (7, 2, 7)
    assert seen.gauges == {"kv_cache": 0.25, "progress_0": 3.5}


async def test_litellm_says_how_much_waits(server):
    server.routes["/health/backlog"] = Reply({"in_flight_requests": 12})
    assert (await reading(server, demand=Source(litellm=server.url))).demand == 12
    assert "/health" in server.paths()


async def test_triton_has_its_metrics_at_another_port():
    async with answering() as api, answering() as metrics:
        api.routes["/v2/health/live"] = Reply("")
        metrics.routes["/m?model=a"] = Reply((PAGES / "triton.txt").read_text())
        seen = await reading(api, "triton", metrics_url=f"{metrics.url}/m?model=a")
        assert (seen.completed, seen.demand) == (90005, 3)
        assert metrics.paths() == ["/m?model=a"]


async def test_ollama_without_a_model_is_unloaded_and_asked_for_nothing(server):
    ps(server)
    seen = await reading(server, "ollama")
    assert (seen.state, seen.own_demand) == (RunnerState.UNLOADED, 0)


async def test_ollama_may_be_asked_while_idle_only_where_models_stay_for_ever(server):
    ps(server, ENDLESS)
    assert (await reading(server, "ollama")).may_ask_when_idle
    ps(server, ENDLESS, FIVE_MINUTES)
    assert not (await reading(server, "ollama")).may_ask_when_idle


async def test_a_model_past_its_time_is_somebody_who_waits(server):
    ps(server, OVERDUE)
    assert (await reading(server, "ollama")).own_demand == 1
    ps(server, FIVE_MINUTES)
    assert (await reading(server, "ollama")).own_demand == 0


async def test_a_time_that_moves_on_is_a_request_that_ended(server):
    ps(server, FIVE_MINUTES)
    before = (await reading(server, "ollama")).gauges["expires"]
    ps(server, {**FIVE_MINUTES, "expires_at": "2026-11-30T12:05:20Z"})
    assert (await reading(server, "ollama")).gauges["expires"] == pytest.approx(before + 20.5, abs=0.1)


@pytest.mark.parametrize("body", [{"models": [{"model": "x"}]}, {"other": 1}, [], "<html>"])
async def test_an_ollama_that_lists_otherwise_is_not_read(server, body):
    server.routes |= {"/api/version": Reply({}), "/api/ps": Reply(body)}
    seen = await reading(server, "ollama")
    assert is_nothing(seen)
    assert "/api/ps" in " ".join(seen.missing)


async def test_one_hanging_page_does_not_delay_the_other_parts(server):
    server.routes["/metrics"] = Reply(hang=True)
    async with asyncio.timeout(20):  # it never answers
        seen = await reading(server)
    assert seen.api.state is ApiState.OK


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def ask():
        async with answering() as server:
            server.routes["/x"] = Reply("here")
            return await http.Server(server.url, None, None, 1000).get("/x", 2)

    assert asyncio.run(ask()).body == b"here"
