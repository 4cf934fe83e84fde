"""The files that a reader deploys by: what they promise of root, secrets and versions."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from seqbatch import __version__
from seqbatch.service.roles import API

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
UNIT = (ROOT / "deploy" / "seqbatch.service").read_text(encoding="utf-8")


def said(text, word):
    return re.findall(rf"^{word}[ =](.+)$", text, re.MULTILINE)


def test_the_image_runs_without_root_and_by_versions():
    assert said(DOCKERFILE, "USER") == ["10001:10001"]
    # The last word on who runs it comes after everything that needs root.
    assert DOCKERFILE.index("\nUSER ") > DOCKERFILE.rindex("\nRUN ")
    for image in said(DOCKERFILE, "FROM"):
        assert re.match(r"python:3\.\d+\.\d+-slim-\w+( AS build)?$", image), image
    assert "--require-hashes" in DOCKERFILE
    assert f"seqbatch:{__version__} " in DOCKERFILE
    copied = [word for line in said(DOCKERFILE, "COPY") for word in line.split()[:-1]]
    for word in copied:
        assert word.startswith(("--from", "/opt")) or (ROOT / word).exists(), word


def test_every_pin_of_the_image_has_a_hash():
    pins = (ROOT / "requirements" / "service.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([\w.-]+)==.*\\\n    --hash=sha256:", pins, re.MULTILINE)
    assert {"fastapi", "uvicorn", "psycopg-binary", "hatchling"} <= set(names)
    assert len(names) == len(re.findall(r"^[\w.-]+==", pins, re.MULTILINE))
    developed = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    # What is served is what was tested.
    for pin in re.findall(r"^[\w.-]+==[\w.]+", pins, re.MULTILINE):
        assert pin in developed, pin


@pytest.mark.parametrize("name", ["service", "database"])
def test_containers_have_no_more_rights_than_they_need(name):
    made = COMPOSE["services"][name]
    assert made["read_only"] is True
    assert made["cap_drop"] == ["ALL"]
    assert made["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", made["user"])
    assert "privileged" not in made
    assert "latest" not in made["image"]
    assert made["healthcheck"]["test"][0] == "CMD"
    assert all("size=" in mount for mount in made["tmpfs"])
    # Secrets are files: no variable holds one.
    assert not [key for key in made.get("environment", {}) if re.search("PASSWORD$|SECRET", key)]
    for port in made.get("ports", []):
        assert port.startswith("127.0.0.1:")


def test_the_parts_fit_together():
    service, database = COMPOSE["services"]["service"], COMPOSE["services"]["database"]
    assert service["image"] == f"seqbatch:{__version__}"
    assert service["user"] == said(DOCKERFILE, "USER")[0]
    assert database["networks"] == ["inside"]
    # The proxy comes from the bridge: only when it is trusted is the cookie bound to TLS.
    [outside] = COMPOSE["networks"]["outside"]["ipam"]["config"]
    assert f"--proxy={outside['gateway']}" in service["command"]
    assert "--proxy 127.0.0.1" in UNIT
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    [asked] = {re.search(r"8000(/\w+)'", text)[1] for text in (DOCKERFILE, str(service))}
    assert API["GET", asked] is None
    for made in (service, database):
        assert set(made["secrets"]) <= set(COMPOSE["secrets"])
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert "deploy/secrets/" in ignored


def test_the_unit_is_understood_and_hardened(tmp_path):
    for setting in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"\n{setting}\n" in UNIT
    assert said(UNIT, "CapabilityBoundingSet") == []
    assert "\nCapabilityBoundingSet=\n" in UNIT
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze is installed here")
    unit = tmp_path / "seqbatch.service"
    unit.write_text(UNIT.replace("/opt/seqbatch/bin/seqbatch", "/bin/true"), encoding="utf-8")
    verified = subprocess.run([program, "verify", unit], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    looked = subprocess.run(
        [program, "security", "--offline=true", unit], capture_output=True, text=True
    )
    exposure = re.search(r"exposure level for seqbatch\.service: ([\d.]+)", looked.stdout)
    assert float(exposure[1]) < 2.0
