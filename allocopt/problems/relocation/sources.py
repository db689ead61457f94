"""Sources of relocation problems of real clusters: a reader for the files of each system.

A source decides from the files whether it reads them. `SOURCES` lists the sources in the order in which they are tried.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from allocopt.cluster import kai
from allocopt.cluster.foreign import foreign_object
from allocopt.cluster.named import NamedTree
from allocopt.cluster.objects import System, system_of
from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.reading import read_cluster, read_object
from allocopt.cluster.slurm_tables import is_sinfo
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file
from allocopt.files.reading import read_text, without_compression
from allocopt.problems.relocation.aims import Aims
from allocopt.problems.relocation.problem import Relocation, RelocationProblem

_OBJECTS = (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class GivenFiles:
    """The files of a cluster, and of its jobs or pods, as a user gives them.

    Parameters
    ----------
    cluster
        Files of the cluster.
    queue
        File of jobs or pods, None for none.
    labels, include
        Labels of the levels, and the reasons for taking no jobs that are ignored; see `read_cluster`.
    """

    cluster: tuple[Path, ...]
    queue: Path | None = None
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the problem."""
        return (self.queue or self.cluster[0]).stem

    @property
    def shown(self) -> str:
        """Names of the files, for messages."""
        return ",".join(map(str, self.cluster if self.queue is None else (self.queue,)))

    @cached_property
    def objects(self) -> tuple[tuple[Path, object], ...]:
        """Each file, with its contents if its name or beginning is that of JSON, YAML or an archive, otherwise None."""
        paths = (*self.cluster, *((self.queue,) if self.queue else ()))
        return tuple((path, _object_in(path)) for path in paths)


