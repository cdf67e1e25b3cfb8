"""A small HTTP server: three pages, GET and HEAD alone, a bounded number of callers at once, each for a bounded time."""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, ClassVar, Final

from milepost.schemas import InvalidSetting, MilepostError

logger = logging.getLogger(__name__)

_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
_AT_ONCE: Final = 16
_REQUEST_SECONDS: Final = 5.0

Page = Callable[[], tuple[HTTPStatus, str, bytes]]
"""Gives status, content type and body."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`; port 0 takes a free one. Raises `InvalidSetting`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise InvalidSetting(f"http: expected HOST:PORT such as 127.0.0.1:9464, found {text!r}")
    return match["six"] or match["host"], int(match["port"])


class HttpServer(ThreadingTCPServer):
    """Serves pages from the moment it is made, in daemon threads, until `close`."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # not while another listens: only what a closed connection leaves behind
    request_queue_size = 32

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        """Raises `InvalidSetting` for an address that is none, `MilepostError` for one that cannot be had."""
        self.pages = pages
        self._callers: dict[Any, None] = {}
        self._lock = threading.Lock()
        host, port = parse_address(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
            super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]
        except OSError as error:
            raise MilepostError(
                f"http: could not listen on {address} ({error.strerror or error}): another program may have the port; "
                "name a free one of this machine with --http HOST:PORT"
            ) from error
        threading.Thread(target=self.serve_forever, name="milepost-http", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the caller. When there are too many, whoever has been here longest goes: it may be idle on purpose."""
        with self._lock:
            if len(self._callers) >= _AT_ONCE:
                longest = next(iter(self._callers))
                del self._callers[longest]
                with suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)
            self._callers[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one caller."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._callers.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the names are socketserver's
        """A caller that went away, or a page that failed: of no consequence for the consumer."""
        logger.debug("http: a request failed: %s", sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    server_version = "milepost"
    sys_version = ""
    timeout = _REQUEST_SECONDS  # for each read and write of the socket
    _TEXT: ClassVar = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, self._TEXT, f"{' '.join(self.server.pages)}\n".encode())
            return
        self._answer(*page())

    def _refuse(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, self._TEXT, b"GET and HEAD alone\n", allow=True)

    do_HEAD = do_GET  # noqa: N815
    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, *, allow: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if allow:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        logger.debug("http: " + format, *args)
