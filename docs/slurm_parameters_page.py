"""Write `slurm_parameters.md` from the lists of keys that the readers use. Run it after a change of a list."""

from pathlib import Path

from allocopt.cluster.slurm_keys import (
    DOWN_KEYS,
    GRES_KEYS,
    JOB_KEYS,
    NODE_KEYS,
    NODESET_KEYS,
    PARTITION_KEYS,
    RESERVATION_KEYS,
    SETTING_KEYS,
    Keys,
)

PAGE = Path(__file__).with_name("slurm_parameters.md")
KINDS = {
    "Nodes": (NODE_KEYS, "lines `NodeName=` of slurm.conf, `scontrol show node`, `sinfo`"),
    "Partitions": (PARTITION_KEYS, "lines `PartitionName=` of slurm.conf, `scontrol show partition`"),
    "Down nodes": (DOWN_KEYS, "lines `DownNodes=` of slurm.conf"),
    "Node sets": (NODESET_KEYS, "lines `NodeSet=` of slurm.conf"),
    "GRES": (GRES_KEYS, "gres.conf"),
    "Other settings": (SETTING_KEYS, "all other lines of slurm.conf"),
    "Reservations": (RESERVATION_KEYS, "`scontrol show reservation`"),
    "Jobs": (JOB_KEYS, "`scontrol show job`, `squeue --json`; a job that has one of the reported keys is left out"),
}
HEAD = """\
# Parameters of Slurm

<!-- written by docs/slurm_parameters_page.py from allocopt/cluster/slurm_keys.py -->

This page lists every parameter that Slurm 22.05 to 26.11 accepts or prints, and how allocopt treats it:

- **Applied** parameters determine which jobs fit where.
- **Reported** parameters would also do so, but are not modelled. If a site gives one a value that has an effect, a
  line on standard error reports it.
- Parameters with **no effect** do not determine which jobs fit where.

A key in no list is reported, too, so that nothing in a file is ignored silently.

{counts}

Values of `SelectTypeParameters` that are reported: `CR_Socket`, `CR_ONE_TASK_PER_CORE`, `CR_LLN`, `CR_Pack_Nodes`. All
keys of topology.conf and topology.yaml are applied (see [topologies](topologies.md)); `LinkSpeed` has no effect.
"""


def page() -> str:
    """Return the page."""
    rows = ["| lines | applied | reported | no effect |", "|---|---:|---:|---:|"]
    sections = []
    for name, (keys, where) in KINDS.items():
        rows.append(f"| {name} | {len(keys.applied)} | {len(keys.reported)} | {len(keys.without_effect)} |")
        sections.append(_section(name, keys, where))
    return "\n".join([HEAD.format(counts="\n".join(rows)), *sections])


def _section(name: str, keys: Keys, where: str) -> str:
    parts = [f"## {name}\n", f"Read in {where}.\n", f"Applied: {_names(keys, keys.applied)}.\n"]
    if keys.reported:
        table = [f"| `{keys.spelled[key]}` | {words} |" for key, words in sorted(keys.reported.items())]
        head = "not modelled" if name != "Jobs" else "asks for"
        parts += [f"| reported | {head} |", "|---|---|", *table, ""]
    if keys.without_effect:
        parts.append(f"No effect: {_names(keys, keys.without_effect)}.\n")
    return "\n".join(parts)


def _names(keys: Keys, of: frozenset[str]) -> str:
    return ", ".join(f"`{keys.spelled[key]}`" for key in sorted(of))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
