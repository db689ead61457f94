"""The local service: every instance is answered as `solve` answers it, everything else in a line that says why."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt import local_http
from allocopt.errors import UsageError, WrongAnswerError
from allocopt.experiments.specs import SolveSpec
from allocopt.local_http import HOST, MOST_CLIENTS
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.kind import kind_names
from allocopt.serve import SolveServer, Solving
from allocopt.solving.solution_files import check_solution, solution_from_object

MOST = 100_000
TINY = json.dumps(object_from_problem(shipped_problems("topology")[0])).encode()


@contextmanager
def serving(place: Path | int) -> Iterator[SolveServer]:
    with SolveServer(Solving(SolveSpec(instances=["-"], time_limit=1.0)), place, MOST) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[SolveServer]:
    with serving(0) as made:
        yield made


def asked(
    server: SolveServer, body: bytes, path: str = "/solve", method: str = "POST", **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert data.count(b"\n") == 1
    return answer.status, json.loads(data)


def heard(server: SolveServer, sent: bytes) -> bytes:
    """Send bytes and no more, and hear the answer to its end."""
    with socket.create_connection(server.server_address[:2], timeout=60) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("kind", kind_names())
def test_an_instance_of_every_kind_is_answered_with_a_solution_that_holds(server: SolveServer, kind: str) -> None:
    problem = shipped_problems(kind)[0]
    status, found = asked(server, json.dumps(object_from_problem(problem)).encode(), "/solve?time_limit=5&seed=3")
    assert (status, found["seed"]) == (200, 3)
    assert check_solution(problem, solution_from_object(found, Path("answer"))) == found["objective"]


def test_fields_of_the_query_are_those_of_a_solve(server: SolveServer) -> None:
    status, found = asked(server, TINY, "/solve?solver=sequential&strategy=scas")
    assert (status, found["solver"], found["strategy"]) == (200, "sequential", "scas")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("solver=nobody", "nobody"),
        ("time_limit=0", "time_limit"),
        ("time_limit=inf", "time_limit"),
        ("time_limit=61", "at most 60 s"),
        ("seed=-1", "seed"),
        ("strategy=best", "strategy"),
        ("warm_start=/etc/passwd", "is not a field of a request"),
        ("instances=x", "is not a field of a request"),
    ],
)
def test_a_wrong_field_is_named(server: SolveServer, query: str, said: str) -> None:
    status, found = asked(server, TINY, f"/solve?{query}")
    assert status == 400
    assert said in found["error"]


@given(st.one_of(st.binary(max_size=200), st.integers(0, len(TINY) - 1).map(lambda end: TINY[:end])))
def test_what_is_no_instance_is_refused_and_the_next_one_answered(server: SolveServer, body: bytes) -> None:
    status, found = asked(server, body)
    assert status == 400
    assert found["error"].startswith("body")


@given(st.binary(max_size=300))
def test_what_is_no_http_never_ends_the_service(server: SolveServer, sent: bytes) -> None:
    heard(server, sent)
    assert asked(server, b"", "/healthz", "GET")[0] == 200


def test_deeply_nested_json_is_refused(server: SolveServer) -> None:
    assert asked(server, b"[" * 90_000)[0] == 400


def test_a_body_that_is_cut_off_is_told(server: SolveServer) -> None:
    answer = heard(
        server, f"POST /solve HTTP/1.1\r\nHost: {HOST}:1\r\nContent-Length: 500\r\n\r\n".encode() + TINY[:100]
    )
    assert b" 400 " in answer
    assert b"ends after 100 of 500 bytes" in answer


def test_a_body_that_is_too_large_is_read_to_its_end_and_refused(server: SolveServer) -> None:
    status, found = asked(server, b" " * (100 * MOST))
    assert status == 413
    assert f"at most {MOST}" in found["error"]


def test_a_body_of_unknown_length_is_refused(server: SolveServer) -> None:
    head = f"POST /solve HTTP/1.1\r\nHost: {HOST}:1\r\nTransfer-Encoding: chunked\r\n"
    assert b" 411 " in heard(server, f"{head}\r\n0\r\n\r\n".encode())
    # Another program might go by the other one.
    assert b" 400 " in heard(server, f"{head}Content-Length: 5\r\n\r\n0\r\n\r\n".encode())


def test_other_paths_methods_and_names_of_this_machine_are_refused(server: SolveServer) -> None:
    assert asked(server, TINY, "/")[0] == 404
    assert asked(server, b"", "/solve", "GET")[0] == 404
    assert asked(server, TINY, "/solve", "PUT")[0] == 501
    assert asked(server, TINY, Host="evil.example:80")[0] == 403


def test_a_socket_is_taken_from_the_dead_and_from_nobody_else() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "socket"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(place))
        with serving(place), pytest.raises(UsageError, match="another service is using it"):
            SolveServer(Solving(SolveSpec(instances=["-"])), place, MOST)
        assert not place.exists()
        place.write_text("a file")
        with pytest.raises(UsageError, match="not a socket"):
            SolveServer(Solving(SolveSpec(instances=["-"])), place, MOST)
        assert place.read_text() == "a file"


def test_the_command_answers_on_a_socket_of_its_user_and_takes_it_away() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "socket"
        command = [sys.executable, "-m", "allocopt", "serve", "--socket", str(place), "--solver", "greedy"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as service:
            assert service.stdout is not None
            assert str(place).encode() in service.stdout.readline()
            assert place.stat().st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                client.sendall(b"POST /solve HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(TINY) + TINY)
                assert b'"solver":"greedy"' in b"".join(iter(lambda: client.recv(65536), b"")).replace(b" ", b"")
            os.kill(service.pid, signal.SIGTERM)
        assert not place.exists()


HARD = json.dumps(
    {
        "format": "allocopt-instance", "version": 1, "kind": "topology", "name": "hard",
        "topology": {"kind": "fat-tree", "pods": 4, "leaves_per_pod": 5, "nodes_per_leaf": 5},
        "idle_nodes": list(range(100)), "jobs": [{"id": str(size), "nodes": size} for size in range(6, 14)],
    }
).encode()  # fmt: skip
LONG = "/solve?time_limit=30&solver=annealing&iterations=2000000000"


def sent_to(server: SolveServer, data: bytes) -> socket.socket:
    client = socket.create_connection(server.server_address[:2], timeout=60)
    client.sendall(data)
    return client


def request(body: bytes, path: str = "/solve", length: int | None = None) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}:1\r\nContent-Length: {length or len(body)}\r\n\r\n".encode() + body


def test_sixty_slow_clients_keep_nobody_waiting_and_hold_no_more_than_the_bound(
    server: SolveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 20 * MOST
    monkeypatch.setattr(server.clients, "_largest_bodies", bound)
    slow = [sent_to(server, request(b" " * (MOST - 1), length=MOST)) for _ in range(60)]
    try:
        assert asked(server, TINY)[0] == 200
        assert sum(one.received for one in server.clients._clients) <= bound + MOST
    finally:
        for client in slow:
            client.close()


def test_more_clients_than_are_served_at_once_push_the_silent_ones_out(server: SolveServer) -> None:
    silent = [sent_to(server, b"") for _ in range(2 * MOST_CLIENTS)]
    try:
        assert asked(server, TINY)[0] == 200
        assert len(server.clients._clients) <= MOST_CLIENTS
    finally:
        for client in silent:
            client.close()


def test_clients_that_send_too_slowly_are_cut_off(server: SolveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing else would end the connection.
    monkeypatch.setattr(local_http.LocalHandler, "timeout", None)
    monkeypatch.setattr(local_http, "IDLE_S", 1000.0)
    monkeypatch.setattr(local_http, "REQUEST_S", 0.5)
    with sent_to(server, request(TINY)[:-1]) as client:
        while client.recv(65536):
            pass


def test_clients_that_have_gone_are_solved_for_no_longer(server: SolveServer) -> None:
    for _ in range(100):
        sent_to(server, request(HARD, LONG)).close()
    # Each of them would take 30 s, and `asked` waits for a minute.
    assert asked(server, TINY, "/solve?solver=greedy")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_are_refused(server: SolveServer, headers: dict[str, str]) -> None:
    assert asked(server, TINY, **headers)[0] == 403
    assert asked(server, b"", "/healthz", "GET", **headers)[0] == 403
    assert asked(server, TINY, Origin=f"http://{HOST}:{server.port}")[0] == 200


BODY = b"Content-Length: %d\r\n\r\n" % len(TINY) + TINY
AMBIGUOUS = {
    "the body of a GET": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + BODY,
    "two lengths": b"POST /solve HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: 5\r\n" + BODY,
    "two hosts": b"POST /solve HTTP/1.1\r\nHost: 127.0.0.1:1\r\nHost: evil.example\r\n" + BODY,
    "the address of another host": b"POST http://evil.example/solve HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + BODY,
    "an address that is none": b"POST http://[::1/solve HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + BODY,
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused_and_the_connection_closed(server: SolveServer, what: str) -> None:
    answer = heard(server, AMBIGUOUS[what] + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_byte_order_mark_is_taken_as_in_files(server: SolveServer) -> None:
    assert asked(server, b"\xef\xbb\xbf" + TINY)[0] == 200


@pytest.mark.parametrize("fault", [MemoryError(), KeyboardInterrupt(), WrongAnswerError("returned a wrong answer")])
def test_faults_of_a_solver_are_the_servers_and_the_next_request_is_answered(
    server: SolveServer, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr("allocopt.serve.solve", broken)
        assert asked(server, TINY)[0] == 500
    assert asked(server, TINY)[0] == 200
