"""Traces by name, from a server on this machine."""

import gzip
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from allocopt.errors import BadFileError, UsageError
from allocopt.traces.fetch import SOURCES, TraceSource, cached_trace
from allocopt.traces.reading import read_workload

SWF = "; MaxProcs: 4\n" + "".join(f"{job} {job} -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1\n" for job in range(1, 4))
SHA256 = hashlib.sha256(SWF.encode()).hexdigest()
FILES = {"/t.swf.gz": gzip.compress(SWF.encode()), "/t.swf": SWF.encode(), "/cut.gz": gzip.compress(SWF.encode())[:-9],
         "/short.swf": SWF.encode(), "/slow.swf": SWF.encode()}  # fmt: skip


class Server:
    """A web server, and how often it was asked."""

    def __init__(self) -> None:
        server = self
        self.asked: list[str] = []
        self.given_up = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                data = FILES.get(self.path)
                self.send_response(404 if data is None else 200)
                missing = 10 * (self.path in ("/short.swf", "/slow.swf"))
                self.send_header("Content-Length", str(len(data or b"") + missing))
                self.end_headers()
                self.wfile.write(data or b"")
                if self.path == "/slow.swf":
                    server.given_up.wait()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.given_up.set()
    made.http.shutdown()
    made.http.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["t.swf.gz", "t.swf"])
def test_a_trace_is_fetched_once_and_there_without_a_network(server: Server, tmp_path: Path, name: str) -> None:
    source = TraceSource("mine", f"{server.url}/{name}", SHA256)
    path = source.fetch(tmp_path)
    assert path == tmp_path / "mine.swf.gz"
    assert len(read_workload(path)) == 3
    server.http.shutdown()
    assert source.fetch(tmp_path) == path
    assert server.asked == [f"/{name}"]


def test_a_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    source = TraceSource("mine", f"{server.url}/t.swf.gz", SHA256)
    path = source.fetch(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    assert len(read_workload(source.fetch(tmp_path))) == 3
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("path", "sha256", "message"),
    [
        ("/t.swf.gz", "0" * 64, f"has the checksum {SHA256}, must have {'0' * 64}: it is another file"),
        ("/none", SHA256, "the server answers 404 Not Found"),
        ("/short.swf", SHA256, "cannot be fetched: it ends 10 bytes before the length that was announced"),
        (
            "/cut.gz",
            SHA256,
            "cannot be decompressed: Compressed file ended before the end-of-stream marker was reached",
        ),
    ],
)
def test_what_is_not_the_trace_is_not_kept(
    server: Server, tmp_path: Path, path: str, sha256: str, message: str
) -> None:
    with pytest.raises(BadFileError) as raised:
        TraceSource("mine", server.url + path, sha256).fetch(tmp_path)
    assert str(raised.value) == f"{server.url}{path}: {message}"
    assert list(tmp_path.iterdir()) == []


def test_no_server_is_told(server: Server, tmp_path: Path) -> None:
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(BadFileError, match="cannot be fetched: "):
        TraceSource("mine", f"{server.url}/t.swf", SHA256).fetch(tmp_path)


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must begin with http:// or https://"):
        TraceSource("mine", (tmp_path / "t.swf").as_uri(), SHA256).fetch(tmp_path)


def test_known_names_have_their_url_and_checksum_and_others_need_both() -> None:
    assert TraceSource.known("KTH-SP2") == SOURCES["KTH-SP2"]
    assert TraceSource.known("KTH-SP2", url="http://x/y").sha256 == SOURCES["KTH-SP2"].sha256
    assert TraceSource.known("other", "http://x/y", SHA256.upper()).sha256 == SHA256
    for name, url in (("other", None), ("other", "http://x/y"), ("../other", None), ("", None), (".x", None)):
        with pytest.raises(UsageError):
            TraceSource.known(name, url)


@pytest.mark.slow
def test_the_checksums_are_those_of_the_files(shared_data: Path) -> None:
    for source in SOURCES.values():
        path = shared_data / "traces" / Path(source.url).name
        assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == source.sha256, source.name


def test_a_trace_that_was_fetched_is_read_by_its_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        BadFileError, match="KTH-SP2: no such file, nor has the trace been fetched: allocopt fetch-trace"
    ):
        read_workload("KTH-SP2")
    TraceSource("mine", f"{server.url}/t.swf", SHA256).fetch()
    assert cached_trace("mine") == tmp_path / "allocopt" / "traces" / "mine.swf.gz"
    assert read_workload("mine").name == "mine"
    with pytest.raises(BadFileError, match="No such file"):
        read_workload("other")


@pytest.mark.parametrize(("name", "meant"), [("KTH-SP", "KTH-SP2"), ("kth-sp2", "KTH-SP2"), ("CTCSP2", "CTC-SP2")])
def test_a_misspelt_name_of_a_trace_is_told_with_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadFileError, match=f"{name}: no such file, nor a trace .* did you mean '{meant}'?"):
        read_workload(name)


def test_an_address_that_cannot_be_asked_and_an_answer_that_is_no_http_are_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="cannot be fetched: URL can't contain control characters"):
        TraceSource("mine", "http://127.0.0.1:1/a b", SHA256).fetch(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_answer_nonsense, args=(listening,))
        thread.start()
        with pytest.raises(BadFileError, match="cannot be fetched"):
            TraceSource("mine", f"http://127.0.0.1:{listening.getsockname()[1]}/t", SHA256).fetch(tmp_path)
        thread.join()


def _answer_nonsense(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"nonsense\r\n\r\n")


def test_a_server_that_takes_its_time_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allocopt.traces.fetch._LONGEST_DOWNLOAD_S", 0.05)
    with pytest.raises(BadFileError, match=r"slow\.swf: cannot be fetched: it takes longer than 0\.05 s"):
        TraceSource("mine", f"{server.url}/slow.swf", SHA256).fetch(tmp_path)
    assert not list(tmp_path.iterdir())
