"""Backup and restore as in docs/how-to/backup.md: nothing is lost."""

import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.errors import StoreError
from seqbatch.storage import answers, copy_store, open_store, tokens
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from tests.service.running import OUTCOMES, SPEC, UNITS

CALL = IdempotentCall(token="sqb_x", key="k", request="r")


def lived_in(store):
    """Put a campaign with a closed wave, a token and an answer into a store; return the token."""
    import polars as pl

    campaign = Campaign.create(SPEC, store=store)
    campaign.assign(pl.DataFrame(UNITS))
    campaign.record(pl.DataFrame(OUTCOMES))
    campaign.close()
    with store.transaction(write=True) as connection:
        answers.keep(connection, CALL, StoredAnswer(status=200, headers={}, pieces=[b"said"]))
    return tokens.create(store, "shop", role="operator")[0]


def examine(store, restored, secret):
    import polars as pl

    before, after = Campaign(store, "spring"), Campaign(restored, "spring")
    assert after.events() == before.events()
    assert after.verify().sound
    assert tokens.find(restored, secret).name == "shop"
    assert list(answers.find(restored, CALL).pieces) == [b"said"]
    more = pl.DataFrame({"unit": ["e"], "age": [33]})
    assert after.assign(more).table.equals(before.assign(more).table)
    # What keeps records from being changed came with them.
    with pytest.raises(StoreError), restored.transaction(write=True) as connection:
        connection.execute(sa.text("UPDATE events SET who = 'nobody'"))


def test_an_sqlite_file_is_copied_whole_while_it_is_used(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    secret = lived_in(store)
    # Somebody reads meanwhile, as a service does.
    with store.read("spring"):
        restored = open_store(tmp_path / "backup.db")
        copy_store(store, restored)
    examine(store, restored, secret)
    restored.close()
    store.close()


@pytest.mark.slow
def test_a_dump_of_postgresql_is_restored_into_another_database(postgres, postgres_url, tmp_path):
    import pgserver

    programs = Path(pgserver.__file__).parent / "pginstall" / "bin"

    def run(program, *words):
        subprocess.run([programs / program, *words], check=True, capture_output=True)

    store = open_store(postgres_url)
    secret = lived_in(store)
    dump = tmp_path / "seqbatch.dump"
    run("pg_dump", "--schema=seqbatch", "--format=custom", f"--file={dump}", postgres_url)
    postgres.psql("CREATE DATABASE restored ENCODING 'UTF8' TEMPLATE template0;")
    try:
        target = postgres.get_uri(database="restored")
        run("pg_restore", "--exit-on-error", "--single-transaction", "--no-owner",
            f"--dbname={target}", dump)  # fmt: skip
        restored = open_store(target)
        examine(store, restored, secret)
        restored.close()
    finally:
        postgres.psql("DROP DATABASE restored WITH (FORCE);")
        store.close()
