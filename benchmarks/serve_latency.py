"""Latency of ``allocopt serve`` in addition to its solves, for one client and for eight, and growth of its memory."""

import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from allocopt.cluster.topology import Tree
from allocopt.files.writing import compact_json
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.topology.problem import Job, TopologyProblem
from allocopt.report.words import Cell, aligned_table
from benchmarks.virtual_slurm import open_folder
from papers.pages import page_parser, write_page

HEADER = ("clients", "requests", "a second", "p50 ms", "p99 ms", "beside the solve p50", "beside the solve p99")
DIGITS = (None, 0, 0, 1, 1, 1, 1)
LARGEST_MIB, LARGE_NODES = 128, 6_000 * 1024
TIMING = re.compile(r"solve;dur=([\d.]+)")


class Connection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, place: Path) -> None:
        super().__init__("localhost")
        self.place = place

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.place))

    def milliseconds(self, body: bytes) -> tuple[float, float]:
        """Send an instance, and return the time of the answer and of its solve."""
        began = time.perf_counter()
        self.request("POST", "/solve?time_limit=0.2", body)
        answer = self.getresponse()
        data = answer.read()
        took = 1e3 * (time.perf_counter() - began)
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(data.decode())
        (solve,) = TIMING.findall(answer.headers["Server-Timing"])
        return took, float(solve)


def row(place: Path, clients: int, requests: int, bodies: list[bytes]) -> list[Cell]:
    """Run clients that send instances, each the next one when it has the answer."""
    found: list[tuple[float, float]] = []

    def send() -> None:
        connection = Connection(place)
        for at in range(requests // clients):
            found.append(connection.milliseconds(bodies[at % len(bodies)]))

    threads = [threading.Thread(target=send) for _ in range(clients)]
    began = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    rate = len(found) / (time.perf_counter() - began)
    took, solves = np.array(found).T
    return [str(clients), len(found), rate, *np.percentile(took, (50, 99)), *np.percentile(took - solves, (50, 99))]


def refused(place: Path, count: int, body: bytes) -> int:
    """Send instances with one changed byte; return the number of refusals."""
    rng, connection, found = random.Random(0), Connection(place), 0
    for _ in range(count):
        at = rng.randrange(len(body))
        connection.request("POST", "/solve", body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :])
        answer = connection.getresponse()
        answer.read()
        found += answer.status == http.HTTPStatus.BAD_REQUEST
    return found


def large(place: Path) -> tuple[float, float, float]:
    """Send an instance of some 100 MB, and one over the limit; return its MB, its seconds, and those of the refusal."""
    nodes = np.arange(LARGE_NODES)
    names = tuple(
        tuple(f"{one}{at}" for at in range(LARGE_NODES // below)) for one, below in (("leaf", 32), ("pod", 1024))
    )
    tree = Tree(np.array([nodes // 32, nodes // 1024]), names, (2, 4, 6))
    problem = TopologyProblem(tree, nodes, tuple(Job(f"job {at}", 1 + at) for at in range(100)))
    body = compact_json(object_from_problem(problem)).encode()
    connection = Connection(place)
    began = time.perf_counter()
    connection.milliseconds(body)
    answered = time.perf_counter()
    connection.request("POST", "/solve", bytes((LARGEST_MIB << 20) + 1))
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        raise SystemExit(answer.read().decode())
    return len(body) / 1e6, answered - began, time.perf_counter() - answered


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    (pages,) = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(pages) / 1024


def main() -> None:
    """Write the page."""
    asked = page_parser(__doc__, "few requests").parse_args()
    many = 400 if asked.quick else 20_000
    bodies = [json.dumps(object_from_problem(one)).encode() for one in shipped_problems("topology")]
    with open_folder() as folder:
        place = folder / "socket"
        command = [sys.executable, "-m", "allocopt", "serve", "--socket", str(place), "--most-mib", str(LARGEST_MIB)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as service:
            assert service.stdout is not None
            service.stdout.readline()
            row(place, 1, 200, bodies)
            before = resident_mib(service.pid)
            cells = [row(place, clients, many // 10, bodies) for clients in (1, 8)]
            bad = refused(place, many // 20, bodies[0])
            row(place, 1, many, bodies)
            after = resident_mib(service.pid)
            megabytes, answered_s, refused_s = (0.0, 0.0, 0.0) if asked.quick else large(place)
            service.send_signal(signal.SIGTERM)
    write_page(
        "serve",
        "Latency of the local service",
        "One client waits a few milliseconds longer than its solve takes; eight clients at once wait for each other, "
        "because solves run one after the other.",
        [aligned_table(HEADER, cells, DIGITS)],
        "Windows of `@tiny` over a Unix socket, `auto`, each client sending its next instance when it has an answer. "
        f"{bad:,} of {many // 20:,} requests with one changed byte were refused with one line; the others were still "
        f"valid instances. Memory after {many:,} more: {after:.0f} MiB, before {before:.0f}. One of {megabytes:.0f} "
        f"MB is answered after {answered_s:.0f} s, one over the limit of {LARGEST_MIB} MiB refused after "
        f"{refused_s:.1f} s.",
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
