"""The page of the NSA paper, with the results of ``allocopt reproduce``.

Run ``allocopt reproduce`` first with each of ``nsa-table2``, ``nsa-table3``, ``nsa-table4``, ``nsa-figure5``,
``nsa-cost-level``, ``nsa-tables-authors``, ``nsa-same-time`` and ``nsa-figure5-authors``; ``--rows`` is the folder with
the result files.
"""

from allocopt.learned.nsa.networks import NETWORKS
from papers.nsa.cost_level import PRINTED
from papers.nsa.parameters import COUNTS, DIFFERENCE
from papers.nsa.tables import EXACT, LEADER, OPTIMUM, SAME_STEPS
from papers.pages import Selection, page_parser, selected_tables, write_template

_COSTS = ("Seq.", "SA-1000", LEADER, "annealing, time of NSA-500", "exact")
_GAINS = ("SA-1000", "SA in equal time", "annealing in equal time")
_CONTROLS = ("random repair, equal steps", "permuted weights", "zero weights")
_WALKS = (
    LEADER,
    "NSA-500, Algorithm 1 as printed",
    "NSA-500 in the published walk",
    SAME_STEPS,
    "annealing-1000",
    "SA-1000, Algorithm 1 as printed",
    "SA-1000",
)
_LIMITED = "SCIP on the paper's model, limited"
_ROW = "(.*)"
SELECTIONS = {
    "table3": Selection(
        "nsa-table3",
        "(Avg.)",
        {
            **{f"{name} cost": 2 for name in _COSTS},
            "SA-1000 ms": 2,
            f"{LEADER} ms": 2,
            **{f"Impr. % on {name}": 2 for name in _GAINS},
        },
        has_spread=True,
    ),
    "walks": Selection("nsa-table3", "(Avg.)", {f"{name} cost": 0 for name in _WALKS}, has_spread=True),
    "controls": Selection(
        "nsa-table3",
        "(Avg.)",
        {
            **{f"Impr. % on {name}": 2 for name in _CONTROLS},
            **{f"{name} ms": 2 for name in (LEADER, SAME_STEPS)},
        },
        has_spread=True,
    ),
    "table4": Selection(
        "nsa-table4",
        "(Avg.)",
        {
            f"{OPTIMUM} cost": 2,
            f"{OPTIMUM} ms": 2,
            f"Impr. % of {LEADER} on {OPTIMUM}": 2,
            f"{_LIMITED} cost": 2,
            f"{_LIMITED} ms": 2,
            f"{_LIMITED} share finished": 2,
            "SCAS optimum of the same windows cost": 2,
            **{f"{name}, same windows ms": 2 for name in EXACT},
            **{f"{name}, same windows share proved": 2 for name in EXACT},
        },
        has_spread=True,
    ),
    "level": Selection(
        "nsa-cost-level",
        _ROW,
        {
            **{f"{name} cost": 0 for name in PRINTED},
            "largest error, %": 1,
            f"largest error but for {LEADER}, %": 1,
        },
    ),
    "as_run": Selection(
        "nsa-tables-authors",
        "(Avg.)",
        {
            **{f"{name} {what}": digits for name in PRINTED for what, digits in (("cost", 0), ("error, %", 1))},
            **{f"Impr. % on {name}": 2 for name in ("SA-1000", "SA-500", OPTIMUM)},
        },
        has_spread=True,
    ),
    "same_time": Selection("nsa-same-time", _ROW, {"SA-1000 ms": 1, f"{LEADER} ms": 1, f"{LEADER} over SA-1000": 2}),
    "figure5": Selection(
        "nsa-figure5",
        "(500 steps)",
        {f"{name} Impr. % on SA-1000": 2 for name in (*NETWORKS, "random repair")},
        has_spread=True,
    ),
    "figure5_authors": Selection(
        "nsa-figure5-authors", "(500 steps)", {f"{name} Impr. % on SA-1000": 2 for name in NETWORKS}, has_spread=True
    ),
    "table2": Selection("nsa-table2", f"(cnn-.|{DIFFERENCE})", dict.fromkeys(COUNTS, 0)),
    "search": Selection("nsa-table2", "(other convolutions.*)", {"readings": 0, "that give all three counts": 0}),
}


def main() -> None:
    """Write the page."""
    options = page_parser(__doc__, rows=True).parse_args()
    write_template(__file__, "nsa", selected_tables(options.rows, SELECTIONS))


if __name__ == "__main__":
    main()
