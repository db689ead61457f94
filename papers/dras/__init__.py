"""The DRAS paper: Figures 5 to 11, Table 4, and experiments that explain claims that do not hold."""

from papers.dras import cori_figure, curves, figures, networks, reasons, rewards

ARTIFACTS = (
    *(curves.FIVE, curves.SIX, curves.SIX_REWARDS, figures.SEVEN, figures.EIGHT, figures.NINE),
    *(figures.TABLE, figures.TEN, figures.ELEVEN),
    *(cori_figure.SEVEN_ON_CORI, reasons.REASONS, rewards.BY_REWARD, networks.NETWORKS),
)
