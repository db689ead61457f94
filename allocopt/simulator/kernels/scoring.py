"""Scores of waiting jobs: values updated at events, and the score of a job; see `allocopt.simulator.scoring`."""

import numpy as np
from numba import float64, void

from allocopt.arrays import FloatArray
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import helper, inlined, kernel, question
from allocopt.simulator.rules import OrderKind
from allocopt.simulator.scoring import (
    ASKED,
    BIAS,
    BIASES,
    IDLE,
    IDLE_THEN,
    INPUTS,
    LAST,
    LAST_BUT_ONE,
    LIMITS,
    LN_LIMIT,
    LN_MEAN_LIMIT,
    LN_MEAN_SHARE,
    LN_SHARE,
    LONGEST_WAIT,
    MEAN_WAIT,
    N_ENDED,
    N_FEATURES,
    N_ROWS,
    N_STARTED,
    NEURONS,
    OUTPUT,
    SHARE,
    SHARES,
    STARTED_WAIT,
    TOTAL,
    USED,
    USER,
    WAITING,
    WORK,
    Scores,
)
from allocopt.simulator.state import Events

SCORED = int(OrderKind.SCORED)
SCORES = record_type(Scores)
"""Numba type of `Scores`."""

HOUR_S, MINUTE_S, TEN_MINUTES_S = 3600.0, 60.0, 600.0
WEIGHT_OF_WAIT, WEIGHT_OF_USE = 0.01, 0.5  # weight of the newest job in running means
STARVING = np.log(10.0)  # a job starves if the logarithm of its wait over the mean wait is above this
N_OWN = 13  # number of features that differ between jobs; they come first, the others are equal for all jobs of a pass


@question
def earliest_release(state: Events) -> float:
    """Return when the waiting job that has waited longest joined the queue; infinite if no job waits."""
    raise NotImplementedError


def run_time_after(past: FloatArray, limit: float) -> float:
    """Return the predicted run time of a job in seconds, from its limit and its user's row of `Scores.history`.

    It is the mean run time of the user's last two ended jobs, or the run time of the only one, but at most the limit.
    It is the limit if none has ended (Tsafrir, Etsion and Feitelson, TPDS 2007, 10.1109/TPDS.2007.70606).
    """
    if past[N_ENDED] == 0:
        return limit
    predicted = past[LAST]
    if past[N_ENDED] > 1:
        predicted = (predicted + past[LAST_BUT_ONE]) / 2
    return float(min(predicted, limit))


_run_time_after = helper()(run_time_after)


@helper()
def _predicted_run(scores: Scores, job: int, limit: float) -> float:
    """Return the predicted run time of a job in seconds, its limit if its user is unknown."""
    user = int(scores.jobs[job, USER])
    return limit if user < 0 else _run_time_after(scores.history[user], limit)


@inlined
def planned_run(state: Events, job: int) -> float:
    """Return the planned run time of a waiting job: its estimate, or its predicted run time."""
    if state.rules[0].predicts:
        return _predicted_run(state.scores, job, state.jobs[job].estimate)
    return float(state.jobs[job].estimate)


@helper()
def _count(scores: Scores, job: int, limit: float, n_waiting: int, sign: int) -> None:
    queue, share = scores.now[WAITING], scores.jobs[job, SHARE]
    queue[LIMITS] += sign * limit
    queue[SHARES] += sign * share
    queue[WORK] += sign * limit * share
    if n_waiting == 0:
        # Remove rounding errors.
        queue[LIMITS] = queue[SHARES] = queue[WORK] = 0.0


@inlined
def count_waiting(state: Events, job: int, sign: int) -> None:
    """Add a job to the sums over waiting jobs after it joined the queue (1), or subtract it after it left (-1)."""
    if state.scores.networks.size > 0:
        _count(state.scores, job, state.jobs[job].estimate, state.clock[0].n_queued, sign)


@helper()
def _occupy(scores: Scores, job: int, sign: int) -> None:
    for resource in range(scores.jobs.shape[1] - ASKED):
        scores.now[IDLE, resource] -= sign * scores.jobs[job, ASKED + resource]


def learn_wait(queue: FloatArray, wait: float) -> None:
    """Add the wait of a job that has started, in seconds, to the row ``WAITING`` of `Scores.now`."""
    queue[N_STARTED] += 1
    queue[MEAN_WAIT] += max(WEIGHT_OF_WAIT, 1 / queue[N_STARTED]) * (wait - queue[MEAN_WAIT])


_learn_wait = helper()(learn_wait)


@inlined
def learn_of_start(state: Events, job: int) -> None:
    """Record the start of a job that has left the queue."""
    if state.scores.networks.size > 0:
        _occupy(state.scores, job, 1)
        _learn_wait(state.scores.now[WAITING], state.clock[0].now - state.jobs[job].release)
        count_waiting(state, job, -1)


def learn_run(past: FloatArray, run: float, limit: float) -> None:
    """Add the run time of a job that has ended, in seconds, to a row of `Scores.history`."""
    past[LAST_BUT_ONE], past[LAST] = past[LAST], run
    past[USED] += WEIGHT_OF_USE * (run / limit - past[USED])
    past[N_ENDED] += 1


