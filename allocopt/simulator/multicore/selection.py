"""Which job is next and which core it gets, by the selections of `policies`."""

from allocopt.kernels.compiled import inlined
from allocopt.kernels.random import STEP, mixed_bits, unit_interval
from allocopt.simulator.kernels.queue import dequeue, queued
from allocopt.simulator.multicore.policies import JobSelection, NodeSelection
from allocopt.simulator.multicore.state import IDLE, Multicore
from allocopt.simulator.state import State

RANDOM_JOB, FIRST = int(JobSelection.RANDOM), int(JobSelection.FIRST)
RANDOM_NODE, HIGH_GFLOPS, HIGH_CORES = (int(NodeSelection[n]) for n in ("RANDOM", "HIGH_GFLOPS", "HIGH_CORES"))
HIGH_MEM, HIGH_MEM_BW = int(NodeSelection.HIGH_MEM), int(NodeSelection.HIGH_MEM_BW)

ROUNDING = 1e-9
"""What values must differ by to be different, as a share of 1 + value: sums depend on the order of the tasks."""


@inlined
def draw_below(multicore: Multicore, count: int) -> int:
    """Draw a whole number from 0 to below ``count``."""
    multicore.word[0] += STEP
    return int(unit_interval(mixed_bits(multicore.word[0])) * count)


@inlined
def next_place(state: State, multicore: Multicore, selection: int) -> int:
    """Place in the queue, counted from its head, of the job that is next; the queue is not empty."""
    n_queued, tally = state.clock[0].n_queued, multicore.tally[0]
    if selection == FIRST:
        return 0
    if selection == RANDOM_JOB:
        return draw_below(multicore, n_queued)
    if tally.sought_by != selection:
        tally.sought_by, tally.sought, tally.best = selection, 1, 0
    lowest = multicore.values[selection, queued(state, tally.best)]
    while tally.sought < n_queued:
        value = multicore.values[selection, queued(state, tally.sought)]
        if value < lowest:
            tally.best, lowest = tally.sought, value
        tally.sought += 1
    return int(tally.best)


@inlined
def leave_queue(state: State, multicore: Multicore, place: int) -> None:
    """Take the job at a place out of the queue; what was searched of it stays known unless that was the next one."""
    tally = multicore.tally[0]
    dequeue(state, place)
    if place == tally.best:
        tally.sought_by = IDLE
    if place < tally.best:
        tally.best -= 1
    if place < tally.sought:
        tally.sought -= 1


@inlined
def may_host(multicore: Multicore, job: int, node: int) -> bool:
    """Whether a node can take the tasks that a job puts on one node, and has none of them."""
    record, wanted = multicore.nodes[node], multicore.jobs[job]
    if wanted.fixed_node != IDLE and wanted.fixed_node != node:
        return False
    memory = wanted.per_node * wanted.memory_mb
    return bool(record.taken_by != job and record.free_cores >= wanted.per_node and record.free_mb >= memory)


@inlined
def fits(multicore: Multicore, job: int) -> bool:
    """Whether a job can start now."""
    missing = multicore.jobs[job].nodes
    for node in range(multicore.nodes.size):
        if may_host(multicore, job, node):
            missing -= 1
            if missing == 0:
                return True
    return False


@inlined
def processor_value(multicore: Multicore, selection: int, processor: int) -> float:
    """Value of the idle cores of a processor; the lowest is next."""
    record = multicore.processors[processor]
    if selection == HIGH_GFLOPS:
        return float(-record.speed)
    if selection == HIGH_CORES:
        return float(-multicore.nodes[record.node].free_cores)
    if selection == HIGH_MEM:
        return float(-multicore.nodes[record.node].free_mb)
    if selection == HIGH_MEM_BW:
        return float(record.demand - record.bandwidth)
    return float((record.processor_w if record.active else record.idle_w) / record.cores)


@inlined
def _may_take(multicore: Multicore, job: int, node: int, processor: int) -> bool:
    """Whether a processor has an idle core on a node, or on any node that can host a job where none is given."""
    record = multicore.processors[processor]
    if record.active == record.cores:
        return False
    return bool(record.node == node) if node != IDLE else may_host(multicore, job, record.node)


@inlined
def random_processor(multicore: Multicore, job: int, node: int) -> int:
    """Draw an idle core and return its processor: on a node, or on any one that can host a job where none is given."""
    idle = 0
    for processor in range(multicore.processors.size):
        if _may_take(multicore, job, node, processor):
            idle += multicore.processors[processor].cores - multicore.processors[processor].active
    drawn = draw_below(multicore, idle)
    for processor in range(multicore.processors.size):
        if _may_take(multicore, job, node, processor):
            drawn -= multicore.processors[processor].cores - multicore.processors[processor].active
            if drawn < 0:
                return processor
    return IDLE


@inlined
def next_processor(multicore: Multicore, selection: int, job: int, node: int) -> int:
    """Processor whose idle core is next: on a node, or on any one that can host a job where none is given."""
    if selection == RANDOM_NODE:
        return random_processor(multicore, job, node)
    best, lowest = IDLE, 0.0
    for processor in range(multicore.processors.size):
        if not _may_take(multicore, job, node, processor):
            continue
        value = processor_value(multicore, selection, processor)
        if best == IDLE or value < lowest - ROUNDING * (1.0 + abs(lowest)):
            best, lowest = processor, value
    return best
