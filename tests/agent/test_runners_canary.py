"""A canary asks as little as it can, names only what is loaded, and its outcome is what became of it."""

import pytest

from agent.runner_config import Canary
from agent.runner_reading import GpuLook
from tests.agent.answering import Answering, Asked, Reply
from tests.agent.answering_runner import ENDLESS, answering_vllm, ps, reader_of
from wire.configfile import Duration


@pytest.fixture
async def server():
    async with answering_vllm() as server:
        yield server


async def canary(server: Answering, preset: str, **config):
    reader = reader_of(server, preset, **config)
    await reader.read(GpuLook())
    return await reader.canary()


async def test_ollama_is_asked_with_the_loaded_model_and_its_own_context_and_nothing_else(server):
    ps(server, ENDLESS)
    server.routes["/api/generate"] = Reply({"response": "a", "done": True, "eval_count": 1})
    result = await canary(server, "ollama")
    assert result.outcome == "ok"
    [asked] = [asked for asked in server.asked if asked.method == "POST"]
    nonce = asked.body.pop("prompt")
    assert nonce.startswith("ping ")
    assert asked.body == {
        "model": "llama3:latest",
        "stream": False,
        "options": {"num_predict": 1, "num_ctx": 8192},
    }


NEVER_ASKED = {
    "nothing is loaded": ([], Canary()),
    "another is loaded": ([ENDLESS], Canary(model="qwen3")),
    "its context is not told": ([{k: v for k, v in ENDLESS.items() if k != "context_length"}], Canary()),
}


@pytest.mark.parametrize("name", NEVER_ASKED)
async def test_ollama_is_never_asked_for_what_would_be_loaded(server, name):
    models, settings = NEVER_ASKED[name]
    ps(server, *models)
    assert not hasattr(await canary(server, "ollama", canary=settings), "outcome")
    assert server.paths("POST") == []


@pytest.mark.parametrize(
    ("models", "settings"),
    [(["a", "b"], Canary()), (["a", "b"], Canary(model="c")), ([], Canary())],
    ids=["which of two", "not listed", "none"],
)
async def test_a_server_that_may_load_what_is_asked_for_is_asked_only_for_a_model_that_is_certain(
    server, models, settings
):
    server.routes["/v1/models"] = Reply({"data": [{"id": name} for name in models]})
    assert not hasattr(await canary(server, "openai", canary=settings), "outcome")
    assert server.paths("POST") == []


async def test_every_canary_has_a_nonce_of_its_own(server):
    prompts = []

    def answer(asked: Asked) -> Reply:
        prompts.append(asked.body.pop("prompt"))
        assert asked.body == {"model": "m", "max_tokens": 1, "temperature": 0}
        return Reply({"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})

    server.routes |= {"/v1/models": Reply({"data": [{"id": "m"}]}), "/v1/completions": answer}
    for _ in range(3):
        assert (await canary(server, "vllm")).outcome == "ok"
    assert len(set(prompts)) == 3


OUTCOMES = {
    "a token": (Reply({"usage": {"completion_tokens": 1}}), "ok"),
    "a token without usage": (Reply({"choices": [{"text": "x"}]}), "ok"),
    "status 200 and no token": (Reply({"usage": {"completion_tokens": 0}}), "error"),
    "status 200 and nothing": (Reply(""), "error"),
    "HTML": (Reply("<html>"), "error"),
    "cut off": (Reply('{"usage": {"completion_tokens": 1}}', cut=True), "error"),
    "500": (Reply("CUDA error", 500), "error"),
    "502": (Reply("", 502), "error"),
    "504": (Reply("", 504), "error"),
    "429": (Reply("", 429), "busy"),
    "503": (Reply("", 503), "busy"),
    **{str(status): (Reply("", status), "config") for status in (400, 401, 403, 404, 422, 302)},
    "no answer": (Reply(hang=True), "timeout"),
    "a body that drips": (Reply("{", drip=True), "timeout"),
}


@pytest.mark.parametrize("name", OUTCOMES)
async def test_what_became_of_a_canary(server, name):
    reply, outcome = OUTCOMES[name]
    server.routes |= {"/v1/models": Reply({"data": [{"id": "m"}]}), "/v1/completions": reply}
    patience = Duration(seconds=0.3 if outcome == "timeout" else 20)
    result = await canary(server, "vllm", canary=Canary(first_token_timeout=patience))
    assert result.outcome == outcome
    assert (result.milliseconds is not None) is (outcome == "ok")
    assert bool(result.detail) is (outcome != "ok")
