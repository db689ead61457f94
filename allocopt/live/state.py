"""Writes the state of a cluster and of its service into a journal, for other processes to read.

An event ``state`` is complete, so that a reader may begin there. A ``look`` holds the changes since the last ``state``
or ``look``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.live.journal import Journal
from allocopt.live.slurm import WAITING, Look, SlurmJob

STATE_S = 600.0
"""Seconds after which the complete state is written again."""
LOOK_S = 10.0
"""Seconds after which a look is written even if nothing has changed."""


@dataclass(slots=True)
class StateWriter:
    """Writes the changes that looks at a cluster show into a journal. ``about`` describes the service."""

    about: Mapping[str, object] = field(default_factory=dict)
    _files: int = 0
    _jobs: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _away: Mapping[str, str] = field(default_factory=dict)
    _cluster: Cluster | None = None
    _state_s: float = 0.0
    _look_s: float = 0.0

    def write(self, journal: Journal, look: Look) -> None:
        """Write what has changed since the last look."""
        journal.totals.looks += 1
        is_new = look.cluster is not self._cluster or journal.files != self._files
        is_whole = is_new or _is_over(look, self._state_s, STATE_S)
        before = {} if is_whole else self._jobs
        there = [job for job in look.jobs if job.state == "PENDING" or job.state in RUNNING]
        # Priorities are not compared, because all of them grow with age: they are updated with the next state.
        self._jobs = {
            job.id: (
                job.state,
                job.reason in WAITING or job.reason,
                job.admin_comment,
                job.required,
                len(job.allocated),
            )
            for job in there
        }
        told: dict[str, object] = {}
        if new := {job.id: _about(job) for job in there if self._jobs[job.id] != before.get(job.id)}:
            told["jobs"] = new
        if gone := [job for job in before if job not in self._jobs]:
            told["gone"] = gone
        if is_whole or look.away != self._away:
            told["away"] = {
                state: fold_hostlist(sorted(name for name, each in look.away.items() if each == state))
                for state in sorted(set(look.away.values()))
            }
        if is_whole:
            journal.write(
                "state", look.now_s, **self.about, **told, totals=asdict(journal.totals), **_tree(look.cluster)
            )
            self._state_s = look.now_s
        elif told or _is_over(look, self._look_s, LOOK_S):
            journal.write("look", look.now_s, looks=journal.totals.looks, **told)
        else:
            return
        self._look_s, self._away, self._cluster, self._files = look.now_s, look.away, look.cluster, journal.files


def _is_over(look: Look, since_s: float, seconds: float) -> bool:
    # The clock may have been set back.
    return not 0 <= look.now_s - since_s < seconds


def _about(job: SlurmJob) -> dict[str, object]:
    """Return the journal's record of a job, without empty values."""
    waits = job.state == "PENDING"
    asked = job.request
    if waits:
        state = "pinned" if job.is_pinned else "held" if job.is_delayed else "waiting"
    else:
        state = job.state.lower()
    told = {
        "state": state,
        "name": job.name,
        "user": job.user,
        "partition": job.partition,
        "size": len(job.allocated) or (asked.least_nodes if asked is not None else None),
        # Nodes that the user names are not the job's yet; nodes of a pin are.
        "on": fold_hostlist(job.allocated) if not waits else job.required if job.is_pinned else "",
        "start_s": 0 if waits else job.start_s,
        "priority": job.own_priority if waits else 0,
        "why": "" if job.reason in WAITING or not waits else job.reason,
    }
    return {key: value for key, value in told.items() if value}


def _tree(cluster: Cluster) -> dict[str, object]:
    names, tree = cluster.topology.nodes, cluster.topology.tree
    leaves, *above = tree.to_levels()
    listed = fold_hostlist(names)
    return {
        # Readers number the nodes in this order, so folding must not change it.
        "nodes": listed if expand_hostlist(listed) == list(names) else ",".join(names),
        "levels": [{leaf: fold_hostlist(names[int(node)] for node in held) for leaf, held in leaves.items()}, *above],
        "hops": list(tree.hops),
    }
