"""Traces by name, from a server on this machine."""

import gzip
import hashlib
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
PACKED = gzip.compress(SWF.encode())
FILES = {"/t.swf.gz": PACKED, "/cut.gz": PACKED[:-9], **dict.fromkeys(("/t.swf", "/short", "/slow"), SWF.encode())}


class Handler(BaseHTTPRequestHandler):
    """Answers with a file of `FILES`, whole or not, or with what is no HTTP; it notes what it was asked."""

    asked: list[str]
    given_up: threading.Event

    def do_GET(self) -> None:
        self.asked.append(self.path)
        data = FILES.get(self.path)
        if self.path == "/nonsense":
            self.wfile.write(b"nonsense\r\n\r\n")
            return
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"") + 10 * (self.path in ("/short", "/slow"))))
        self.end_headers()
        self.wfile.write(data or b"")
        if self.path == "/slow":
            self.given_up.wait()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.asked, Handler.given_up = [], threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        Handler.given_up.set()
        made.shutdown()
        thread.join()


def address(server: ThreadingHTTPServer, path: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


@pytest.mark.parametrize("path", ["/t.swf.gz", "/t.swf"])
def test_a_trace_is_fetched_once_and_there_without_a_network_until_it_is_damaged(
    server: ThreadingHTTPServer, tmp_path: Path, path: str
) -> None:
    source = TraceSource("mine", address(server, path), SHA256)
    for _ in range(2):
        assert source.fetch(tmp_path) == tmp_path / "mine.swf.gz"
        assert len(read_workload(tmp_path / "mine.swf.gz")) == 3
    assert Handler.asked == [path]
    (tmp_path / "mine.swf.gz").write_bytes(PACKED[:-9])
    assert len(read_workload(source.fetch(tmp_path))) == 3
    assert Handler.asked == [path, path]


@pytest.mark.parametrize(
    ("path", "sha256", "message"),
    [
        ("/t.swf.gz", "0" * 64, f"has the checksum {SHA256}, must have {'0' * 64}: it is another file"),
        ("/none", SHA256, "the server responds 404 Not Found"),
        ("/short", SHA256, "cannot be fetched: the response ends 10 bytes early"),
        (
            "/cut.gz",
            SHA256,
            "cannot be decompressed: Compressed file ended before the end-of-stream marker",
        ),
        ("/a b", SHA256, "cannot be fetched: URL can't contain control characters"),
        ("/nonsense", SHA256, "cannot be fetched: nonsense"),
        ("/slow", SHA256, "cannot be fetched: the download takes longer than 0.05 s"),
    ],
)
def test_what_is_not_the_trace_is_not_kept(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, sha256: str, message: str
) -> None:
    monkeypatch.setattr("allocopt.traces.fetch._LONGEST_DOWNLOAD_S", 0.05 if path == "/slow" else 60.0)
    with pytest.raises(BadFileError) as raised:
        TraceSource("mine", address(server, path), sha256).fetch(tmp_path)
    assert str(raised.value).startswith(f"{address(server, path)}: {message}")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_no_server_and_what_is_not_of_the_web_are_told(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(BadFileError, match="cannot be fetched: "):
        TraceSource("mine", address(server, "/t.swf"), SHA256).fetch(tmp_path)
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


def test_a_trace_that_was_fetched_is_read_by_its_name_and_others_are_told(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    TraceSource("mine", address(server, "/t.swf"), SHA256).fetch()
    assert cached_trace("mine") == tmp_path / "allocopt" / "traces" / "mine.swf.gz"
    assert read_workload("mine").name == "mine"
    meant = {"KTH-SP": "KTH-SP2", "kth-sp2": "KTH-SP2", "CTCSP2": "CTC-SP2"}
    faults = {name: f"no such file, and no trace .* did you mean '{right}'?" for name, right in meant.items()}
    faults |= {
        "KTH-SP2": "no such file, and the trace has not been fetched: run allocopt fetch-trace",
        "other": "No such file",
    }
    for name, fault in faults.items():
        with pytest.raises(BadFileError, match=f"{name}: {fault}"):
            read_workload(name)
