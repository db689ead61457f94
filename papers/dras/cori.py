"""A synthetic Cori: the capacity machine of the DRAS paper, whose log is not public, and its jobs.

It has the numbers of Table 2: nodes, jobs per day, the longest job. Sizes, run times and estimates are drawn from jobs
of CEA Curie, another large machine, so that the load is `LOAD`; Table 2 has no load. The result is not the real Cori.

``python -m papers.dras.cori OUT`` writes the trace of the trainings of the shipped agents ``cori``: three weeks, of
which a training uses the first two, as in the paper.
"""

import argparse
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from allocopt.traces.capacity import CapacityMachine, CapacityModel
from allocopt.traces.reading import read_workload
from allocopt.traces.text import Swf
from allocopt.traces.workload import Workload
from papers.artifact import published
from papers.dras.configuration import Site

TABLE_TWO = published("dras")["table2"]["Cori"]
LOAD = 0.9
"""Load of the arriving jobs; our choice."""
CURIE, CURIE_CORES = "traces/CEA-Curie-2011-2.1-cln.swf.gz", 16
"""Trace in the data folder from which the jobs are drawn, and the number of cores of its nodes."""
MACHINE = CapacityMachine(
    int(TABLE_TWO["nodes"]), TABLE_TWO["jobs"] / TABLE_TWO["days"], TABLE_TWO["longest job, days"], LOAD
)
CORI = Site("Cori, synthetic", "cori", "Cori-synthetic.swf.gz", MACHINE.nodes, "capacity", (1, 2, 8, 64, 512))
TRACE_DAYS, TRACE_SEED = 21, 0


@lru_cache(maxsize=1)
def cori_model(data: Path) -> CapacityModel:
    """Fit the model to the trace in a folder of data; raises `BadFileError` if it is missing."""
    return CapacityModel.fitted(MACHINE, read_workload(data / CURIE), CURIE_CORES)


def cori_days(data: Path, days: int, seed: int) -> Workload:
    """Draw the jobs of some days."""
    return cori_model(data).draw(days, np.random.default_rng(seed), f"Cori-synthetic-{seed}")


def main(write: Callable[[str], None] = print) -> None:
    """Write the trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="write this file, .swf or .swf.gz")
    parser.add_argument("--data", type=Path, required=True, help="read the folder traces in this folder")
    options = parser.parse_args()
    jobs = cori_days(options.data, TRACE_DAYS, TRACE_SEED)
    Swf().write(options.out, jobs)
    write(f"{options.out}: {len(jobs):,} jobs of {TRACE_DAYS} days on {MACHINE.nodes:,} nodes")


if __name__ == "__main__":
    main()
