"""Workloads that cannot be simulated are refused with the job, line or file that is wrong."""

from typing import Any

import numpy as np
import pytest
from support.workloads import workload

from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.placement import DepthFirst
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload

JOBS = workload([(7, 0.0, 5.0, 2, 5.0), (8, 1.0, 5.0, 4, 5.0), (9, 2.0, 5.0, 3, 5.0)])
TWO_RESOURCES = Platform(("cores", "gpus"), np.array([[8, 2]]), has_nodes=False)


NOTHING = np.empty(0, dtype=np.int64)
EMPTY = Workload("nothing", NOTHING, 0.0 * NOTHING, 0.0 * NOTHING, NOTHING, 0.0 * NOTHING)


@pytest.mark.parametrize(
    ("jobs", "platform", "given", "message"),
    [
        (JOBS, 3, {}, "job 8: asks for 4 processors, the machine has 3"),
        (JOBS, Platform.whole_nodes(3), {}, "job 8: asks for 4 nodes, the machine has 3"),
        (JOBS, TWO_RESOURCES, {"demands": {"gpus": np.array([0, 2, 3])}}, "job 9: asks for 3 gpus, the machine has 2"),
        (JOBS, TWO_RESOURCES, {"demands": {"gpus": np.array([0, 2, -1])}}, "job 9: asks for -1 gpus"),
        (EMPTY, 3, {}, "nothing holds no jobs"),
    ],
)
def test_jobs_that_can_never_run_are_named(
    jobs: Workload, platform: Platform | int, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        simulate(jobs, platform, **given)


WHOLE_NUMBERS = "'gpus' must be 3 whole numbers"


@pytest.mark.parametrize(
    ("platform", "given", "message"),
    [
        (TWO_RESOURCES, {"demands": {"gpus": np.array([1])}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"gpus": np.array([0.5, 0.5, 0.0])}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"gpus": np.ones((3, 1), dtype=np.int64)}}, WHOLE_NUMBERS),
        (TWO_RESOURCES, {"demands": {"tpus": np.array([0, 0, 0])}}, "'tpus'.*gpus"),
        (8, {"demands": {"gpus": np.array([0, 0, 0])}}, "'gpus'.*none"),
        (4, {"scheduler": "fcsf"}, "no policy 'fcsf'; did you mean 'fcfs'"),
        (4, {"scheduler": object()}, "no method `schedule`"),
        (4, {"allocator": DepthFirst()}, "an allocator needs a platform with nodes"),
    ],
)
def test_what_does_not_go_together_is_refused(platform: Platform | int, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(JOBS, platform, **given)


def test_the_size_of_a_pool_may_be_a_numpy_integer() -> None:
    assert simulate(JOBS, np.int64(4)).start.tolist() == simulate(JOBS, 4).start.tolist()  # type: ignore[arg-type]
