"""Run a study and return its table of runs."""

from seqbatch.simulation import Study


def runs_of(*, out=None, jobs=1, engine="local", report=None, **declared):
    """Declare a study, run it, and return its table."""
    return Study(**declared).run(out, jobs=jobs, engine=engine, report=report).runs
