"""The policies of IRMaSim (Table II): 36 pairs of a job selection and a core selection, and doing nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum

from allocopt.errors import UsageError

# Meaning of ``fcfs`` on a multicore machine.
DEFAULT_NAME = "first-high_gflops"
VOID_NAME = "void"
# Selections only for kernels: nothing; and every job that fits, even if earlier ones do not.
VOID, EVERY = -1, -2


class JobSelection(IntEnum):
    """Which waiting job is next; among equal ones the one submitted first."""

    RANDOM = 0
    FIRST = 1
    # Lowest estimate, number of tasks, memory per task, and requested bandwidth per task (volume over estimate).
    SHORTEST = 2
    SMALLEST = 3
    LOW_MEM = 4
    LOW_MEM_BW = 5


class NodeSelection(IntEnum):
    """Which idle core is next; among equal ones the one with the lowest number."""

    RANDOM = 0
    # Most operations per second of the core; most idle cores, and most free memory, of its node.
    HIGH_GFLOPS = 1
    HIGH_CORES = 2
    HIGH_MEM = 3
    HIGH_MEM_BW = 4  # most memory bandwidth of its processor that is not requested
    # Lowest power of its processor now, divided by the number of cores: idle power, or if a core is active, the power
    # that active cores share.
    LOW_POWER = 5


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a policy at a scheduling point: start waiting jobs by a pair of selections, or do nothing."""

    jobs: JobSelection | None = None  # None for the void action
    nodes: NodeSelection | None = None

    def __post_init__(self) -> None:
        if (self.jobs is None) != (self.nodes is None):
            raise UsageError("an action must select both jobs and nodes, or neither")

    @property
    def name(self) -> str:
        """Name, such as ``shortest-high_gflops``, or ``void``."""
        if self.jobs is None or self.nodes is None:
            return VOID_NAME
        return f"{self.jobs.name.lower()}-{self.nodes.name.lower()}"

    @property
    def codes(self) -> tuple[int, int]:
        """The selections as numbers for kernels."""
        return (VOID, VOID) if self.jobs is None or self.nodes is None else (int(self.jobs), int(self.nodes))

    @staticmethod
    def named(name: str) -> "Action":
        """Return an action by its name; ``fcfs`` means `DEFAULT_NAME`, and ``high_core`` means ``high_cores``."""
        wanted = DEFAULT_NAME if name == "fcfs" else f"{name}s" if name.endswith("-high_core") else name
        if wanted in ACTION_NAMES:
            return ACTIONS[ACTION_NAMES.index(wanted)]
        close = get_close_matches(wanted, ACTION_NAMES, n=1)
        jobs = ", ".join(selection.name.lower() for selection in JobSelection)
        nodes = ", ".join(selection.name.lower() for selection in NodeSelection)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else f"it must be void or JOBS-NODES, with JOBS one of {jobs} and NODES one of {nodes}"
        )
        raise UsageError(f"there is no policy {name!r} for a multicore platform; {hint}")

    @staticmethod
    def several(names: Iterable[str] | None = None) -> "tuple[Action, ...]":
        """Return actions by their names, which must be distinct, in this order; all 37 if none are given."""
        if names is None:
            return ACTIONS
        chosen = tuple(Action.named(name) for name in names)
        if not chosen or len(set(chosen)) < len(chosen):
            raise UsageError("the set of policies is empty or has a policy twice; give distinct policies")
        return chosen


ACTIONS = (*(Action(jobs, nodes) for jobs in JobSelection for nodes in NodeSelection), Action())
"""All 37 actions, the void action last."""
ACTION_NAMES = tuple(action.name for action in ACTIONS)
