"""Recognizes files of other schedulers and tools, which are not supported, so that an error can name them."""

import re
from collections.abc import Mapping
from typing import Any

_BEGINNINGS = 4000
"""Number of characters of a text that are searched."""

_TEXTS = {
    "`pbsnodes` of PBS or Torque": r"\A\s*[^\s=]+\n(?:[ \t]+\S+ = .*\n)*?[ \t]+(?:Mom|ntype|state|np|pcpus) = ",
    "`pbsnodes -S` of PBS": r"^vnode\s+state\s+(?:OS|njobs)\b",
    "`qstat` of PBS or Torque": r"^\s*Job (?:id|ID)\s+(?:Name|Username)\b|^Job Id: \S+$",
    "`qstat` of Grid Engine": r"^\s*job-ID\s+prior\b|^queuename\s+qtype\b",
    "`qhost` of Grid Engine": r"^HOSTNAME\s+ARCH\s+NCPU\b",
    "`bhosts` of LSF": r"^HOST_NAME\s+STATUS\b|^HOST\s+\S+\nSTATUS\s+CPUF\b",
    "`lshosts` of LSF": r"^HOST_NAME\s+type\b",
    "`lsload` of LSF": r"^HOST_NAME\s+status\b",
    "`bjobs` of LSF": r"^JOBID\s+USER\s+STAT\b|^Job <\d+",
    "`condor_status` of HTCondor": r"^Name\s+OpSys\s+Arch\s+State\b|^(?:MyType = \"(?:Machine|Slot)\")",
    "`condor_q` of HTCondor": r"^-- Schedd:|^\s*OWNER\s+BATCH_NAME\b|^(?:MyType = \"Job\")",
    "`flux jobs` of Flux": r"^\s*JOBID\s+(?:QUEUE\s+)?USER\s+NAME\s+ST\s+NTASKS\b",
    "`oarnodes` of OAR": r"^network_address:|^\s*resource_id\s*:\s*\d",
    "`kubectl get nodes` without -o json": r"^NAME\s+STATUS\s+ROLES\s+AGE\b",
    "`kubectl get pods` without -o json": r"^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\b",
    "`kubectl describe node`": r"^Name:\s+\S+\n(?:Roles|Labels):",
    "`scontrol show config` of Slurm": r"^Configuration data as of\b",
    "`sinfo -s`, which does not say what is idle,": r"^PARTITION\s+AVAIL\s+TIMELIMIT\s+NODES\(A/I/O/T\)\s+NODELIST",
    "`sacct` of Slurm": r"^JobID(?:Raw)?[|\s].*\b(?:Elapsed|State|Submit|Start)\b",
    "`nvidia-smi topo -m`": r"^\s*(?:\x1b\[\d+m)?GPU0\s+.*\bCPU Affinity\b",
    "`iblinkinfo`": r"^(?:CA|Switch): (?:0x)?\S.*:$",
    "Ganglia's gmetad, in XML": r"<GANGLIA_XML\b",
}
"""Programs, each with a pattern of its output."""
_PATTERNS = {what: re.compile(pattern, re.MULTILINE) for what, pattern in _TEXTS.items()}


def foreign_text(text: str) -> str | None:
    """Return in words which unsupported program prints a text, None if that is unknown."""
    beginning = text[:_BEGINNINGS]
    return next((f"is what {what} prints" for what, one in _PATTERNS.items() if one.search(beginning)), None)


def foreign_object(obj: object) -> str | None:
    """Return in words which unsupported program prints a JSON object, None if that is unknown."""
    first = obj[0] if isinstance(obj, list) and obj else obj
    if not isinstance(first, Mapping):
        return None
    what = _of_keys(first)
    return f"is what {what} prints" if what else None


def _of_keys(told: Mapping[str, Any]) -> str | None:
    if "pbs_version" in told:
        return "`qstat -F json` of PBS" if "Jobs" in told else "`pbsnodes -F json` of PBS"
    if isinstance(told.get("COMMAND"), str) and "RECORDS" in told:
        return f"`{told['COMMAND'].split(' ')[0]} -json` of LSF"
    if {"ClusterId", "ProcId"} <= told.keys():
        return "`condor_q -json` of HTCondor"
    if told.get("MyType") in ("Machine", "Slot") or {"Machine", "SlotType"} & told.keys():
        return "`condor_status -json` of HTCondor"
    if "network_address" in told or any(isinstance(one, Mapping) and "network_address" in one for one in told.values()):
        return "`oarnodes -J` of OAR"
    if told.get("status") == "success" and "data" in told:
        return "Prometheus"
    return None
