"""Servers only for this machine: HTTP on a port of 127.0.0.1, or on a Unix socket that only the server's user may use.

Any user of the machine can connect to a port, and so can a script of any web page that a user has open. Therefore
clients are limited in number, time and memory. Requests that name another host, come from another site or are ambiguous
are refused.
"""

import os
import select
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, cast

from allocopt.errors import UsageError
from allocopt.version import __version__

HOST = "127.0.0.1"
MOST_CLIENTS = 64
"""Largest number of clients; a further one replaces the client that has been silent longest."""
IDLE_S, REQUEST_S, LEAST_RATE = 30.0, 10.0, 1 << 20
"""Seconds allowed between two requests, and for one request; every `LEAST_RATE` bytes of its body allow one more."""
LARGEST_BODIES = 64 << 20
"""Largest total size of bodies being received; beyond it, the client that has been silent longest is disconnected."""
_LOOK_S = 0.25  # interval of checking for clients that are too slow
_PART = 1 << 16  # bytes per read


class ClientGoneError(Exception):
    """The client has closed its connection."""


@dataclass(slots=True, eq=False)
class _Client:
    """A connection; ``since`` is the time at which the current request, or the wait for the next one, began."""

    connection: socket.socket
    since: float
    last: float  # time of the last bytes received
    received: int = 0  # bytes of the current body
    is_idle: bool = True
    awaits_answer: bool = False  # whether its request is complete and being answered

    def cut(self) -> None:
        """Shut the connection down, which unblocks the thread that reads from it."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class _Clients:
    """The clients of a server, kept within limits."""

    def __init__(self, largest_bodies: int) -> None:
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()
        self._largest_bodies = largest_bodies

    def enter(self, connection: socket.socket) -> _Client | None:
        """Add a client and return it; return None if there are too many clients and all wait for an answer."""
        now = time.monotonic()
        with self._lock:
            if len(self._clients) >= MOST_CLIENTS:
                slowest = min((one for one in self._clients if not one.awaits_answer), key=_silent_since, default=None)
                if slowest is None:
                    return None
                slowest.cut()
                self._clients.discard(slowest)
            client = _Client(connection, now, now)
            self._clients.add(client)
            return client

    def leave(self, client: _Client) -> None:
        """Remove a client."""
        with self._lock:
            self._clients.discard(client)

    def receive(self, client: _Client, count: int) -> None:
        """Count received bytes of a body; if all bodies are too large together, disconnect the most silent clients."""
        with self._lock:
            client.last = time.monotonic()
            client.received += count
            others = sorted((one for one in self._clients if one.received and one is not client), key=_silent_since)
            total = sum(one.received for one in self._clients)
            for other in others:
                if total <= self._largest_bodies:
                    break
                if not other.awaits_answer:
                    other.cut()
                    total -= other.received
                    other.received = 0

    def cut_slow(self) -> None:
        """Disconnect clients that are silent for too long or send their request too slowly."""
        now = time.monotonic()
        with self._lock:
            for one in self._clients:
                allowed = IDLE_S if one.is_idle else REQUEST_S + one.received / LEAST_RATE
                if not one.awaits_answer and now - one.since > allowed:
                    one.cut()


def _silent_since(client: _Client) -> float:
    return client.last


class LocalServer(ThreadingMixIn, TCPServer):
    """Server that answers each client in its own thread.

    Parameters
    ----------
    place
        A port (0 for a free one) or the path of a Unix socket.
    handler
        The class that answers.
    largest_bodies
        Largest total size in bytes of the bodies being received.

    Raises
    ------
    UsageError
        If the port or socket is in use, or cannot be opened.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, place: Path | int, handler: "type[LocalHandler]", largest_bodies: int = LARGEST_BODIES) -> None:
        self.place = place
        self.clients = _Clients(largest_bodies)
        is_port = isinstance(place, int)
        self.address_family = socket.AF_INET if is_port else socket.AF_UNIX
        if isinstance(place, Path):
            _make_free(place)
        self._is_closed = threading.Event()
        mask = os.umask(0o177)
        try:
            super().__init__((HOST, place) if is_port else str(place), handler)  # type: ignore[arg-type]
        except (OSError, OverflowError) as error:
            name = f"port {place}" if is_port else place
            raise UsageError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
        finally:
            os.umask(mask)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])

    def __str__(self) -> str:
        return f"http://{HOST}:{self.port}/" if isinstance(self.place, int) else str(self.place)

    def server_close(self) -> None:
        self._is_closed.set()
        super().server_close()
        if isinstance(self.place, Path):
            self.place.unlink(missing_ok=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless the client has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError | ClientGoneError):
            super().handle_error(request, client_address)

    def _watch(self) -> None:
        while not self._is_closed.wait(_LOOK_S):
            self.clients.cut_slow()


