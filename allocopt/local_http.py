"""Servers for this machine alone: HTTP on a port of 127.0.0.1, or on a Unix socket that the user alone may use."""

import os
import socket
import stat
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from allocopt.errors import UsageError
from allocopt.version import __version__

HOST = "127.0.0.1"


class LocalServer(ThreadingMixIn, TCPServer):
    """Answers in a thread for each client.

    Parameters
    ----------
    place
        A port, of which 0 takes a free one, or the path of a Unix socket.
    handler
        What answers.

    Raises
    ------
    UsageError
        If the place is taken, or cannot be.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, place: Path | int, handler: "type[LocalHandler]") -> None:
        self.place = place
        is_port = isinstance(place, int)
        self.address_family = socket.AF_INET if is_port else socket.AF_UNIX
        if isinstance(place, Path):
            _make_free(place)
        mask = os.umask(0o177)
        try:
            super().__init__((HOST, place) if is_port else str(place), handler)  # type: ignore[arg-type]
        except (OSError, OverflowError) as error:
            name = f"port {place}" if is_port else place
            raise UsageError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
        finally:
            os.umask(mask)

    @property
    def port(self) -> int:
        """The port that clients ask."""
        return int(self.server_address[1])

    def __str__(self) -> str:
        return f"http://{HOST}:{self.port}/" if isinstance(self.place, int) else str(self.place)

    def server_close(self) -> None:
        super().server_close()
        if isinstance(self.place, Path):
            self.place.unlink(missing_ok=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of an error, but not of a client that has gone."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _make_free(place: Path) -> None:
    """Take away a socket whose service is gone."""
    try:
        if not stat.S_ISSOCK(place.lstat().st_mode):
            raise UsageError(f"{place}: is there already, and no socket")
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
            raise UsageError(f"{place}: another service answers there")


class LocalHandler(BaseHTTPRequestHandler):
    """Answers the requests of a client; it keeps no log, for each answer tells its client."""

    timeout = 30  # seconds for which a silent client is waited for
    server_version, sys_version = f"allocopt/{__version__}", ""
    # An answer leaves in one piece, at the end of its request.
    wbufsize = -1
    server: LocalServer

    def get(self) -> None:
        """Answer GET, and HEAD, of which the body is not sent."""
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

    def is_for_us(self) -> bool:
        """Tell whether a request names this machine: a page of another site may have its own name lead here."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        return isinstance(self.server.place, Path) or host in (HOST, "localhost")

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
