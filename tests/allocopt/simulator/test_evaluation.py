"""Judging a rule by one call."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import allocopt
from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.errors import UsageError
from allocopt.simulator import Start, View
from allocopt.simulator.evaluation import evaluate
from allocopt.simulator.metrics import measure
from allocopt.traces.workload import Workload


def some_jobs(seed: int, machine: int | None = 8) -> Workload:
    rng = np.random.default_rng(seed)
    n = 60
    run = rng.integers(1, 500, n).astype(float)
    return Workload(
        "some",
        ids=np.arange(n),
        submit=np.sort(rng.integers(0, 2000, n)).astype(float),
        run=run,
        estimate=run * rng.integers(1, 4, n),
        processors=rng.integers(1, 9, n),
        machine_processors=machine,
    )


def test_a_function_orders_jobs_as_the_policy_of_the_same_rule() -> None:
    jobs = some_jobs(1)
    by_function = evaluate(lambda jobs: jobs.estimate, jobs)
    assert by_function.jobs == measure(allocopt.simulate(jobs, 8, "sjf+easy")).jobs
    assert by_function.jobs == evaluate("sjf+easy", jobs).jobs


def test_a_function_may_go_without_backfilling() -> None:
    jobs = some_jobs(2)
    assert evaluate(lambda jobs: jobs.estimate, jobs, backfill="none").jobs == evaluate("sjf", jobs).jobs


def test_cluster_files_and_numbers_stand_for_machines(tmp_path: Path) -> None:
    jobs = some_jobs(3, None)
    cluster = Cluster.of([ClusterNode("a", 8)], None)
    (tmp_path / "slurm.conf").write_text("NodeName=a CPUs=8\nPartitionName=p Nodes=a Default=YES\n")
    from_file = evaluate("fcfs+easy", jobs, tmp_path / "slurm.conf")
    assert from_file.jobs == evaluate("fcfs+easy", jobs, cluster).jobs
    assert from_file.jobs == evaluate("fcfs+easy", jobs, 8).jobs


def test_a_machine_of_unknown_size_is_asked_for() -> None:
    with pytest.raises(UsageError, match="does not state the size of its machine"):
        evaluate("fcfs", some_jobs(4, None))


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((60, 1)), 5.0])
def test_a_rule_must_return_a_number_for_each_job(values: object) -> None:
    with pytest.raises(UsageError, match="must be a number for each of the 60 jobs"):
        evaluate(lambda jobs: values, some_jobs(5))  # type: ignore[arg-type, return-value]


class OneAtATime:
    """A scheduler that runs the first job alone."""

    def schedule(self, view: View) -> Iterator[Start]:
        if (head := view.head) is not None and not len(view.running):
            yield Start(head)


def test_a_scheduler_is_judged_as_a_simulation_of_it() -> None:
    jobs = some_jobs(7)
    assert evaluate(OneAtATime(), jobs).jobs == measure(allocopt.simulate(jobs, 8, OneAtATime())).jobs


def test_a_class_of_a_scheduler_is_refused() -> None:
    with pytest.raises(UsageError, match=r"must be an object of it: OneAtATime\(\)"):
        evaluate(OneAtATime, some_jobs(8))  # type: ignore[arg-type]


def test_what_is_no_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="cluster is a FatTree, must be a number of processors, a Platform"):
        evaluate("fcfs", some_jobs(9), allocopt.FatTree(2, 2, 2))  # type: ignore[arg-type]


def test_an_unknown_backfilling_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no backfilling 'eas'"):
        evaluate(lambda jobs: jobs.estimate, some_jobs(6), backfill="eas")
