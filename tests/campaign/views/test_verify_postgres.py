"""One cell changed anywhere in a PostgreSQL store, and verify names it."""

import pytest
import sqlalchemy as sa

from seqbatch.storage import open_store
from seqbatch.storage.schema import metadata
from tests.campaign.instances import created, outcomes, run_wave, units
from tests.campaign.views.test_verify import CELLS, ROWS, one_byte

KEYS = {table: f"campaign = {{campaign}} AND {where}" for table, where in ROWS.items()}
KEYS["campaigns"] = "id = {campaign}"


def changed(raw, name, value, where):
    """Change one cell; return where its row lies then."""
    statement = sa.text(f"UPDATE {name} = :value WHERE {where} RETURNING ctid::text")
    return raw.execute(statement.bindparams(value)).scalar_one()


@pytest.mark.thorough
def test_every_cell_is_watched(postgres_url):
    store = open_store(postgres_url)
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    table = campaign.assign(units(200, start=300)).table
    campaign.record(outcomes(table, seed=2))
    campaign.close()
    engine = sa.create_engine(store._engine.url)
    with engine.begin() as raw:
        number = raw.execute(sa.text("SELECT id FROM seqbatch.campaigns")).scalar_one()
    for table, column in CELLS:
        kind = metadata.tables[table].c[column].type
        where = KEYS[table].format(campaign=number)
        name = f'seqbatch.{table} SET "{column}"'
        with engine.begin() as raw:
            # Behind the triggers' back, and behind that of the keys between the tables.
            raw.execute(sa.text("SET session_replication_role = replica"))
            [before] = raw.execute(
                sa.text(f'SELECT "{column}" FROM seqbatch.{table} WHERE {where}')
            ).scalars()
            after = one_byte(0.5)(before)
            place = changed(raw, name, sa.bindparam("value", after, type_=kind), where)
        watched = type(campaign)(store, after) if table == "campaigns" else campaign
        assert not watched.verify().sound, (table, column)
        with engine.begin() as raw:
            raw.execute(sa.text("SET session_replication_role = replica"))
            value = sa.bindparam("value", before, type_=kind)
            changed(raw, name, value, f"ctid = '{place}'")
    assert campaign.verify().sound
    engine.dispose()
    store.close()
