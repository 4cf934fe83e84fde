"""Bring a database to the schema of this version, or refuse it untouched."""

from pathlib import Path

import sqlalchemy as sa

from seqbatch.errors import StoreError

VERSIONS = Path(__file__).parent / "migrations" / "versions"
#: Every schema that this version knows, the oldest first.
KNOWN = tuple(sorted(path.stem.removeprefix("schema_") for path in VERSIONS.glob("schema_*.py")))


def revision(connection: sa.Connection) -> str | None:
    """Return the schema that a database has, None where it has none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all()
    return found[0] if found else None


def refuse_unknown(found: str | None, label: str) -> None:
    """Refuse a schema that another version of seqbatch made."""
    if found is not None and found not in KNOWN:
        raise StoreError(
            f"{label}: its tables are of schema {found}, which this version of seqbatch does not "
            f"know (it knows {', '.join(KNOWN)}). Nothing was touched. Use the version of seqbatch "
            "that wrote it."
        )


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are missing, within the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
