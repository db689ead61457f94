"""What of a workload only the Standard Workload Format can say."""

from allocopt.traces.precedence import NONE
from allocopt.traces.workload import UNKNOWN_USER, Workload


def swf_only_losses(workload: Workload) -> list[str]:
    """Say how many jobs lose their user or preceding job in other formats, one line each."""
    counts = {
        "users": int((workload.users != UNKNOWN_USER).sum()),
        "preceding jobs and think times": int((workload.preceding != NONE).sum()),
    }
    return [f"{what} lost, the format has none: {jobs}" for what, jobs in counts.items() if jobs]
