"""Work is conserved whenever the speed of a running job changes: what it has done at the end is what it had to do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.simulator.kernels.backfilling import list_pass
from allocopt.simulator.kernels.events import HAPPENED, advance, change_speed
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.state import new_state
from allocopt.traces.workload import Workload

JOBS = 4
changes = st.lists(st.tuples(st.floats(0, 1), st.integers(0, JOBS - 1), st.floats(0.05, 20)), max_size=30)


@given(changes, st.lists(st.floats(1, 100), min_size=JOBS, max_size=JOBS))
def test_work_is_conserved_under_any_sequence_of_changes(
    sequence: list[tuple[float, int, float]], run: list[float]
) -> None:
    ones = np.ones(JOBS, dtype=np.int64)
    jobs = Workload("w", np.arange(JOBS), np.zeros(JOBS), np.array(run), ones, np.array(run))
    keys = QueueKeys(OrderKind.ARRIVAL, np.zeros(JOBS))
    state = new_state(jobs, ones[:, None], np.array([JOBS]), Rules(kill_at_limit=False), Backfill.NONE, keys)
    assert advance(state, np.inf) == HAPPENED
    list_pass(state)
    speeds, done, ended = np.ones(JOBS), np.zeros(JOBS), np.zeros(JOBS, dtype=bool)
    for share, job, speed in [*sequence, (1.0, 0, 1.0)]:
        now = float(state.clock["now"][0])
        # A time between now and the next end.
        until = now + share * (float(state.jobs["end"][~ended].min()) - now)
        done[~ended] += (until - now) * speeds[~ended]
        state.clock["now"][0] = until
        if share == 1.0 and advance(state, until) == HAPPENED:
            ended = np.asarray(state.jobs["end"] <= until)
        if ended.all():
            break
        if not ended[job]:
            change_speed(state, job, speed)
            speeds[job] = speed
    left = ~ended
    done[left] += (state.jobs["end"] - float(state.clock["now"][0]))[left] * speeds[left]
    assert done == pytest.approx(np.array(run))
