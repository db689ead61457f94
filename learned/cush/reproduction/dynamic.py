"""Unknown types that become known (section 3.1): how well jobs are allocated, job set after job set."""

import numpy as np

from allocopt.envs.cush.applications import DynamicTypes, draw_application_sets
from allocopt.envs.cush.jobsets import HELD_OUT
from allocopt.envs.cush.task import Episodes, Options
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.locality_classes import TypeClassifier
from allocopt.simulator.locality_table import SIERRA_TABLE
from learned.cush.acting import right_share, run_dynamic
from learned.cush.reproduction.trained import epochs_of, train_now
from learned.cush.training import CushTraining

APPLICATIONS = 12
UNKNOWN_SHARE = 0.3
"""Share of the jobs of the training whose type is hidden."""
SETS, CAMPAIGNS = 10, 20
QUICK_CAMPAIGNS = 2
"""Job sets that follow each other, and how many times this is done with nothing known at first."""


def right_by_set(request: ReproductionRequest) -> dict[str, list[float]]:
    """Train with jobs of unknown types, and return the share of right policies in one job set after the other."""
    training = CushTraining(unknown_share=UNKNOWN_SHARE, epochs=epochs_of(request))
    agent, _ = train_now(training, request.seeds[0])
    machine, shares = training.cluster(), []
    for campaign in range(QUICK_CAMPAIGNS if request.is_quick else CAMPAIGNS):
        first = HELD_OUT + campaign * SETS
        sets = draw_application_sets(machine, SIERRA_TABLE, range(first, first + SETS), APPLICATIONS)
        classifier, row = TypeClassifier(SIERRA_TABLE), []
        for one in sets:
            episodes = Episodes([one.jobs], machine, 1, Options(training.queue, skips_forced=True))
            run_dynamic(agent, DynamicTypes(classifier, episodes, [one]), episodes, 0)
            row.append(right_share(episodes))
        shares.append(row)
    return {"right": [float(share) for share in np.mean(shares, axis=0)], "campaigns": [float(len(shares))]}
