"""The kind ``knapsack`` of problems."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from allocopt.plural import counted
from allocopt.problems.certificate import Certificate
from allocopt.problems.kind import DATA, AnswerTable, Codec, Generator, ProblemKind, Stage
from allocopt.problems.knapsack.packing import MOST_JOBS, MOST_PLACES
from allocopt.problems.knapsack.problem import KnapsackProblem, Selection, verify_selection
from allocopt.problems.picture import Holder, Look, Picture, Racks, State


class KnapsackKind(ProblemKind[KnapsackProblem, Selection]):
    """Problems that select the waiting jobs that start, under one or several capacities."""

    name = "knapsack"
    problem, solution = KnapsackProblem, Selection
    answer = "selection"
    largest = f"{MOST_JOBS:,} jobs"
    shipped = ("@knapsacks", DATA / "knapsacks.jsonl")
    verify = staticmethod(verify_selection)

    @property
    def codec(self) -> Codec[KnapsackProblem, Selection]:
        from allocopt.problems.knapsack.files import KnapsackCodec

        return KnapsackCodec()

    @property
    def certificates(self) -> Mapping[str, type[Certificate[Any]]]:
        from allocopt.problems.knapsack.certificates import CountBounds, Searched, UnitPrice

        return {**super().certificates, **{one.method: one for one in (UnitPrice, CountBounds, Searched)}}

    @property
    def generators(self) -> Mapping[str, Generator[KnapsackProblem]]:
        from allocopt.problems.knapsack.generate import synthetic_knapsack

        return {"knapsack": synthetic_knapsack}

    def trivial(self, problem: KnapsackProblem) -> Selection:
        return Selection(())

    def refusal(self, problem: KnapsackProblem) -> str | None:
        n_jobs = len(problem.jobs)
        places = n_jobs * (len(problem.resources) + len(problem.slots or ()))
        if n_jobs > MOST_JOBS:
            return f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are supported"
        if places > MOST_PLACES:
            return f"it has {places:,} jobs times resources and slots, at most {MOST_PLACES:,} are supported"
        return None

    def size_of(self, problem: KnapsackProblem) -> str:
        return f"{counted(len(problem.jobs), 'job')}, {counted(len(problem.resources), 'resource')}"

    def stages(self, problem: KnapsackProblem) -> Sequence[Stage]:
        return (Stage(("dp", "cp-sat", "scip", "highs", "greedy")),)

    def table(self, problem: KnapsackProblem, solution: Selection | None) -> AnswerTable:
        chosen = set() if solution is None else set(solution.ids(problem))
        slots = {} if solution is None else solution.slot_of(problem)
        resources = problem.resources
        rows = tuple(
            (
                job.id, "yes" if job.id in chosen else "no", *(int(job.request.get(each, 0)) for each in resources),
                job.wait_s, job.estimate_s, job.value, slots.get(job.id),
            )
            for job in problem.jobs
        )  # fmt: skip
        numbers = (*((each, 0) for each in resources), ("wait s", 0), ("estimate s", 0), ("value", 2), ("slot", 0))
        return AnswerTable("Jobs", (("job", None), ("starts", None), *numbers), rows)

    def picture(self, problem: KnapsackProblem, solution: Selection | None) -> Picture:
        """Return a bar for each resource, and for each slot, with the units that jobs take."""
        chosen = list(solution.jobs) if solution is not None else []
        sizes = [problem.total[each] for each in problem.resources]
        taken = [problem.total[each] - problem.capacity[each] for each in problem.resources]
        slots = problem.slots or ()
        # Per unit of the picture: the amount of everything that is not free, then that of each selected job.
        amounts = np.zeros((len(sizes) + len(slots), 1 + len(chosen)), dtype=np.int64)
        amounts[: len(sizes), 0] = taken
        amounts[: len(sizes), 1:] = problem.requests[chosen].T
        if solution is not None and slots:
            amounts[len(sizes) + np.array(solution.slots, dtype=np.int64), 1 + np.arange(len(chosen))] = problem.sizes[
                chosen
            ]
        whole = np.array([*sizes, *slots], dtype=np.int64)
        unit, holder = np.nonzero(amounts)
        of_slots = (f"slot {number}: {size:,} {problem.resources[0]}" for number, size in enumerate(slots))
        return Picture(
            unit="resource",
            racks=Racks.single(len(whole)),
            is_closed=whole == 0,
            closed="nothing there",
            holders=(
                Holder("not free", Look.GREY),
                *(Holder(Holder.name("job", problem.jobs[number].id)) for number in chosen),
            ),
            states=(State.of(unit, holder, amounts[unit, holder] / whole[unit]),),
            bars=(*(f"{size:,} {name}" for name, size in zip(problem.resources, sizes, strict=True)), *of_slots),
            axis="share of the units (%)",
        )
