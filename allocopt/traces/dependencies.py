"""Dependencies of jobs, in the syntax of batch systems."""

import re

_NOTHING = frozenset(("", "(null)", "none", "null", "n/a", "nan", "-1"))
# Slurm's ``afterok:12`` and ``afterany:12``, also with squeue's suffix as in ``afterok:12(unfulfilled)``; LSF's
# ``done(12)`` and ``ended(12)``; a plain number.
_ONE = re.compile(r"(?:after(?:ok|any):)?(\d+(?:_\d+)?)(?:\(\w+\))?|(?:done|ended)\(\"?(\d+)\"?\)", re.ASCII)
_KIND = re.compile(r"[A-Za-z]+")


def preceding_job(text: str) -> tuple[str, str]:
    """Return the id of the job that must end first, empty for none; and a remark on any other dependency."""
    text = text.strip().strip("\"'")
    if text.lower() in _NOTHING:
        return "", ""
    one = _ONE.fullmatch(text)
    if one is not None:
        return one[1] or one[2], ""
    kind = _KIND.search(text)
    several = " of several jobs" if len(re.findall(r"\d+", text)) > 1 else ""
    return "", f"dependency {kind[0] if kind else 'without a kind'}{several} not modelled, ignored"
