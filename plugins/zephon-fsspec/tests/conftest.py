"""Raw access to stores, past the code under test, and a web server that can be told to misbehave."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest


class RangeHandler(SimpleHTTPRequestHandler):
    """Files with ranges, as object stores serve them; ``server.answers`` maps a path to another behaviour."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.respond(405, b"", with_body=True)

    def answer(self, *, with_body: bool) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        behaviour = self.server.answers.get(self.path.partition("?")[0])
        if isinstance(behaviour, int):
            self.respond(behaviour, b"no", with_body=with_body)
            return
        asked = self.headers.get("Range")
        if asked is None or behaviour == "no ranges":
            (super().do_GET if with_body else super().do_HEAD)()
            return
        body = Path(self.translate_path(self.path)).read_bytes()
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, len(body))
        if start >= len(body):
            self.respond(416, b"", with_body=with_body)
            return
        piece = body[start:stop]
        if behaviour == "short":
            piece = piece[:-1]
        self.respond(206, piece, with_body=with_body)

    def respond(self, status: int, body: bytes, *, with_body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "7")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class WebServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, Any] = {}
        self.requests: list[str] = []
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), partial(RangeHandler, directory=str(root)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections clients keep open, so that the threads that serve them end."""
        for connection in list(self.open):
            connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(root: Path) -> Iterator[WebServer]:
    with WebServer(root) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.hang_up()
            thread.join()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    pytest.importorskip("aiohttp", reason="fsspec reads http through aiohttp")
    root = tmp_path / "web"
    root.mkdir()
    with serving(root) as server:
        yield server


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's memory filesystem, empty before and after."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
