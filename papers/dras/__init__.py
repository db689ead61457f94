"""The DRAS paper: Figures 5 to 11, Table 4."""

from papers.dras import curves, figures

ARTIFACTS = (
    *(curves.FIVE, curves.SIX, figures.SEVEN, figures.EIGHT, figures.NINE),
    *(figures.TABLE, figures.TEN, figures.ELEVEN),
)
