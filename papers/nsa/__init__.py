"""The NSA paper: Tables II to IV, Figures 4 to 6, and an explanation of the level of its costs."""

from papers.nsa import as_run, cost_level, figures, parameters, tables

ARTIFACTS = (
    parameters.TWO,
    tables.THREE,
    tables.FOUR,
    figures.FOUR,
    figures.FIVE,
    figures.SIX,
    cost_level.LEVEL,
    as_run.TABLES_AS_RUN,
    as_run.SAME_TIME,
    as_run.NETWORKS_AS_RUN,
    as_run.SIX_AS_RUN,
)
