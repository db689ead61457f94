"""The clusters on which IRMaSim was validated (its section VI and Table III): fifteen nodes of one 4-core processor."""

from collections.abc import Mapping
from types import MappingProxyType

from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.errors import UsageError

CONTENTION = ContentionConstants(b=-1.85e-5, c=32_000.0, da=1.75, db=3_500.0, dc=45_000.0, dd=3_000.0)
"""Table III, for 3.4 GHz; the paper prints none for the other clocks."""
IDLE_SHARE = 0.05
"""Of ``processor_w``, for an idle processor: Table III has no such column, IRMaSim's code this number."""
POWERS: Mapping[float, PowerConstants] = MappingProxyType(
    {
        clock: PowerConstants(core_w, processor_w, IDLE_SHARE * processor_w)
        for clock, core_w, processor_w in ((3.4, 6.14, 5.59), (2.5, 3.51, 3.20), (1.7, 2.31, 1.59))
    }
)
"""Table III, by clock in GHz."""
HETEROGENEOUS: Mapping[float, int] = MappingProxyType({3.4: 8, 2.5: 4, 1.7: 3})
"""Nodes by clock in GHz."""
BANDWIDTH_MB_S, MEMORY_MB, CORES = 38_400.0, 8_000.0, 4


def processor(clock_ghz: float, stalled: float = 1.0) -> Processor:
    """Return a processor of Table III.

    Parameters
    ----------
    clock_ghz
        3.4, 2.5 or 1.7.
    stalled
        Share of a core's power that it draws while it waits for memory; 1 as in the paper.

    Raises
    ------
    UsageError
        If the table has no such row.
    """
    if clock_ghz not in POWERS:
        raise UsageError(f"Table III has no row for {clock_ghz:g} GHz, but for 3.4, 2.5 and 1.7")
    power = POWERS[clock_ghz]
    constants = PowerConstants(power.core_w, power.processor_w, power.idle_w, stalled)
    return Processor(f"i5-7500 {clock_ghz:g} GHz", CORES, clock_ghz, 1.0, BANDWIDTH_MB_S, CONTENTION, constants)


def cluster_of(clocks: Mapping[float, int], stalled: float = 1.0) -> Machine:
    """Return a cluster of so many nodes by clock in GHz, the first ones first.

    Parameters
    ----------
    clocks
        Number of nodes by clock.
    stalled
        As in `processor`.

    Raises
    ------
    UsageError
        If Table III has no row for a clock.
    """
    of = [processor(clock, stalled) for clock, count in clocks.items() for _ in range(count)]
    nodes = tuple(Node(f"n{number:02d}", (one,), MEMORY_MB) for number, one in enumerate(of, start=1))
    return Machine("irmasim-testbed", (Cluster("testbed", nodes),))


def homogeneous(nodes: int = 15) -> Machine:
    """Return the homogeneous cluster, of nodes at 3.4 GHz."""
    return cluster_of({3.4: nodes})


def heterogeneous() -> Machine:
    """Return the heterogeneous cluster: 8 nodes at 3.4 GHz, 4 at 2.5 and 3 at 1.7."""
    return cluster_of(HETEROGENEOUS)
