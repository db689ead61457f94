"""How fast tasks run and what power processors draw, until a task starts or ends."""

from numba import float64, int64, void

from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.kernels.events import change_speed
from allocopt.simulator.multicore.contention import factor_of
from allocopt.simulator.multicore.state import IDLE, MULTICORE, Multicore
from allocopt.simulator.state import State


@inlined
def core_power(multicore: Multicore, processor: int, factor: float) -> float:
    """Power in watts that an active core draws itself, at a speed factor."""
    record = multicore.processors[processor]
    return float(record.core_w * (record.stalled + (1.0 - record.stalled) * factor))


@kernel(void(MULTICORE, int64, float64), forceinline=True)
def count_energy(multicore: Multicore, processor: int, now: float) -> None:
    """Count the energy of a processor and its tasks up to now: powers are constant since the last time."""
    record = multicore.processors[processor]
    seconds = now - record.changed
    record.changed = now
    if seconds <= 0.0:
        return
    record.energy += seconds * record.power
    if record.active == 0:
        return
    shared = record.processor_w / record.active
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task != IDLE:
            power = core_power(multicore, processor, multicore.tasks[task].factor) + shared
            multicore.tasks[task].energy += seconds * power


@inlined
def touch(multicore: Multicore, processor: int, now: float) -> None:
    """Count a processor's energy before something changes there, and note that its speeds have to be set."""
    count_energy(multicore, processor, now)
    record, tally = multicore.processors[processor], multicore.tally[0]
    if not record.dirty:
        record.dirty = 1
        multicore.dirty[tally.n_dirty] = processor
        tally.n_dirty += 1


@inlined
def _add_demands(multicore: Multicore, processor: int) -> None:
    """Add up anew what the tasks of a processor ask for, so that no rounding error stays."""
    record = multicore.processors[processor]
    record.demand = 0.0
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task != IDLE:
            record.demand += multicore.tasks[task].intensity * record.speed


@inlined
def set_factors(multicore: Multicore, processor: int) -> None:
    """Set the speed factors of the tasks of a processor, and its power."""
    record, sharing = multicore.processors[processor], multicore.tally[0].sharing
    _add_demands(multicore, processor)
    if record.active == 0:
        record.power = record.idle_w
        return
    record.power = record.processor_w
    others = float(record.active - 1)
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task == IDLE:
            continue
        rate = multicore.tasks[task].intensity * record.speed
        factor = factor_of(
            rate,
            record.demand,
            others,
            sharing,
            record.b,
            record.c,
            record.da,
            record.db,
            record.dc,
            record.dd,
        )
        multicore.tasks[task].factor = factor
        record.power += core_power(multicore, processor, factor)


@inlined
def set_speeds(state: State, multicore: Multicore, processor: int) -> None:
    """Let the tasks of a processor go on at the speeds of their factors."""
    record = multicore.processors[processor]
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task != IDLE and state.jobs[task].speed != multicore.tasks[task].factor * record.speed:
            change_speed(state, task, multicore.tasks[task].factor * record.speed)


@inlined
def preview(multicore: Multicore) -> None:
    """Set factors and powers wherever tasks have started or ended, but no speeds: others may start before time goes on.

    A speed that changes and changes back would move the end by a rounding error, and no longer to that of its twins.
    """
    for at in range(multicore.tally[0].n_dirty):
        set_factors(multicore, multicore.dirty[at])


@inlined
def settle(state: State, multicore: Multicore) -> None:
    """Set speeds and powers wherever tasks have started or ended."""
    tally = multicore.tally[0]
    for at in range(tally.n_dirty):
        processor = multicore.dirty[at]
        multicore.processors[processor].dirty = 0
        set_factors(multicore, processor)
        set_speeds(state, multicore, processor)
    tally.n_dirty = 0
