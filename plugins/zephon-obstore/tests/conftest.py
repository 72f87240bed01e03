"""An S3 server on the loopback interface, and a proxy in front of it that misbehaves as it is told and counts bytes."""

import http.client
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
ANSWERS = {
    "expired": (400, EXPIRED),
    "refused": (403, b""),
    "missing": (404, NO_SUCH_KEY),
    "busy": (429, b""),
    "down": (503, b""),
}


#: The server refuses what nobody signed, and does not check signatures.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=kit/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}


class Bucket:
    """Objects of an S3 server, past the code under test."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.request("PUT", "/kit")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, quote(path), body, SIGNED)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status == 404:
            raise FileNotFoundError(path)
        assert response.status < 300, (response.status, content)
        return content

    def put(self, url: str, data: bytes) -> None:
        self.request("PUT", url.removeprefix("s3:/"), data)

    def get(self, url: str) -> bytes:
        return self.request("GET", url.removeprefix("s3:/"))

    def delete(self, url: str) -> None:
        self.get(url)
        self.request("DELETE", url.removeprefix("s3:/"))


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    program = os.environ.get("ZEPHON_MOTO_SERVER")
    if program is None:
        pytest.skip("no S3 server: make test-s3 has one")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        give_up = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, "moto_server ended by itself"
                assert time.monotonic() < give_up, "moto_server does not answer"
                time.sleep(0.1)
        yield Bucket(port)
    finally:
        server.terminate()
        server.wait(20)


class ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        server: Any = self.server
        fault = server.next_fault(self.command, self.path)
        if fault in ANSWERS:
            status, body = ANSWERS[fault]
            self.reply(status, {"Retry-After": "1"} if status == 429 else {}, body)
            return
        if fault == "stall":
            server.released.wait(20)
            self.close_connection = True
            return
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection("127.0.0.1", server.upstream, timeout=20)
        try:
            upstream.request(self.command, self.path, sent or None, dict(self.headers))
            response = upstream.getresponse()
            body = response.read()
        finally:
            upstream.close()
        kept = {k: v for k, v in response.getheaders() if k.lower() not in {"connection", "transfer-encoding", "date"}}
        self.reply(response.status, kept, body, short=fault == "short")

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def reply(self, status: int, headers: dict[str, str], body: bytes, *, short: bool = False) -> None:
        self.send_response(status)
        if self.command != "HEAD":
            headers = {k: v for k, v in headers.items() if k.lower() != "content-length"}
            headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            part = body[: len(body) // 2] if short else body
            self.server.count(len(part))  # before the client can know
            self.wfile.write(part)
        if short:
            self.close_connection = True


class Proxy(ThreadingHTTPServer):
    """``fault(number, method, path)`` names what befalls the request of that number, or None."""

    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.upstream = upstream
        self.fault: Callable[[int, str, str], str | None] = lambda number, method, path: None
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.body_bytes = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_fault(self, method: str, path: str) -> str | None:
        with self.lock:
            self.requests.append(f"{method} {path}")
            fault = self.fault(len(self.requests), method, path)
            if fault:
                self.faults.append(fault)
            return fault

    def count(self, size: int) -> None:
        with self.lock:
            self.body_bytes += size


@contextmanager
def running(server: Proxy) -> Iterator[Proxy]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[Proxy]:
    with running(Proxy(bucket.port)) as server:
        yield server


@pytest.fixture
def folder_url(request: pytest.FixtureRequest) -> str:
    """A prefix in the bucket that no other test has."""
    return "s3://kit/" + re.sub(r"\W+", "-", request.node.name)
