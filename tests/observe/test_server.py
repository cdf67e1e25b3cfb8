"""The HTTP server by itself: addresses, methods, callers that hang, and what the verdicts say."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http import HTTPStatus

import pytest

from milepost.consumer.observe.board import Board, Seen
from milepost.consumer.observe.server import HttpServer, parse_address
from milepost.consumer.observe.tallies import Tallies, WorkerState
from milepost.consumer.observe.verdict import health, readiness
from milepost.schemas import InvalidSetting, MilepostError
from tests.observe.scraping import Pages


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with closing(HttpServer("127.0.0.1:0", {"/page": lambda: (HTTPStatus.OK, "text/plain", b"here")})) as found:
        yield found


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:80", ("::1", 80)), ("localhost:0", ("localhost", 0))],
)
def test_an_address(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "9464", ":9464", "localhost", "localhost:", "h:65536", "h:-1", "a b:1", "::1:80"])
def test_no_address(text: str) -> None:
    with pytest.raises(InvalidSetting, match="expected HOST:PORT"):
        parse_address(text)


def test_get_and_nothing_else(server: HttpServer) -> None:
    pages = Pages(server.port)
    assert pages.get("/page?x=1") == (200, b"here")
    assert pages.get("/")[0] == pages.get("/page/")[0] == pages.get("/../etc/passwd")[0] == 404
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert pages.get("/page", method)[0] == 405
    assert pages.get("/page", "HEAD") == (200, b"")
    assert pages.get("/other", "HEAD") == (404, b"")


def test_callers_that_hang_are_limited_and_hold_nobody_up(server: HttpServer) -> None:
    with ExitStack() as hanging:
        callers = [
            hanging.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10)) for _ in range(40)
        ]
        for each in callers[24:]:
            each.sendall(b"GET /pa")
        # the first ones had to go, so that others have a place
        assert [each.recv(1) for each in callers[:24]] == [b""] * 24
        for _ in range(20):
            assert Pages(server.port).get("/page") == (200, b"here")
        # so have all those that were slow in asking
        assert [each.recv(1) for each in callers[24:]] == [b""] * 16


def test_a_port_that_is_taken(server: HttpServer) -> None:
    with pytest.raises(MilepostError, match=f"could not listen on 127.0.0.1:{server.port}"):
        HttpServer(f"127.0.0.1:{server.port}", {})


def test_an_address_of_another_machine() -> None:
    with pytest.raises(MilepostError, match=r"could not listen on 192\.0\.2\.1:80"):
        HttpServer("192.0.2.1:80", {})


def seen(number: int = 0, silence: float = 0.0, running: bool = True, **state: object) -> Seen:
    found = WorkerState(Tallies.zero(), **{"joined": True, "started": True, **state})  # type: ignore[arg-type]
    return Seen(number, running, silence, found)


def test_who_hangs_is_unhealthy() -> None:
    assert health([seen(silence=59), seen(1)], 60).healthy
    found = health([seen(), seen(1, silence=61)], 60)
    assert (found.healthy, found.reasons) == (False, ["worker 2 has not passed its loop for 61 s"])
    # a server that is away is no reason to be killed
    assert health([seen(away={"postgres": "gone"})], 60).healthy


@pytest.mark.parametrize(
    ("worker", "troubles", "reason"),
    [
        (seen(), None, "the consumer is checking the log and the view"),
        (seen(), {"kafka": "no answer"}, "no answer"),
        (seen(away={"postgres": "disk full"}), {}, "worker 1: disk full"),
        (seen(joined=False), {}, "worker 1: the group has given it no share yet"),
        (seen(started=False), {}, "worker 1: it does not read its partitions yet"),
        (seen(stopped={3: "at offset 7: KeyError"}), {}, "worker 1: partition 3 is stopped at offset 7: KeyError"),
        (seen(running=False), {}, "worker 1: it does not run"),
        (Seen(0, True, 0.0, None), {}, "worker 1: it is starting"),
        (seen(silence=99), {}, "worker 1 has not passed its loop for 99 s"),
    ],
)
def test_who_is_not_ready_says_why(worker: Seen, troubles: dict[str, str] | None, reason: str) -> None:
    found = readiness([worker], troubles, 60)
    assert (found.ready, found.reasons) == (False, [reason])


def test_ready() -> None:
    assert readiness([seen(), seen(1)], {}, 60).ready


def test_silence_is_counted_from_the_last_word() -> None:
    now = [100.0]
    board = Board(1, lambda: now[0])
    board.lives(0, True)
    now[0] = 130.0
    assert board.workers()[0].silence == 30
    board.told(0, b"")
    now[0] = 131.0
    board._latest.clear()
    assert board.workers()[0].silence == 1
