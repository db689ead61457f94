"""The kind ``relocation`` of problems."""

from collections.abc import Mapping, Sequence

from allocopt.plural import counted
from allocopt.problems.kind import DATA, AnswerTable, Codec, Generator, ProblemKind, Stage
from allocopt.problems.picture import Holder, Look, Picture, Racks, State
from allocopt.problems.relocation.order import ordered
from allocopt.problems.relocation.problem import (
    GETS_NODES,
    PlacedJob,
    Places,
    Relocation,
    RelocationProblem,
    verify_relocation,
)


class RelocationKind(ProblemKind[RelocationProblem, Relocation]):
    """Problems that stop or move running jobs, in some order, so that gangs start and nodes are emptied."""

    name = "relocation"
    problem, solution = RelocationProblem, Relocation
    answer = "relocation"
    objective = "cost"
    shipped = ("@relocations", DATA / "relocations.jsonl")
    verify = staticmethod(verify_relocation)

    @property
    def codec(self) -> Codec[RelocationProblem, Relocation]:
        from allocopt.problems.relocation.files import RelocationCodec

        return RelocationCodec()

    @property
    def generators(self) -> Mapping[str, Generator[RelocationProblem]]:
        from allocopt.problems.relocation.generate import synthetic_relocation

        return {"relocation": synthetic_relocation}

    def trivial(self, problem: RelocationProblem) -> Relocation | None:
        """Return the relocation in which all gangs wait and jobs on nodes to be emptied stop; None if not allowed."""
        leaving = problem.leaving
        if any(problem.running[number].stop_cost is None for number in leaving):
            return None
        if any(gang.wait_cost is None for gang in problem.waiting):
            return None
        running = [None if number in leaving else job.places for number, job in enumerate(problem.running)]
        return ordered(problem, running, ((),) * len(problem.waiting)).relocation

    def size_of(self, problem: RelocationProblem) -> str:
        running, gangs = counted(len(problem.running), "running job"), counted(len(problem.waiting), "waiting gang")
        return f"{running}, {gangs}, {counted(problem.size, 'node')}"

    def stages(self, problem: RelocationProblem) -> Sequence[Stage]:
        rule, whole = ("cheapest-first",), ("highs", "cp-sat", "scip")
        if all(job.move_cost is None for job in problem.running):
            # If no job may move, the program of leave-first is the whole program.
            return (Stage(whole, share=0.8), Stage(rule))
        return (Stage(("leave-first",), share=0.5), Stage(rule, share=0.2), Stage(whole))

    def remark(self, problem: RelocationProblem, solution: Relocation) -> str:
        stopped, moved = solution.stopped(problem), solution.moved(problem)
        started = sum(bool(places) for places in solution.waiting)
        told = f"{len(stopped)} jobs stop, {len(moved)} move"
        if problem.waiting:
            told += f", {started} of {len(problem.waiting)} gangs get nodes"
        if solution.parked:
            told += f"; {len(solution.parked)} jobs leave before their new nodes are free"
        return told

    def table(self, problem: RelocationProblem, solution: Relocation | None) -> AnswerTable:
        columns = (("step", 0), ("what", None), ("job", None), ("nodes", None), ("cost", 2))
        if solution is None:
            return AnswerTable("Steps", columns, ())
        ends = problem.ends(solution)
        names = {job: ", ".join(str(node) for node, _ in places) for job, places in ends.items()}
        rows = [
            (number, str(action), job, names[job] if action in GETS_NODES else None, cost)
            for number, (action, job, cost) in enumerate(problem.steps_and_costs(solution), 1)
        ]
        return AnswerTable("Steps", columns, tuple(rows))

    def picture(self, problem: RelocationProblem, solution: Relocation | None) -> Picture:
        """Return the nodes by leaf switch before and after the steps; jobs that stay are grey."""
        before = [(job.request, job.places) for job in problem.running]
        labels = [Holder("running", Look.GREY)] * len(before)
        states = [State.of_places(before, problem.capacity, "" if solution is None else "before")]
        if solution is not None:
            requests = [*(job.request for job in problem.running), *(gang.request for gang in problem.waiting)]
            after = [*zip(requests, (at or () for at in (*solution.running, *solution.waiting)), strict=True)]
            states.append(State.of_places(after, problem.capacity, "after"))
            labels = [_change(job, at) for job, at in zip(problem.running, solution.running, strict=True)]
        return Picture(
            unit="node",
            racks=Racks.of(problem.topology),
            is_closed=problem.emptied,
            closed="to be emptied",
            holders=(*labels, *(Holder(f"{Holder.name('gang', gang.id)} starts") for gang in problem.waiting)),
            states=tuple(states),
        )


def _change(job: PlacedJob, at: Places | None) -> Holder:
    """Return how a picture shows a running job that has these nodes at the end."""
    if at is None:
        return Holder(f"{Holder.name('job', job.id)} stops", Look.CROSSED)
    return Holder("stays", Look.GREY) if at == job.places else Holder(f"{Holder.name('job', job.id)} moves")
