"""A local service that answers instances with verified results: HTTP on a Unix socket, or on this machine's own port.

``POST /solve`` takes an instance as it stands in a file, and fields of a solve in the query; the answer is what stands
in a file of a solution, with its milliseconds in the header ``Server-Timing``. What is wrong is said in one line.
"""

import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from allocopt.errors import AllocoptError, PluginError, UsageError
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SolveSpec
from allocopt.files.reading import parse_json
from allocopt.files.writing import compact_json
from allocopt.local_http import HOST, LocalHandler, LocalServer
from allocopt.problems.base import Problem
from allocopt.problems.instances import problem_from_object, shipped_problems
from allocopt.problems.kind import kind_name, kind_names, kind_of
from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.result import Status
from allocopt.solving.solution_files import object_from_result
from allocopt.solving.solve import prepare, solve
from allocopt.version import __version__

FIELDS = frozenset(("strategy", "solver", "time_limit", "iterations", "gap", "seed"))
LONGEST_S = 60.0
"""Largest time limit of a request, for which others may have to wait."""
_BODY = "body"  # what errors name


class Solving:
    """Solves of requests, one after the other.

    Parameters
    ----------
    spec
        What holds where a request says nothing; its instances are not read.
    """

    def __init__(self, spec: SolveSpec) -> None:
        self.spec = spec
        # Kernels use one core, and searches that run side by side would each be late.
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise `UsageError` if there is no solver of the name, or the limit is too long."""
        self._asked("")
        if not any(self.spec.solver in solver_names(kind) for kind in kind_names()):
            get_solver(self.spec.solver)

    def make_ready(self) -> None:
        """Compile and load what the solver calls, which else the first request would wait for."""
        for kind in kind_names():
            if self.spec.solver in solver_names(kind):
                prepare(get_solver(self.spec.solver, None, kind), shipped_problems(kind))

    def answer(self, query: str, body: bytes) -> tuple[dict[str, object], float]:
        """Return the object of a verified solution, and the seconds of its solve.

        Raises `AllocoptError` where the request is wrong.
        """
        spec = self._asked(query)
        try:
            problem: Problem = problem_from_object(parse_json(body.decode(), _BODY), _BODY)
        except UnicodeDecodeError as error:
            raise UsageError(f"{_BODY}: is not UTF-8 text: {error}") from None
        kind = kind_of(problem)
        if spec.strategy is not None:
            if not kind.strategies:
                raise FieldError("strategy", f"a {problem.kind} problem takes none")
            problem = kind.posed(problem, spec.strategy)
        with self._lock:
            solver = get_solver(spec.solver, None, kind_name(problem))
            prepare(solver, [problem])
            result = solve(
                problem, None, solver, spec.time_limit, spec.seed, iterations=spec.iterations, gap=spec.gap
            ).unless_interrupted()
        if result.status is Status.UNKNOWN:
            raise UsageError(f"{problem.name}: no solution was found within {spec.time_limit:g} s")
        return object_from_result(problem, result), result.runtime_s

    def _asked(self, query: str) -> SolveSpec:
        texts = []
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in FIELDS:
                raise FieldError(name, f"is no field of a request, there are {', '.join(sorted(FIELDS))}")
            texts.append(f"{name}={value}")
        spec = SolveSpec.assembled(None, self.spec.model_dump(exclude_unset=True), texts)
        if spec.time_limit is None or not 0 < spec.time_limit <= LONGEST_S:
            raise FieldError("time_limit", f"must be above 0 and at most {LONGEST_S:g} s")
        return spec


class SolveServer(LocalServer):
    """Answers with verified solutions.

    Parameters
    ----------
    most_bytes
        Size of the largest instance.
    """

    def __init__(self, solving: Solving, place: Path | int, most_bytes: int) -> None:
        self.solving, self.most_bytes = solving, most_bytes
        super().__init__(place, _Handler)


class _Handler(LocalHandler):
    protocol_version = "HTTP/1.1"
    server: SolveServer

    def get(self) -> None:
        if self.path == "/healthz":
            self._say(HTTPStatus.OK, {"status": "ok", "version": __version__})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there are POST /solve and GET /healthz")

    def post(self) -> None:
        path, query = urlsplit(self.path)[2:4]
        body = self._body()
        if body is None:
            return
        if path != "/solve":
            self._refuse(HTTPStatus.NOT_FOUND, "there are POST /solve and GET /healthz")
            return
        if not self.is_for_us():
            self._refuse(HTTPStatus.FORBIDDEN, f"ask for {HOST}")
            return
        began = time.perf_counter()
        try:
            found, solve_s = self.server.solving.answer(query, body)
        except PluginError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except AllocoptError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            total_s = time.perf_counter() - began
            self._say(HTTPStatus.OK, found, f"solve;dur={1e3 * solve_s:.3f}, total;dur={1e3 * total_s:.3f}")

    def _body(self) -> bytes | None:
        """Return the whole body, or refuse and return None."""
        told = self.headers.get("Content-Length", "")
        if not (told.isascii() and told.isdigit()) or len(told) > 15:
            self._end(HTTPStatus.LENGTH_REQUIRED, "Content-Length must tell the bytes of the instance")
            return None
        left, most = int(told), self.server.most_bytes
        if left > most:
            # Who is refused while writing does not hear why.
            while left and (part := self.rfile.read(min(left, 2**20))):
                left -= len(part)
            self._end(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the instance has {told} bytes, at most {most} are taken")
            return None
        body = self.rfile.read(left)
        if len(body) < left:
            self._end(HTTPStatus.BAD_REQUEST, f"the instance ends after {len(body)} of {left} bytes")
            return None
        return body

    def _end(self, status: HTTPStatus, fault: str) -> None:
        self.close_connection = True
        self._refuse(status, fault)

    def _refuse(self, status: HTTPStatus, fault: str) -> None:
        self._say(status, {"error": " ".join(fault.split())})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no HTTP in one line, too."""
        self._end(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _say(self, status: HTTPStatus, told: Mapping[str, object], timing: str = "") -> None:
        headers = (("Server-Timing", timing),) if timing else ()
        self.reply(status, "application/json", compact_json(told).encode() + b"\n", *headers)
