"""Tables 2 and 3 and Figure 3: the same simulations, three views."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.traces.applications import APPLICATIONS
from learned.asax.reproduction.published import MAKESPAN_CHANGE, TABLE_THREE, TABLE_TWO
from learned.asax.reproduction.runs import measured, parsed, piece_of, pieces

Runs = Sequence[Mapping[str, float]]
REFERENCE = "space-sharing"
CEILING = "coallocation-scip"


class _View:
    """What the three have in common: their simulations."""

    name: ClassVar[str]
    title: ClassVar[str]

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return clusters and methods."""
        return pieces()

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate the queues of all seeds."""
        return measured(request, piece)

    def _row(self, row: str, column: str, values: Sequence[float], published: float | None = None) -> ReproductionRow:
        """Return a row of the mean of some values."""
        spread = stdev(values) if len(values) > 1 else None
        return ReproductionRow(self.name, row, column, published, fmean(values), spread, len(values))

    def _columns(
        self, place: str, runs: Runs, columns: Mapping[str, str], printed: Callable[[str], float | None]
    ) -> Iterator[ReproductionRow]:
        """Yield a row for each column of a place."""
        for column, key in columns.items():
            yield self._row(place, column, [run[key] for run in runs if key in run], printed(key))


class TableTwoReproduction(_View):
    """Table 2 of the ASAX paper."""

    name: ClassVar[str] = "asax-table2"
    title: ClassVar[str] = "Table 2 of the ASAX paper: run times and utilization of the workflows"

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return run time, utilization of what was allotted, and the time with a guest, of every workflow."""
        rows: list[ReproductionRow] = []
        for piece, record in records.items():
            for workflow in APPLICATIONS:
                line = TABLE_TWO.get((*parsed(piece), workflow))
                columns = {
                    "run time h": f"{workflow}: run_h",
                    "CPU % of allotted": f"{workflow}: cpu",
                    "memory %": f"{workflow}: memory",
                    "time with a guest %": f"{workflow}: hosting",
                }
                printed = {} if line is None else {f"{workflow}: {key}": value for key, value in line._asdict().items()}
                rows.extend(self._columns(f"{piece}, {workflow}", record["runs"], columns, printed.get))
        return rows


class TableThreeReproduction(_View):
    """Table 3 of the ASAX paper."""

    name: ClassVar[str] = "asax-table3"
    title: ClassVar[str] = "Table 3 of the ASAX paper: wait, CPU utilization, response"

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the columns of the table, what they leave out, and the change against space sharing."""
        columns = {
            "wait h": "wait_h",
            "CPU %": "cpu",
            "CPU % of allotted": "cpu_of_allotted",
            "response h": "response_h",
            "run time h": "run_h",
            "guests": "guests",
        }
        rows: list[ReproductionRow] = []
        for piece, record in records.items():
            cores, method = parsed(piece)
            line = TABLE_THREE.get((cores, method))
            printed = {} if line is None else line._asdict()
            rows.extend(self._columns(piece, record["runs"], columns, printed.get))
            if "risk_over_bound" in record["runs"][0]:
                shares = [run["risk_over_bound"] for run in record["runs"]]
                rows.append(self._row(piece, "largest excess risk over its bound", [max(shares)]))
            rows.extend(self._changes(piece, record["runs"], records))
        return rows

    def _changes(self, piece: str, runs: Runs, records: Records) -> Iterator[ReproductionRow]:
        """Yield changes against space sharing, and the response beyond the exact model's, run by run."""
        cores, method = parsed(piece)
        base, ceiling = records.get(piece_of(cores, REFERENCE)), records.get(piece_of(cores, CEILING))
        line, reference = TABLE_THREE.get((cores, method)), TABLE_THREE[cores, REFERENCE]
        if base is not None and method != REFERENCE:
            points = [run["cpu"] - other["cpu"] for run, other in zip(runs, base["runs"], strict=True)]
            printed = None if line is None else line.cpu - reference.cpu
            yield self._row(piece, "CPU over space sharing, + points", points, printed)
            for column, key in (("wait", "wait_h"), ("run time", "run_h"), ("response", "response_h")):
                published = None
                if line is not None and key in reference._fields:
                    published = _change(getattr(line, key), getattr(reference, key))
                changes = [_change(run[key], other[key]) for run, other in zip(runs, base["runs"], strict=True)]
                yield self._row(piece, f"{column} over space sharing, +%", changes, published)
        if ceiling is not None and method != CEILING:
            pairs = zip(runs, ceiling["runs"], strict=True)
            gaps = [_change(run["response_h"], other["response_h"]) for run, other in pairs]
            yield self._row(piece, "response over the exact model's, +%", gaps)


class FigureThreeReproduction(_View):
    """Figure 3 of the ASAX paper."""

    name: ClassVar[str] = "asax-figure3"
    title: ClassVar[str] = "Figure 3 of the ASAX paper: makespan of the queue, mean run time"

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the makespans, their change against space sharing, and the run times of the workflows."""
        rows: list[ReproductionRow] = []
        for piece, record in records.items():
            cores, method = parsed(piece)
            runs, base = record["runs"], records.get(piece_of(cores, REFERENCE))
            rows.append(self._row(piece, "makespan h", [run["makespan_h"] for run in runs]))
            if base is not None and method != REFERENCE:
                pairs = zip(runs, base["runs"], strict=True)
                changes = [_change(run["makespan_h"], other["makespan_h"]) for run, other in pairs]
                published = MAKESPAN_CHANGE.get((cores, method))
                rows.append(self._row(piece, "makespan over space sharing, +%", changes, published))
            for workflow in APPLICATIONS:
                line = TABLE_TWO.get((cores, method, workflow))
                values = [run[f"{workflow}: run_h"] for run in runs]
                rows.append(self._row(f"{piece}, {workflow}", "run time h", values, line and line.run_h))
        return rows


def _change(value: float, base: float) -> float:
    """Change in percent."""
    return 100 * (value / base - 1) if base else 0.0