_learn_run = helper()(learn_run)


@inlined
def learn_of_stop(state: Events, job: int) -> None:
    """Record that a job is stopped and will start again; this run is not used for predictions."""
    if state.scores.networks.size > 0:
        _occupy(state.scores, job, -1)


@inlined
def learn_of_end(state: Events, job: int) -> None:
    """Record the end of a job and its run time."""
    if state.scores.networks.size > 0:
        record = state.jobs[job]
        _occupy(state.scores, job, -1)
        user = int(state.scores.jobs[job, USER])
        if user >= 0:
            _learn_run(state.scores.history[user], state.clock[0].now - record.start, record.estimate)


@helper()
def _summarize(scores: Scores, which: int, n_waiting: int, longest_wait: float) -> None:
    now, network, n_neurons = scores.now, scores.networks[which * N_ROWS :], scores.networks.shape[1]
    queue = now[WAITING]
    queue[LN_MEAN_LIMIT] = np.log(queue[LIMITS] / n_waiting)
    queue[LN_MEAN_SHARE] = np.log(queue[SHARES] / n_waiting)
    queue[LONGEST_WAIT] = longest_wait
    queue[STARTED_WAIT] = queue[MEAN_WAIT]
    idle = 1.0
    for resource in range(scores.jobs.shape[1] - ASKED):
        now[IDLE_THEN, resource] = now[IDLE, resource]
        idle = min(idle, now[IDLE, resource] / now[TOTAL, resource])
    features = now[INPUTS]
    features[N_OWN] = np.log(queue[WORK] / HOUR_S + 0.1)
    features[N_OWN + 1] = np.log(n_waiting)
    features[N_OWN + 2] = np.log(longest_wait / HOUR_S + 0.1)
    features[N_OWN + 3] = idle
    for neuron in range(n_neurons):
        now[BIASES, neuron] = network[BIAS, neuron]
    for feature in range(N_OWN, N_FEATURES):
        for neuron in range(n_neurons):
            now[BIASES, neuron] += network[feature, neuron] * features[feature]


@inlined
def look_over_queue(state: Events, which: int) -> None:
    """Prepare scores by the network of the queue (0) or of backfilling (1): compute what is equal for all jobs."""
    if state.clock[0].n_queued > 0:
        wait = state.clock[0].now - earliest_release(state)
        _summarize(state.scores, which, state.clock[0].n_queued, wait)


@helper()
def score_of(scores: Scores, which: int, job: int, limit: float, wait: float) -> float:
    """Return the score of a job that has waited ``wait`` seconds, with the state at the last `look_over_queue`."""
    now, network, n_neurons = scores.now, scores.networks[which * N_ROWS :], scores.networks.shape[1]
    queue, x, user = now[WAITING], now[INPUTS], int(scores.jobs[job, USER])
    ln_limit, ln_share = scores.jobs[job, LN_LIMIT], scores.jobs[job, LN_SHARE]
    ln_predicted, ln_wait = np.log(_predicted_run(scores, job, limit)), np.log(wait + MINUTE_S)
    x[0] = ln_limit
    x[1] = ln_share
    x[2] = ln_predicted
    x[3] = ln_wait
    x[4] = ln_wait - ln_limit
    x[5] = ln_wait - ln_predicted
    x[6] = ln_limit - queue[LN_MEAN_LIMIT]
    x[7] = ln_share - queue[LN_MEAN_SHARE]
    x[8] = wait / queue[LONGEST_WAIT] if queue[LONGEST_WAIT] > 0 else 0.0
    x[9] = scores.history[user, USED] if user >= 0 else 0.5
    x[10] = 1.0
    for resource in range(scores.jobs.shape[1] - ASKED):
        if scores.jobs[job, ASKED + resource] > now[IDLE_THEN, resource]:
            x[10] = 0.0
    x[11] = np.log((wait + TEN_MINUTES_S) / (queue[STARTED_WAIT] + TEN_MINUTES_S))
    x[12] = max(0.0, x[11] - STARVING)
    neurons = now[NEURONS]
    for neuron in range(n_neurons):
        neurons[neuron] = now[BIASES, neuron]
    for feature in range(N_OWN):
        for neuron in range(n_neurons):
            neurons[neuron] += network[feature, neuron] * x[feature]
    score = network[OUTPUT, 0] * neurons[0]
    for neuron in range(1, n_neurons):
        score += network[OUTPUT, neuron] * neurons[neuron] / (1.0 + abs(neurons[neuron]))
    return float(score)


@kernel(void(SCORES, float64[::1], float64[::1], float64[::1]))
def score_queue(scores: Scores, limit: FloatArray, wait: FloatArray, found: FloatArray) -> None:
    """Write into ``found`` the scores of jobs that wait together, from their limits and waits in seconds.

    All arrays have shape ``(n,)``.
    """
    longest = 0.0
    for job in range(limit.size):
        _count(scores, job, limit[job], job + 1, 1)
        longest = max(longest, wait[job])
    _summarize(scores, 0, limit.size, longest)
    for job in range(limit.size):
        found[job] = score_of(scores, 0, job, limit[job], wait[job])
