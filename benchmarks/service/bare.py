"""The baseline for the service: a route that only writes one row.

It has the service's framework and server, a connection for each thread and a prepared statement,
but no tokens, no idempotency keys and no stored answers.
"""

import os
import threading

import psycopg
from fastapi import FastAPI
from pydantic import BaseModel

#: Where the database is, for the processes of the route.
DATABASE = "SEQBATCH_BARE_DATABASE"
TABLE = "CREATE TABLE IF NOT EXISTS bare (unit text PRIMARY KEY, age double precision, action text)"


class Unit(BaseModel):
    """A unit, and what is known of it."""

    unit: str
    age: float


app = FastAPI()
_own = threading.local()


def _connection() -> psycopg.Connection:
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(
            os.environ[DATABASE], prepare_threshold=1, autocommit=True
        )
    made: psycopg.Connection = _own.connection
    return made


@app.post("/units")
def write(unit: Unit) -> dict[str, str]:
    """Write one row in its own transaction."""
    action = "mail" if unit.age > 40 else "none"
    connection = _connection()
    with connection.transaction():
        connection.execute("INSERT INTO bare VALUES (%s, %s, %s)", (unit.unit, unit.age, action))
    return {"unit": unit.unit, "action": action}
