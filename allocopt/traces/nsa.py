"""The workload text of the NSA paper's authors: a line per job with its id, arrival s, run time s and nodes."""

from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.traces.records import Damage, Records, TraceFormat, rows_of
from allocopt.traces.table import Table
from allocopt.traces.workload import Workload

_COLUMNS = {"job": (1, "job id"), "submit": (2, "arrival time"), "run": (3, "run time"), "nodes": (4, "nodes")}


class Nsa(TraceFormat):
    """The text format of the NSA paper's authors: whole nodes, and no estimates, for which the run times stand."""

    def read(self, path: Path, damage: Damage) -> Workload:
        table = Table.read(path, _COLUMNS, ("job", "nodes"), 4, damage, may_have_more=False)
        ids, run, nodes = table.integers("job"), table.numbers("run"), table.integers("nodes")
        return Records(path, table.error, ids, table.numbers("submit"), run, nodes, run, {}).workload(damage)

    def write(self, path: Path, workload: Workload) -> None:
        lines = (f"{row.job}  {row.submit}  {row.run}  {row.processors}\n" for row in rows_of(path, workload))
        write_text(path, "".join(lines))

    def losses(self, workload: Workload) -> list[str]:
        losses = []
        if differ := int((workload.estimate != workload.run).sum()):
            losses.append(f"estimates lost, the format has none: {differ}")
        if workload.machine_processors is not None:
            losses.append(f"size of the machine lost, the format has none: {workload.machine_processors}")
        return losses + super().losses(workload)
