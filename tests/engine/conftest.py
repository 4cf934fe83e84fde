"""One cluster of each kind for all tests of a worker: they take seconds to start."""

import sys

import pytest

from seqbatch.engine import open_engine

NAMES = ("local-1", "local-2", "dask", "ray")


@pytest.fixture(scope="session")
def beside(tmp_path_factory):
    """A folder that Python looks for modules in, with a policy of a user's own."""
    folder = tmp_path_factory.mktemp("beside")
    own = "from seqbatch.policies import SBPE\nclass Own(SBPE):\n    pass\n"
    (folder / "beside_the_spec.py").write_text(own, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def engines(beside):  # noqa: ARG001
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
