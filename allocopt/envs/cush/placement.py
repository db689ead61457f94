"""Which units of which nodes a job gets: depth-first and breadth-first, as the simulator's allocators give them."""

from allocopt.arrays import IntArray
from allocopt.envs.cush.batch import Episode
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.locality import Policy

DEPTH_FIRST = int(Policy.DEPTH_FIRST)


@inlined
def _hold(episode: Episode, job: int, unit: int) -> None:
    """Give a unit to a job."""
    episode.holder[unit] = job
    episode.until[unit] = episode.end[job]


@inlined
def _fill(episode: Episode, job: int, first: int, end: int, wanted: int) -> None:
    """Take the first free units."""
    now, unit = episode.tally[0].now, first
    while wanted > 0 and unit < end:
        if episode.until[unit] <= now:
            _hold(episode, job, unit)
            wanted -= 1
        unit += 1


@inlined
def _level(episode: Episode, first: int, width: int, wanted: int) -> int:
    """Count free units per node; return how many every node, or all it has, gives without giving more than wanted."""
    now, until, count = episode.tally[0].now, episode.until, episode.room
    for node in range(count.size):
        free = 0
        for unit in range(first + node * width, first + (node + 1) * width):
            free += until[unit] <= now
        count[node] = free
    level, given = 0, 0
    while level < width:
        more = 0
        for node in range(count.size):
            more += count[node] > level
        if given + more > wanted:
            break
        given += more
        level += 1
    return level


@inlined
def _spread(episode: Episode, job: int, first: int, width: int, wanted: int) -> None:
    """Take units from all nodes alike; what is over comes from the first ones."""
    level, count, now = _level(episode, first, width, wanted), episode.room, episode.tally[0].now
    over = wanted
    for node in range(count.size):
        over -= min(count[node], level)
    for node in range(count.size):
        take = min(count[node], level)
        if count[node] > level and over > 0:
            take += 1
            over -= 1
        unit = first + node * width
        while take > 0:
            if episode.until[unit] <= now:
                _hold(episode, job, unit)
                take -= 1
            unit += 1


@helper()
def place(episode: Episode, job: int, policy: int) -> None:
    """Give a job its CPUs and GPUs, until its end."""
    nodes, cpus, gpus = episode.terms[0].nodes, episode.terms[0].cpus, episode.terms[0].gpus
    if policy == DEPTH_FIRST:
        _fill(episode, job, 0, nodes * cpus, episode.request[job, 0])
        _fill(episode, job, nodes * cpus, nodes * (cpus + gpus), episode.request[job, 1])
    else:
        _spread(episode, job, 0, cpus, episode.request[job, 0])
        _spread(episode, job, nodes * cpus, gpus, episode.request[job, 1])


def units_of(holder: IntArray, until: IntArray, now: int, nodes: int, cpus: int) -> tuple[IntArray, IntArray]:
    """Return who holds each CPU and GPU now, -1 for nobody, shapes ``(nodes, cpus)`` and ``(nodes, gpus)``."""
    held = holder.copy()
    held[until <= now] = -1
    return held[: nodes * cpus].reshape(nodes, cpus), held[nodes * cpus :].reshape(nodes, -1)
