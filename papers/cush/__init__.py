"""The CuSH paper: Table 1, Figures 4 to 8, and experiments that explain its claims."""

from papers.cush import experiments, figures, penalties

ARTIFACTS = (
    figures.FOUR,
    figures.FIVE,
    figures.SIX,
    figures.SEVEN,
    figures.EIGHT,
    figures.ONE,
    figures.HORIZON,
    penalties.PENALTIES,
    experiments.MASK,
    experiments.ALGORITHM,
    experiments.NETWORKS,
)
