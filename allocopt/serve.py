"""A local service that answers instances with verified solutions: HTTP on a Unix socket or a port of this machine.

``POST /solve`` takes an instance file as its body, and fields of a solve such as ``time_limit`` in the query. The
answer is a solution file; the header ``Server-Timing`` has the time in milliseconds. An error is one line of JSON.
Requests are solved one by one; a solve is cancelled if its client closes the connection.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from allocopt.errors import AllocoptError, PluginError, UsageError, WrongAnswerError
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SolveSpec
from allocopt.files.reading import parse_json
from allocopt.files.writing import compact_json
from allocopt.local_http import LARGEST_BODIES, ClientGoneError, LocalHandler, LocalServer
from allocopt.problems.base import Problem
from allocopt.problems.instances import problem_from_object, shipped_problems
from allocopt.problems.kind import kind_name, kind_names, kind_of, working_kinds
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.result import Status, StopReason
from allocopt.solving.solution_files import object_from_result
from allocopt.solving.solve import prepare, solve
from allocopt.version import __version__

MOST_WAITING = 32
"""Largest number of waiting requests; a further one gets the answer to try again later."""
TURN_S, LOOK_S = 0.05, 0.02  # intervals of checking whether a client has gone, while it waits and during its solve
FIELDS = frozenset(("strategy", "solver", "time_limit", "iterations", "gap", "seed"))
LONGEST_S = 60.0
"""Largest time limit of a request, because others have to wait."""
_BODY = "body"  # name of the instance in errors


class BusyError(AllocoptError):
    """Too many requests are waiting."""


class Solving:
    """Solves requests one by one.

    Parameters
    ----------
    spec
        Defaults of the fields of requests; its instances are not read.
    """

    def __init__(self, spec: SolveSpec) -> None:
        self.spec = spec
        # One at a time: searches in parallel would slow each other down and exceed their limits.
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MOST_WAITING + 1)

    def check(self) -> None:
        """Raise `UsageError` if there is no solver of the name, or if the time limit is too long."""
        self._asked("")
        if not any(self.spec.solver in solver_names(kind) for kind in kind_names()):
            get_solver(self.spec.solver)

    def make_ready(self) -> None:
        """Compile and load the kernels of the solver, so that the first request need not wait for them."""
        for kind in working_kinds():
            if self.spec.solver in solver_names(kind.name):
                prepare(get_solver(self.spec.solver, None, kind.name), shipped_problems(kind.name))

    def answer(
        self, query: str, body: bytes, is_gone: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, object], float]:
        """Return the object of a verified solution, and the seconds of its solve.

        Raises `AllocoptError` if the request is wrong, `BusyError` if too many requests are waiting, and
        `ClientGoneError` if ``is_gone`` returns True before there is an answer.
        """
        spec = self._asked(query)
        with self._turn(is_gone):
            # Also read one instance at a time, since in memory it may be many times as large as its file.
            problem = self._problem(spec, body)
            solver = get_solver(spec.solver, None, kind_name(problem))
            prepare(solver, [problem])
            budget = Budget(spec.time_limit, spec.iterations, spec.gap, is_cancelled=_at_times(is_gone, LOOK_S))
            result = solve(problem, solver=solver, seed=spec.seed, budget=budget).unless_interrupted()
        if result.stopped_by is StopReason.CANCELLED:
            raise ClientGoneError
        if result.status is Status.UNKNOWN:
            raise UsageError(f"{problem.name}: no solution was found within {spec.time_limit:g} s")
        return object_from_result(problem, result), result.runtime_s

    @contextmanager
    def _turn(self, is_gone: Callable[[], bool]) -> Iterator[None]:
        if not self._waiting.acquire(blocking=False):
            raise BusyError(f"{MOST_WAITING} requests are already waiting; try again later")
        try:
            while not self._lock.acquire(timeout=TURN_S):
                if is_gone():
                    raise ClientGoneError
            try:
                if is_gone():
                    raise ClientGoneError
                yield
            finally:
                self._lock.release()
        finally:
            self._waiting.release()

    def _problem(self, spec: SolveSpec, body: bytes) -> Problem:
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{_BODY}: is not UTF-8 text: {error}") from None
        problem: Problem = problem_from_object(parse_json(text, _BODY), _BODY)
        kind = kind_of(problem)
        if spec.strategy is None:
            return problem
        if not kind.strategies:
            raise FieldError("strategy", f"a {problem.kind} problem takes none")
        return kind.posed(problem, spec.strategy)

    def _asked(self, query: str) -> SolveSpec:
        texts = []
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in FIELDS:
                raise FieldError(name, f"is not a field of a request, must be one of {', '.join(sorted(FIELDS))}")
            texts.append(f"{name}={value}")
        spec = SolveSpec.assembled(None, self.spec.model_dump(exclude_unset=True), texts)
        if spec.time_limit is None or not 0 < spec.time_limit <= LONGEST_S:
            raise FieldError("time_limit", f"must be above 0 and at most {LONGEST_S:g} s")
        return spec


class SolveServer(LocalServer):
    """Server that answers with verified solutions.

    Parameters
    ----------
    most_bytes
        Largest size of an instance in bytes.
    """

    def __init__(self, solving: Solving, place: Path | int, most_bytes: int) -> None:
        self.solving, self.most_bytes = solving, most_bytes
        super().__init__(place, _Handler, max(LARGEST_BODIES, 2 * most_bytes))


class _Handler(LocalHandler):
    protocol_version = "HTTP/1.1"
    server: SolveServer

    def get(self) -> None:
        if self.path == "/healthz":
            self._say(HTTPStatus.OK, {"status": "ok", "version": __version__})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "use POST /solve or GET /healthz")

    def post(self) -> None:
        try:
            path, query = urlsplit(self.path)[2:4]
        except ValueError as error:
            self._end(HTTPStatus.BAD_REQUEST, f"the address is wrong: {error}")
            return
        body = self._body()
        if body is None:
            return
        if path != "/solve":
            self._refuse(HTTPStatus.NOT_FOUND, "use POST /solve or GET /healthz")
            return
        try:
            self._answer(query, body)
        except ClientGoneError:
            self.close_connection = True
        except BusyError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error), ("Retry-After", "1"))
        except (PluginError, WrongAnswerError, MemoryError, KeyboardInterrupt) as error:
            # Only the main thread gets Ctrl-C, so here the solver itself has raised KeyboardInterrupt.
            fault = str(error) if isinstance(error, AllocoptError) else f"the solver raised {type(error).__name__}"
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, fault)
        except AllocoptError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _answer(self, query: str, body: bytes) -> None:
        began = time.perf_counter()
        with self.answering():
            found, solve_s = self.server.solving.answer(query, body, self.is_gone)
        total_s = time.perf_counter() - began
        timing = f"solve;dur={1e3 * solve_s:.3f}, total;dur={1e3 * total_s:.3f}"
        self._say(HTTPStatus.OK, found, ("Server-Timing", timing))

    def _body(self) -> bytes | None:
        """Return the whole body; if it is refused, send the error and return None."""
        told = self.headers.get("Content-Length", "")
        if not (told.isascii() and told.isdigit()) or len(told) > 15:
            self._end(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be the size of the instance in bytes")
            return None
        length, left, most = int(told), int(told), self.server.most_bytes
        if length > most:
            # Read the body first: a client that is refused while it sends would not see the answer.
            while left and (part := self.rfile.read(min(left, 2**20))):
                left -= len(part)
            self._end(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the instance has {told} bytes, must have at most {most}")
            return None
        body = self.body(length)
        if len(body) < length:
            self._end(HTTPStatus.BAD_REQUEST, f"the instance ends after {len(body)} of {length} bytes")
            return None
        return body

    def _end(self, status: HTTPStatus, fault: str) -> None:
        self.close_connection = True
        self._refuse(status, fault)

    def _refuse(self, status: HTTPStatus, fault: str, *headers: tuple[str, str]) -> None:
        self._say(status, {"error": " ".join(fault.split())}, *headers)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send errors of the HTTP server as one line of JSON, too."""
        self._end(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _say(self, status: HTTPStatus, told: Mapping[str, object], *headers: tuple[str, str]) -> None:
        self.reply(status, "application/json", compact_json(told).encode() + b"\n", *headers)


def _at_times(asked: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Return a function that calls ``asked`` at most once per ``seconds``, and repeats the last answer in between."""
    last, answer = time.monotonic(), False

    def ask() -> bool:
        nonlocal last, answer
        if time.monotonic() - last >= seconds:
            answer, last = asked(), time.monotonic()
        return answer

    return ask