def _make_free(place: Path) -> None:
    """Remove a socket whose service no longer runs."""
    try:
        if not stat.S_ISSOCK(place.lstat().st_mode):
            raise UsageError(f"{place}: exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(place))
        except ConnectionRefusedError:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{place}: {error.strerror or error}") from None
        else:
            raise UsageError(f"{place}: another service is using it")


class LocalHandler(BaseHTTPRequestHandler):
    """Handler of the requests of a client. It writes no log."""

    timeout = IDLE_S
    server_version, sys_version = f"allocopt/{__version__}", ""
    # Buffered, so that an answer is sent as a whole at the end of its request.
    wbufsize = -1
    server: LocalServer
    _client: _Client | None = None

    def get(self) -> None:
        """Answer GET, and HEAD, for which the body is not sent."""
        raise NotImplementedError

    def post(self) -> None:
        """Answer POST."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def do_GET(self) -> None:
        """Call `get`."""
        self.get()

    def do_HEAD(self) -> None:
        """Call `get`."""
        self.get()

    def do_POST(self) -> None:
        """Call `post`."""
        self.post()

    def handle(self) -> None:
        """Answer the requests of a client one by one, unless there are too many clients."""
        self._client = self.server.clients.enter(self.connection)
        if self._client is None:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "too many clients are waiting; try again later")
            self.wfile.flush()
            return
        try:
            super().handle()
        finally:
            self.server.clients.leave(self._client)

    def handle_one_request(self) -> None:
        """Wait for the first byte of a request, from which on its time is limited, and answer the request."""
        client = self._client
        assert client is not None, "`handle` has set it"
        client.is_idle, client.awaits_answer, client.received = True, False, 0
        client.since = client.last = time.monotonic()
        try:
            cast(BufferedReader, self.rfile).peek(1)
        except (TimeoutError, ConnectionError):
            self.close_connection = True
            return
        client.is_idle, client.since = False, time.monotonic()
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head of a request; refuse ambiguous requests and requests of other sites."""
        if not super().parse_request():
            return False
        lengths, hosts = (self.headers.get_all(name, []) for name in ("Content-Length", "Host"))
        fault, status = "", HTTPStatus.BAD_REQUEST
        if "Transfer-Encoding" in self.headers:
            fault = "Transfer-Encoding is not supported; give Content-Length"
            status = HTTPStatus.BAD_REQUEST if lengths else HTTPStatus.LENGTH_REQUIRED
        elif len(lengths) > 1 or len(hosts) > 1:
            fault = "Content-Length or Host is given twice"
        elif not self.path.startswith("/"):
            fault = "the address must be a path"
        elif self.command in ("GET", "HEAD") and lengths not in ([], ["0"]):
            fault = f"{self.command} takes no body"
        elif not self._is_for_us():
            fault, status = (
                f"the request comes from another site, or its host is not {HOST} or localhost",
                HTTPStatus.FORBIDDEN,
            )
        if fault:
            self.close_connection = True
            self.send_error(status, fault)
        return not fault

    def _is_for_us(self) -> bool:
        """Return whether a request names this machine as host and does not come from a page of another site."""
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return False
        if isinstance(self.server.place, Path):
            return "Origin" not in self.headers
        names = [f"{name}:{self.server.port}" for name in (HOST, "localhost")]
        # Another site may let its own name resolve to this machine (DNS rebinding), so check the host.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        origin = self.headers.get("Origin")
        return host in (HOST, "localhost") and origin in (None, *(f"http://{name}" for name in names))

    def body(self, length: int) -> bytes:
        """Return the body of a request; it is shorter if the client closes the connection before its end."""
        found = bytearray()
        while len(found) < length and (part := self.rfile.read1(min(length - len(found), _PART))):
            found += part
            if self._client is not None:
                self.server.clients.receive(self._client, len(part))
        return bytes(found)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Keep the client connected while its answer is computed, however long that takes."""
        if self._client is not None:
            self._client.awaits_answer = True
        yield

    def is_gone(self) -> bool:
        """Return whether the client has closed its connection."""
        waiting = select.poll()
        waiting.register(self.connection, select.POLLIN)
        try:
            # The connection is readable, but there are no bytes: it was closed.
            return bool(waiting.poll(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def reply(self, status: int, kind: str, data: bytes, *headers: tuple[str, str]) -> None:
        """Send an answer of a media type, with further headers."""
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
