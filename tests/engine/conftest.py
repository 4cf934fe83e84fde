"""One cluster of each kind for all tests of a worker: they take seconds to start."""

import pytest

from seqbatch.engine import open_engine

NAMES = ("local-1", "local-2", "dask", "ray")


@pytest.fixture(scope="session")
def engines():
    """Open engines by their names, once each."""
    opened, contexts = {}, []

    def get(name):
        if name not in opened:
            kind, _, jobs = name.partition("-")
            context = open_engine(kind, jobs=int(jobs or 2))
            opened[name] = context.__enter__()
            contexts.append(context)
        return opened[name]

    yield get
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture(params=NAMES)
def engine(request, engines):
    return engines(request.param)


@pytest.fixture(params=NAMES[1:])
def cluster(request, engines):
    """An engine with processes of its own."""
    return engines(request.param)
