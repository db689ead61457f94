"""Types of applications are told as soon as enough of their runs have ended, and not before."""

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import Machine, Recipe
from allocopt.envs.cush.task import DynamicTypes, Episodes
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE, TypeClassifier, WorkloadType

SMALL = Machine(4, 2, 4)
SETS = Recipe().draw_runs(SMALL, SIERRA_TABLE, range(4), 6)


@pytest.mark.slow
def test_a_type_is_told_once_three_runs_have_ended_and_is_right() -> None:
    episodes = Episodes(SETS, SMALL)
    types = DynamicTypes(TypeClassifier(SIERRA_TABLE), episodes)
    runs = np.zeros(6, dtype=np.int64)
    for number, one in enumerate(SETS):
        types.begin(number)
        over, before = False, runs.copy()
        while not over:
            legal = episodes.observe()[1][0]
            jobs, told = episodes.jobs()[0], episodes.descriptions()[0, :, :3]
            _, ends, _ = episodes.times(0)
            ended = (ends >= 0) & (ends <= episodes.now[0])
            runs = before + np.bincount(one.applications[ended], minlength=6)
            for job, traits in zip(jobs[jobs >= 0], told[jobs >= 0], strict=True):
                application = int(one.applications[job])
                true = (WorkloadType.COMPUTE, WorkloadType.NETWORK)[application % 2]
                expected = true if runs[application] >= 3 else WorkloadType.UNKNOWN
                assert traits.argmax() == expected
            over = bool(episodes.step(np.array([int(legal.argmax())]), np.array([number % 2]))[1].all())
            types.look()
        runs = before + np.bincount(one.applications, minlength=6)
    assert (runs >= 3).all()


def test_jobs_take_the_time_of_their_applications_types() -> None:
    one = SETS[0]
    faster = one.penalty.argmin(axis=1)
    assert faster.tolist() == (one.applications % 2).tolist()


def test_several_episodes_or_no_applications_are_refused() -> None:
    with pytest.raises(UsageError, match="one episode at a time"):
        DynamicTypes(TypeClassifier(SIERRA_TABLE), Episodes(SETS, SMALL, 2))
    with pytest.raises(UsageError, match="number of applications is 0"):
        Recipe().draw_runs(SMALL, SIERRA_TABLE, [0], 0)
