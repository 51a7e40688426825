"""Pages for probes, asked over real HTTP from outside the event loop."""

import asyncio
import socket

import pytest

from tests.http_page import page
from wire.pages import Page, pages

HERE = ("127.0.0.1", 0)


async def ok():
    return Page(200, b"ok\n")


async def fails():
    raise ValueError("secret")


async def hangs():
    await asyncio.Event().wait()


ROUTES = {"/ok": ok, "/fails": fails, "/hangs": hangs}


async def test_a_page_is_made_on_the_event_loop_and_an_unknown_path_names_those_that_there_are():
    with pages(HERE, ROUTES) as port:
        assert await page(port, "/ok?x=1") == (200, "ok\n")
        assert await page(port, "/metric") == (404, "there are /ok, /fails, /hangs\n")


async def test_a_page_that_fails_names_the_kind_of_error_and_not_its_text(caplog):
    with pages(HERE, ROUTES) as port:
        assert await page(port, "/fails") == (500, "ValueError: see the log\n")
    assert "a page could not be made" in caplog.text


async def test_a_program_that_hangs_answers_503():
    with pages(HERE, ROUTES, answer_seconds=0.2) as port:
        status, said = await page(port, "/hangs")
    assert (status, said) == (503, "no answer within 0.2 s: this program hangs\n")


async def test_a_port_that_is_taken_is_told_and_nothing_else_ends(caplog):
    with socket.create_server(HERE) as taken, pages(taken.getsockname(), ROUTES) as port:
        assert port == 0
    assert "pages for probes and metrics cannot be served" in caplog.text


@pytest.mark.parametrize(
    "words", [b"\x00\xff\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"POST /ok HTTP/1.1\r\n\r\n"]
)
async def test_nonsense_harms_nobody(words):
    with pages(HERE, ROUTES) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        await asyncio.wait_for(reader.read(), 30)
        writer.close()
        assert await page(port, "/ok") == (200, "ok\n")


async def test_clients_that_say_nothing_keep_nobody_out():
    with pages(HERE, ROUTES) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        assert await page(port, "/ok") == (200, "ok\n")
        for _, writer in silent:
            writer.close()
