"""The CuSH paper: Table 1, Figures 4 to 8, and experiments that decide its claims."""

from papers.cush import experiments, figures

ARTIFACTS = (
    figures.FOUR,
    figures.FIVE,
    figures.SIX,
    figures.SEVEN,
    figures.EIGHT,
    figures.ONE,
    experiments.MASK,
    experiments.ALGORITHM,
    experiments.NETWORKS,
)
