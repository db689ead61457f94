"""Turns the amounts that a record states into a job's request for nodes of a cluster."""

import math
from dataclasses import dataclass

from allocopt.cluster.request import COUNTED_NODES, Constraint, Request
from allocopt.errors import InvalidProblemError

OF_JOB, OF_NODE, OF_TASK, OF_CORE = "job", "node", "task", "core"
"""Units that an amount may refer to, as in "per node"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Amounts that a job asked for, 0 if unknown.

    Parameters
    ----------
    nodes, processors, tasks
        Totals of the job. If ``tasks`` is 0, it is processors divided by ``cores_per_task``.
    most_nodes
        Upper end of the range, if the job asked for a range of nodes.
    is_spread
        Whether tasks are spread evenly over the nodes. True if ``nodes`` are those that the job had.
    is_share
        Whether the processors belong to one task on one node, such as a pod, and may be fractions.
    gpus, gpus_of
        Numbers by type, "" for any type; and whether they are per job, node or task.
    memory_mib, memory_of
        Memory, and whether it is per job, node, task or core.
    is_all_memory
        Whether the job asks for all memory of its nodes (``--mem=0``).
    """

    nodes: float = 0.0
    most_nodes: float = 0.0
    processors: float = 0.0
    tasks: float = 0.0
    tasks_per_node: float = 0.0
    cores_per_task: float = 0.0
    is_spread: bool = True
    is_share: bool = False
    gpus: tuple[tuple[str, float], ...] = ()
    gpus_of: str = OF_JOB
    memory_mib: float = 0.0
    memory_of: str = OF_JOB
    is_all_memory: bool = False
    partition: str = ""
    constraint: str = ""
    excluded: str = ""
    required: str = ""
    is_exclusive: bool = False

    def request(self) -> Request:
        """Return the request; raise `ValueError` if a number is out of range."""
        cores = self.processors if self.is_share else self.cores_per_task or 1.0
        tasks = 1 if self.is_share else int(self.tasks or self.processors // cores) or None
        count = 1 if self.is_share else int(self.nodes) or None
        tasks_per_node = int(self.tasks_per_node) or None
        if self.is_spread and not tasks_per_node and count and tasks and tasks % count == 0:
            tasks_per_node = tasks // count
        gpus = tuple((kind, amount) for kind, amount in self.gpus if amount)
        per_node, per_task = (gpus, ()) if self.gpus_of == OF_NODE else ((), gpus)
        if self.gpus_of == OF_JOB and gpus:
            divides = bool(tasks) and all(amount % (tasks or 1) == 0 for _, amount in gpus)
            if count is None and divides:
                per_task = tuple((kind, amount / (tasks or 1)) for kind, amount in gpus)
            else:
                count = count or 1
                whole = gpus if count == 1 else tuple((kind, float(math.ceil(n / count))) for kind, n in gpus)
                per_node, per_task = whole, ()
        memory, of = self.memory_mib, self.memory_of
        if of == OF_TASK:
            memory, of = memory / max(cores, 1e-9), OF_CORE
        elif of == OF_JOB and count:
            memory /= count
        try:
            return Request(
                tasks,
                count or 1,
                int(max(count, self.most_nodes)) if count else None,
                tasks_per_node,
                cores if tasks else 0.0,
                0 if self.is_all_memory else None if of == OF_CORE else math.ceil(memory) or None,
                math.ceil(memory) or None if of == OF_CORE else None,
                per_node,
                per_task,
                self.partition or None,
                None if self.not_modelled() else self.constraint or None,
                self.excluded,
                self.required,
                self.is_exclusive or not (tasks or gpus),
            )
        except InvalidProblemError as error:
            raise ValueError(error.fault) from None

    def not_modelled(self) -> tuple[str, ...]:
        """Return the names of demands that cannot be modelled, such as a constraint that counts nodes."""
        if not self.constraint:
            return ()
        try:
            Constraint.parse(self.constraint)
        except InvalidProblemError:
            return (COUNTED_NODES if "*" in self.constraint else f"the constraint {self.constraint}",)
        return ()
