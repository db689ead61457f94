"""The clusters on which IRMaSim was validated."""

from collections.abc import Mapping
from types import MappingProxyType

from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.errors import UsageError

CONTENTION = ContentionConstants(b=-1.85e-5, c=32_000.0, da=1.75, db=3_500.0, dc=45_000.0, dd=3_000.0)
"""Table III, for 3.4 GHz; the paper prints no constants for the other clocks."""
IDLE_SHARE = 0.05
"""Idle power of a processor, as a share of its power in `WATTS`. From IRMaSim's code; Table III does not give it."""
WATTS: Mapping[float, tuple[float, float]] = MappingProxyType({3.4: (6.14, 5.59), 2.5: (3.51, 3.20), 1.7: (2.31, 1.59)})
"""Table III: power of a core and of the processor in watts, by clock in GHz."""
HETEROGENEOUS: Mapping[float, int] = MappingProxyType({3.4: 8, 2.5: 4, 1.7: 3})
"""The heterogeneous cluster of section VI: number of nodes by clock in GHz. The homogeneous one has 15 at 3.4 GHz."""
BANDWIDTH_MB_S, MEMORY_MB, CORES = 38_400.0, 8_000.0, 4


def irmasim_testbed(clocks: Mapping[float, int] = HETEROGENEOUS, stalled: float = 1.0) -> Machine:
    """Return a cluster of nodes with one processor of Table III each, given the number of nodes by clock in GHz.

    ``stalled`` is the share of a core's power that it draws while it waits for memory, 1 in the paper. Raises
    `UsageError` if Table III has no such clock.
    """
    nodes: list[Node] = []
    for clock, count in clocks.items():
        if clock not in WATTS:
            raise UsageError(f"Table III has no row for {clock:g} GHz, must be 3.4, 2.5 or 1.7")
        core_w, processor_w = WATTS[clock]
        power = PowerConstants(core_w, processor_w, IDLE_SHARE * processor_w, stalled)
        kind = Processor(f"i5-7500 {clock:g} GHz", CORES, clock, 1.0, BANDWIDTH_MB_S, CONTENTION, power)
        nodes += [
            Node(f"n{number:02d}", (kind,), MEMORY_MB) for number in range(len(nodes) + 1, len(nodes) + count + 1)
        ]
    return Machine("irmasim-testbed", (Cluster("testbed", tuple(nodes)),))
