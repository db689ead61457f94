"""The policies of IRMaSim (Table II): which job starts next, and on which cores; 36 pairs, and to do nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum

from allocopt.errors import UsageError

# What ``fcfs`` is on a multicore machine.
DEFAULT_NAME = "first-high_gflops"
VOID_NAME = "void"
# Selections for kernels only: nothing, and every job that fits, whichever wait before it.
VOID, EVERY = -1, -2


class JobSelection(IntEnum):
    """Which waiting job is next; of equal ones, the one that was submitted first."""

    RANDOM = 0
    FIRST = 1
    # By estimate, number of tasks, memory of a task, and the bandwidth that one asks for: volume over estimate.
    SHORTEST = 2
    SMALLEST = 3
    LOW_MEM = 4
    LOW_MEM_BW = 5


class NodeSelection(IntEnum):
    """Which idle core is next; of equal ones, that with the lowest number."""

    RANDOM = 0
    # By the operations per second of the core, and by the idle cores and the free memory of its node.
    HIGH_GFLOPS = 1
    HIGH_CORES = 2
    HIGH_MEM = 3
    HIGH_MEM_BW = 4  # by the memory bandwidth of its processor that is not asked for
    LOW_POWER = 5  # by what it draws now: its share of an idle processor's power, or of what active cores share


@dataclass(frozen=True, slots=True)
class Action:
    """What a policy does at a scheduling point: start waiting jobs by one pair of selections, or nothing."""

    jobs: JobSelection | None = None  # None for the void action
    nodes: NodeSelection | None = None

    def __post_init__(self) -> None:
        if (self.jobs is None) != (self.nodes is None):
            raise UsageError("an action selects jobs and nodes, or is void")

    @property
    def name(self) -> str:
        """Name as in ``shortest-high_gflops``, or ``void``."""
        if self.jobs is None or self.nodes is None:
            return VOID_NAME
        return f"{self.jobs.name.lower()}-{self.nodes.name.lower()}"

    @property
    def codes(self) -> tuple[int, int]:
        """The selections as kernels take them."""
        return (VOID, VOID) if self.jobs is None or self.nodes is None else (int(self.jobs), int(self.nodes))

    @staticmethod
    def named(name: str) -> "Action":
        """Return the action of a name; ``fcfs`` is `DEFAULT_NAME`, and ``high_core`` the same as ``high_cores``."""
        wanted = DEFAULT_NAME if name == "fcfs" else f"{name}s" if name.endswith("-high_core") else name
        if wanted in ACTION_NAMES:
            return ACTIONS[ACTION_NAMES.index(wanted)]
        close = get_close_matches(wanted, ACTION_NAMES, n=1)
        jobs = ", ".join(selection.name.lower() for selection in JobSelection)
        nodes = ", ".join(selection.name.lower() for selection in NodeSelection)
        hint = f"did you mean {close[0]!r}?" if close else f"it must be void or JOBS-NODES, of {jobs} and {nodes}"
        raise UsageError(f"there is no policy {name!r} of a multicore platform; {hint}")

    @staticmethod
    def several(names: Iterable[str] | None = None) -> "tuple[Action, ...]":
        """Return the actions of some names, which differ, in their order; all 37 where none are given."""
        if names is None:
            return ACTIONS
        chosen = tuple(Action.named(name) for name in names)
        if not chosen or len(set(chosen)) < len(chosen):
            raise UsageError("a set of policies holds at least one, and none twice")
        return chosen


ACTIONS = (*(Action(jobs, nodes) for jobs in JobSelection for nodes in NodeSelection), Action())
"""All 37, the void action last."""
ACTION_NAMES = tuple(action.name for action in ACTIONS)