def _object_in(path: Path) -> object:
    if kai.is_archive(path):
        return kai.archived(path)
    is_object = without_compression(path.name.lower()).endswith(_OBJECTS) and path.is_file()
    return read_object(path) if is_object else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A relocation problem of a cluster, and functions that describe its plan.

    Parameters
    ----------
    problem
        The problem.
    nodes
        Names of its nodes.
    remarks
        Lines about what was counted and what was assumed, with the names of the files.
    commands
        Function that returns the commands that carry out a plan.
    members
        Function that returns the members of a job, such as the names of its pods; empty if it has none.
    notes
        Function that returns notes on what an operator has to watch when a plan is carried out.
    """

    problem: RelocationProblem
    nodes: NamedTree
    remarks: tuple[str, ...]
    commands: Callable[[Relocation], list[str]]
    members: Callable[[str], list[str]] = lambda _: []
    notes: Callable[[Relocation], list[str]] = lambda _: []

    def hostlists(self, solution: Relocation) -> dict[str, str]:
        """Return the hostlist of every job that has nodes at the end."""
        ends = self.problem.ends(solution)
        return {job: self.nodes.hostlist([node for node, _ in places]) for job, places in ends.items()}


class Source(Protocol):
    """A reader of the files of one system."""

    name: str

    def reads(self, files: GivenFiles) -> bool:
        """Return whether this source reads the files."""

    def snapshot(self, files: GivenFiles, aims: Aims) -> Snapshot:
        """Return the problem; raise `BadFileError` or `UsageError` as the readers of these files do."""


class KubernetesFiles:
    """Source for the output of ``kubectl get nodes,pods -A -o json``, in one file or several."""

    name = "Kubernetes"

    def reads(self, files: GivenFiles) -> bool:
        """Return whether a file of the cluster holds objects of Kubernetes."""
        return any(_is_kubernetes(obj) for _, obj in files.objects[: len(files.cluster)])

    def snapshot(self, files: GivenFiles, aims: Aims) -> Snapshot:
        """Return the problem of nodes and pods; the queue, if there is one, holds pods."""
        from allocopt.problems.relocation.kubernetes import kubernetes_relocation

        given = [(path, self._listed(obj, path)) for path, obj in files.objects]
        found = kubernetes_relocation(given, aims, files.name, files.labels, files.include)
        return Snapshot(
            problem=found.problem,
            nodes=found.nodes,
            remarks=tuple(f"{files.shown}: {remark}" for remark in found.remarks),
            commands=found.commands,
            members=found.pods_of,
            notes=found.notes,
        )

    def _listed(self, obj: object, path: Path) -> Mapping[str, Any]:
        if kai.is_snapshot(obj):
            return kai.kubernetes_list(obj, path)
        if (told := foreign_object(obj)) is not None:
            raise bad_file(path, f"{told}; {_RIGHT}")
        if not isinstance(obj, Mapping) or not _is_kubernetes(obj):
            raise bad_file(path, f"holds no objects of Kubernetes; {_RIGHT}")
        return obj


_RIGHT = "give what `kubectl get nodes,pods -A -o json` prints"


class KaiFiles(KubernetesFiles):
    """Source for snapshots of the KAI scheduler, which hold objects of Kubernetes; more objects may be given."""

    name = "KAI"

    def reads(self, files: GivenFiles) -> bool:
        """Return whether a file of the cluster is a snapshot, zipped or not."""
        return any(kai.is_snapshot(obj) or kai.is_archive(path) for path, obj in files.objects[: len(files.cluster)])


class SlurmFiles:
    """Source for the files or output of Slurm; needs a queue as well.

    It is tried last and claims all files; its readers refuse those that are not Slurm's.
    """

    name = "Slurm"

    def reads(self, files: GivenFiles) -> bool:
        """Return True, because this source is tried last."""
        return True

    def snapshot(self, files: GivenFiles, aims: Aims) -> Snapshot:
        """Return the problem of a cluster and the jobs of its queue."""
        from allocopt.problems.relocation.snapshot import slurm_commands, snapshot

        cluster = read_cluster(files.cluster, files.labels, include_unavailable=files.include)
        if files.queue is None:
            raise UsageError("--queue is missing: give what `scontrol show job` prints")
        jobs = read_queue(files.queue)
        problem, remarks = snapshot(cluster, jobs, aims, files.name)
        whole = cluster.complete or cluster
        of_cluster = [f"{','.join(map(str, files.cluster))}: {one}" for one in (cluster.summary(), *cluster.remarks)]
        if _hides_states(files):
            fault = "the files do not say which nodes are drained or down"
            of_cluster.append(f"{','.join(map(str, files.cluster))}: {fault}; `scontrol show node` prints it")
        of_jobs = [f"{files.queue}: {one}" for one in (*jobs.remarks, *remarks)]

        def commands(solution: Relocation) -> list[str]:
            return slurm_commands(solution.steps, found.hostlists(solution), aims.drained)

        found = Snapshot(problem, whole.topology, (*of_cluster, *of_jobs), commands)
        return found


def _hides_states(files: GivenFiles) -> bool:
    """Return whether the cluster is given only by Slurm's configuration, which does not hold the states of nodes.

    Pipes are not checked, because they cannot be read twice.
    """
    paths = [path for path, obj in files.objects[: len(files.cluster)] if obj is None and path.is_file()]
    if len(paths) < len(files.cluster):
        return False
    texts = [read_text(path) for path in paths if path.suffix not in (".graphml", ".csv")]
    is_configured = any(re.search(r"^\s*NodeName\s*=", text, re.MULTILINE | re.IGNORECASE) for text in texts)
    return is_configured and not any("CPUAlloc=" in text or is_sinfo(text) for text in texts)


SOURCES: Sequence[Source] = (KaiFiles(), KubernetesFiles(), SlurmFiles())
"""The sources, in the order in which they are tried."""


def snapshot_of(files: GivenFiles, aims: Aims) -> Snapshot:
    """Return the problem of a cluster from the first source that reads its files."""
    return next(source for source in SOURCES if source.reads(files)).snapshot(files, aims)


def _is_kubernetes(obj: object) -> bool:
    if not isinstance(obj, Mapping) or system_of(obj) is not System.KUBERNETES or kai.is_snapshot(obj):
        return False
    return "apiVersion" in obj or "kind" in obj or isinstance(obj.get("items"), list)
