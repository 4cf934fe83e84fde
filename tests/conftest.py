"""Settings that all tests share, and the stores that campaigns are tested on."""

import gc
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import Phase, settings

from seqbatch.campaign.spec import choices, spec
from seqbatch.campaign.steps import create
from seqbatch.planning import request
from seqbatch.planning.gaussian_model import Model
from seqbatch.storage import open_store, stores

# The same examples every time, however busy the machine: a red test must mean a wrong program.
settings.register_profile("steady", deadline=None, derandomize=True)
# Where it matters only whether a test fails, the smallest failing example is not looked for.
settings.register_profile(
    "unshrunk", settings.get_profile("steady"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("steady")
# A spec without a seed draws one, which no test could repeat; `choices` holds the real function.
assert choices.fresh_seed is spec.fresh_seed
spec.fresh_seed = lambda: 0
# So does every campaign a salt for the hash of its first event.
drawn_salt, create.fresh_salt = create.fresh_salt, lambda: "0" * 32
# No test cuts the power: SQLite need not wait for the disk, nor PostgreSQL below.
sqlite_settings = stores._settings
migrate, new_in_sqlite = stores.upgrade, []


def hasty_settings(raw, record):
    sqlite_settings(raw, record)
    raw.execute("PRAGMA synchronous = OFF")


stores._settings = hasty_settings


def upgraded(connection, *, at=None):
    """Migrate a store; of a new one in SQLite, repeat the statements that the first one took.

    Migrations take ten times as long, and hundreds of tests begin with a new store. They are tested
    by the first store of each process, by stores that are not new, and on PostgreSQL.
    """
    new = connection.dialect.name == "sqlite" and not sa.inspect(connection).get_table_names()
    raw = connection.connection.driver_connection
    if not new or not new_in_sqlite or at is not None:
        migrate(connection, at=at)
        if new and at is None:
            kept = [line for line in raw.iterdump() if not line.startswith(("BEGIN", "COMMIT"))]
            new_in_sqlite.extend(kept)
        return
    for statement in new_in_sqlite:
        raw.execute(statement)


stores.upgrade = upgraded


# Nor is there anything to collect before the first test.
gc.disable()


def pytest_collection_finish():
    """Spare the garbage collector what was imported and collected: it stays to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """Let it be collected at the end: some libraries complain about what is left over."""
    gc.unfreeze()


def pytest_runtest_setup(item):
    """Have a test draw the same from its module's generator whichever tests ran before it.

    Parallel workers share out tests by who is quicker: no two runs have the same order.
    """
    draws = getattr(getattr(item, "module", None), "random", None)
    if isinstance(draws, np.random.Generator):
        draws.bit_generator.state = np.random.default_rng(0).bit_generator.state


@pytest.fixture
def few_trials(monkeypatch):
    """Plan with an eighth of the trials, where a test is not about the precision of plans."""
    fewer = {
        key: (total // 8, least // 2, most // 8)
        for key, (total, least, most) in request.TRIALS.items()
    }
    monkeypatch.setattr(request, "TRIALS", fewer)
    monkeypatch.setattr(request, "SIMPLE", {key: n // 8 for key, n in request.SIMPLE.items()})
    thinned = Model.thinned
    monkeypatch.setattr(
        Model, "thinned", lambda self, number, **more: thinned(self, min(number, 20), **more)
    )


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Run a PostgreSQL of its own on a socket, one per worker; skip where none can start."""
    pytest.importorskip("psycopg")
    # The server runs as another user where the tests run as root: it must reach its folder.
    folder = Path(tempfile.mkdtemp(prefix="seqbatch-pg-"))
    folder.chmod(0o755)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pgserver
            from fasteners import InterProcessLock

            # One after the other: the first of all adds that user, which two cannot do at once.
            with InterProcessLock(tmp_path_factory.getbasetemp().parent / "postgres.lock"):
                server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no PostgreSQL can be started here: {error}")
    # What is tested is what a client sees when it dies, not what a machine does without power.
    server.psql("ALTER SYSTEM SET fsync = off;")
    server.psql("SELECT pg_reload_conf();")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres):
    """A database without any campaign."""
    postgres.psql("SET client_min_messages = error; DROP SCHEMA IF EXISTS seqbatch CASCADE;")
    return postgres.get_uri()


#: Modules whose tests run on a lake too, and on PostgreSQL: what others ask of a store, these ask
#: as well.
ON_A_LAKE = {
    "test_amend", "test_delete", "test_erase", "test_races", "test_record", "test_stores",
    "test_seal", "test_together", "test_verify",
}  # fmt: skip
#: Those about PostgreSQL's own locks, sessions and types; `make test` runs them there.
ABOUT_POSTGRESQL = {
    "test_races", "test_sessions", "test_stores", "test_together", "test_verify",
}  # fmt: skip
ON_POSTGRESQL = ON_A_LAKE | ABOUT_POSTGRESQL | {
    "test_campaign", "test_events", "test_findings", "test_idempotency", "test_size_limits",
    "test_spec",
}  # fmt: skip


def pytest_generate_tests(metafunc):
    """Run what asks for a store on the kinds of it that its module is about."""
    if "store_url" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        how = pytest.mark.slow if module in ABOUT_POSTGRESQL else pytest.mark.thorough
        lake = ["lake"] if module in ON_A_LAKE else []
        server = [pytest.param("postgresql", marks=how)] if module in ON_POSTGRESQL else []
        metafunc.parametrize("store_url", ["sqlite", *lake, *server], indirect=True)


@pytest.fixture
def store_url(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "campaigns.db")
    if request.param == "lake":
        return f"lake:{tmp_path / 'lake'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(store_url):
    opened = open_store(store_url)
    yield opened
    opened.close()
