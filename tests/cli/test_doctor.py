"""`seqbatch doctor`: what it says of a sound installation, and of what is wrong."""

import json
from importlib.metadata import PackageNotFoundError, version

import sqlalchemy as sa
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.cli import doctor
from seqbatch.cli.app import app
from seqbatch.core.kernels import compiling
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC


def checks(*words):
    done = CliRunner().invoke(app, ["doctor", "--json", *words], catch_exceptions=False)
    return done.exit_code, {one["about"]: one for one in json.loads(done.output)}


def test_a_sound_installation(monkeypatch, tmp_path):
    path = tmp_path / "a.db"
    code, found = checks("--store", str(path))
    assert code == 0
    assert found["store"]["found"] == "none yet"
    assert not path.exists()
    store = open_store(path)
    Campaign.create(SPEC, store=store, who="ann")
    store.close()
    code, found = checks("--store", str(path))
    assert code == 0
    assert found["store"]["found"] == "1 campaign"
    assert found["migrations"]["found"].endswith(f"newest; by version {version('seqbatch')}")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/{name}" if name[0] == "f" else None)
    _, found = checks("--store", str(path))
    assert found["browser"]["found"] == "firefox"
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    _, found = checks("--store", str(path))
    assert found["browser"]["state"] == "not installed"
    assert {one["state"] for one in found.values()} <= {"ok", "not installed"}
    assert found["extra campaign"]["state"] == "ok"


def test_missing_packages_are_named_with_their_extra(monkeypatch, tmp_path):
    plain = doctor.version

    def version(name):
        if name == "psycopg":
            raise PackageNotFoundError(name)
        return plain(name)

    monkeypatch.setattr(doctor, "version", version)
    _, found = checks("--store", str(tmp_path / "a.db"))
    assert found["extra postgres"]["state"] == "not installed"
    assert found["extra postgres"]["found"] == "without psycopg"
    assert found["extra service"]["state"] == "ok"


def test_what_is_wrong_is_said_with_what_to_do(monkeypatch, tmp_path):
    path = tmp_path / "a.db"
    store = open_store(path)
    with store.transaction(write=True) as connection:
        connection.execute(sa.text("DROP TRIGGER events_no_update"))
    store.close()
    monkeypatch.setattr(compiling, "FOLDER", None)
    monkeypatch.setattr(doctor, "LEAST_FREE", 2**80)
    code, found = checks("--store", str(path))
    assert code == 1
    wrong = {name for name, one in found.items() if one["state"] == "wrong"}
    assert wrong == {"store", "compiled code", "disk"}
    assert all(found[name]["advice"] for name in wrong)
    (tmp_path / "b.db").write_text("this is no store")
    code, found = checks("--store", str(tmp_path / "b.db"))
    assert (code, found["store"]["state"]) == (1, "wrong")


def test_every_extra_of_users_is_known():
    needed = {doctor.REQUIREMENT.match(one) for one in doctor.requires("seqbatch")}
    named = {found[2] for found in needed if found}
    assert set(doctor.EXTRAS) == named - {"dev", "docs", "bench"}
