"""What an order is expected to save: by hand on small queues, and what the journal and the status tell of it."""

from dataclasses import replace

import numpy as np
import pytest

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.request import Request
from allocopt.live.order import LiveOrder, network_named
from allocopt.live.plan import Queue
from allocopt.live.savings import Savings, expected_savings
from allocopt.live.slurm import Look, SlurmJob
from allocopt.live.view import View, status_lines

NOW = 2_000_000.0
NODES = ("n0", "n1")
CLUSTER = Cluster.of([ClusterNode(name, 4) for name in NODES], None, (Partition("main", NODES),))


def job_of(number: int, *, limit_s: float, user: str = "ann", tasks: int = 8, **values: object) -> SlurmJob:
    made = SlurmJob(
        *(str(number), user, "main", "", "", "", "PENDING", "None", 1000 - number, limit_s, NOW - 50, NOW - 50),
        *(0.0, np.inf, Request(tasks)),
    )
    return replace(made, **values)  # type: ignore[arg-type]


def savings_of(jobs: list[SlurmJob], places: list[int], ended: tuple[SlurmJob, ...] = ()) -> Savings | None:
    order = LiveOrder(network_named("evolved-formula"))
    look = Look(NOW, CLUSTER, (*ended, *jobs), {})
    order.learn(look)
    queue = Queue.of(look)
    return expected_savings(look, queue, queue.taken(places), order)


def test_two_jobs_that_need_the_whole_machine_wait_for_each_other() -> None:
    jobs = [job_of(1, limit_s=1000.0), job_of(2, limit_s=100.0)]
    # The second one waits for the first, or the other way round.
    assert savings_of(jobs, [1, 0]) == Savings(2, 500.0, 50.0)


def test_jobs_are_expected_to_run_as_long_as_the_last_ones_of_their_users() -> None:
    past = job_of(
        9, limit_s=1000.0, user="bob", state="COMPLETED", submit_s=NOW - 900, begin_s=NOW - 900, start_s=NOW - 800,
        end_s=NOW - 600,
    )  # fmt: skip
    jobs = [job_of(1, limit_s=1000.0, user="bob"), job_of(2, limit_s=100.0)]
    assert savings_of(jobs, [1, 0], (past,)) == Savings(2, 100.0, 50.0)


def test_a_running_job_ends_as_its_user_s_last_ones_let_expect_or_else_at_its_limit() -> None:
    def running(start_s: float) -> SlurmJob:
        return job_of(
            8, limit_s=1000.0, user="bob", state="RUNNING", start_s=start_s, end_s=start_s + 1000, submit_s=NOW - 950,
            begin_s=NOW - 950, allocated={name: (4, 0, 0) for name in NODES},
        )  # fmt: skip

    past = job_of(
        9, limit_s=1000.0, user="bob", state="COMPLETED", submit_s=NOW - 990, begin_s=NOW - 990, start_s=NOW - 800,
        end_s=NOW - 600,
    )  # fmt: skip
    jobs = [job_of(1, limit_s=1000.0), job_of(2, limit_s=100.0)]
    assert savings_of([running(NOW - 50), *jobs], [1, 0], (past,)) == Savings(2, 650.0, 200.0)
    # It has run for longer than expected, and may run for its whole limit.
    assert savings_of([running(NOW - 300), *jobs], [1, 0], (past,)) == Savings(2, 1200.0, 750.0)


def test_of_one_job_nothing_is_said() -> None:
    assert savings_of([job_of(1, limit_s=100.0)], [0]) is None


def test_the_status_tells_what_is_expected() -> None:
    view = View()
    view.add({"event": "begun", "at": "2026-01-01T00:00:00+00:00", "mode": "advise", "solver": "auto"})
    told = {"waiting": 12, "slurm_wait_s": 7200, "ordered_wait_s": 3600}
    view.add({"event": "expected", "at": "2026-01-01T00:00:00+00:00", **told})
    assert view.summary(0.0)["expected"] == told
    lines = list(status_lines(view, 1_800_000_000.0))
    assert "order    expected mean wait of 12 jobs 1 h, in Slurm's order 2 h" in lines


@pytest.mark.parametrize("missing", ["waiting", "slurm_wait_s", "ordered_wait_s"])
def test_an_expectation_without_a_figure_is_refused(missing: str) -> None:
    told = {"waiting": 12, "slurm_wait_s": 7200, "ordered_wait_s": 3600}
    told.pop(missing)
    with pytest.raises(KeyError):
        View().add({"event": "expected", "at": "2026-01-01T00:00:00+00:00", **told})
