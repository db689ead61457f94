"""The kind ``coallocation`` of problems."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from allocopt.plural import counted
from allocopt.problems.certificate import Certificate
from allocopt.problems.coallocation.interference import Sharing
from allocopt.problems.coallocation.pairs import MOST_TERMS, MOST_TRIPLES
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem, verify_coallocation
from allocopt.problems.kind import DATA, AnswerTable, Codec, Generator, ProblemKind, Stage
from allocopt.problems.picture import Holder, Look, Picture, Racks, State


class CoallocationKind(ProblemKind[CoallocationProblem, Coallocation]):
    """Problems that choose the running job that hosts each waiting job, and the share of its cores."""

    name = "coallocation"
    problem, solution = CoallocationProblem, Coallocation
    answer = "co-allocation"
    largest = f"{MOST_TRIPLES:,} hosts x guests x quotas"
    shipped = ("@coallocations", DATA / "coallocations.jsonl")
    verify = staticmethod(verify_coallocation)

    @property
    def codec(self) -> Codec[CoallocationProblem, Coallocation]:
        from allocopt.problems.coallocation.files import CoallocationCodec

        return CoallocationCodec()

    @property
    def certificates(self) -> Mapping[str, type[Certificate[Any]]]:
        from allocopt.problems.coallocation.certificates import HostPrices

        return {**super().certificates, HostPrices.method: HostPrices}

    @property
    def generators(self) -> Mapping[str, Generator[CoallocationProblem]]:
        from allocopt.problems.coallocation.generate import synthetic_coallocation

        return {"coallocation": synthetic_coallocation}

    def trivial(self, problem: CoallocationProblem) -> Coallocation:
        return Coallocation()

    def refusal(self, problem: CoallocationProblem) -> str | None:
        stages = problem.host_demands.shares.shape[1], problem.guest_demands.shares.shape[1]
        triples = len(problem.hosts) * len(problem.guests) * len(problem.percents)
        terms = triples * (stages[0] * stages[1] if problem.sharing is Sharing.SHARES else max(stages))
        if triples <= MOST_TRIPLES and terms <= MOST_TERMS:
            return None
        given = f"{triples:,} hosts x guests x quotas, {terms:,} with the stages"
        return f"it has {given}; at most {MOST_TRIPLES:,} and {MOST_TERMS:,} are supported"

    def size_of(self, problem: CoallocationProblem) -> str:
        hosts, guests = counted(len(problem.hosts), "host"), counted(len(problem.guests), "guest")
        return f"{hosts}, {guests}, {counted(len(problem.quotas), 'quota')}"

    def stages(self, problem: CoallocationProblem) -> Sequence[Stage]:
        return (Stage(("assignment", "cp-sat", "scip", "highs", "greedy")),)

    def table(self, problem: CoallocationProblem, solution: Coallocation | None) -> AnswerTable:
        places = [] if solution is None else solution.as_list(problem)
        rows = tuple((guest, host, 100 * quota) for guest, host, quota in places)
        return AnswerTable("Guests and their hosts", (("guest", None), ("host", None), ("quota %", 0)), rows)

    def picture(self, problem: CoallocationProblem, solution: Coallocation | None) -> Picture:
        """Return the hosts, with the share of the cores of each that its guests get."""
        places = () if solution is None else solution.places
        n_hosts = len(problem.hosts)
        unit = np.array([*range(n_hosts), *(place.host for place in places)], dtype=np.int64)
        holder = np.array([0] * n_hosts + list(range(1, 1 + len(places))), dtype=np.int64)
        quota = np.array([place.percent / 100 for place in places])
        left = 1.0 - np.bincount(unit[n_hosts:], quota, minlength=n_hosts)
        return Picture(
            unit="host",
            racks=Racks.single(n_hosts),
            is_closed=np.zeros(n_hosts, dtype=np.bool_),
            closed="",
            holders=(
                Holder("the host itself", Look.GREY),
                *(Holder(Holder.name("guest", problem.guests[place.guest].id)) for place in places),
            ),
            states=(State.of(unit, holder, np.concatenate((left, quota))),),
            bars=tuple(f"{host.id}, {host.cores:,} cores" for host in problem.hosts),
            axis="share of the host's cores (%)",
        )
