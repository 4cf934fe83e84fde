"""How many calls a token may make, and how long a file may take."""

import io
import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.service import Settings
from tests.campaign.files.damaged_files import crashing
from tests.refusals import refused
from tests.service.pages.visiting import Visit, token
from tests.service.running import running
from tests.service.test_serving import run

ASSIGN = "/v1/campaigns/spring/assignments"
CSV = {"content-type": "text/csv"}


def test_a_token_that_makes_too_many_calls_is_told_when_to_come_again(tmp_path):
    with running(tmp_path / "campaigns.db", rate=0.01, burst=3) as service:
        codes = [service.get("/v1/campaigns", role="viewer").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = service.get("/v1/campaigns", role="viewer")
        assert refused.json()["type"] == "urn:seqbatch:too-many"
        assert 1 <= int(refused.headers["retry-after"]) <= 100
        # Others have buckets of their own, and health is open.
        assert service.get("/v1/campaigns", role="admin").status_code == 200
        assert service.client.get("/health").status_code == 200


def test_an_address_that_sends_wrong_tokens_is_told_when_to_come_again(tmp_path):
    with running(tmp_path / "campaigns.db", wrong_tokens=3) as service:
        wrong = {"authorization": f"Bearer sqb_{'x' * 40}"}
        assert service.get("/v1/campaigns", role="viewer").status_code == 200
        answers = [service.client.get("/v1/campaigns", headers=wrong) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        assert "this address sent more than" in answers[-1].json()["detail"]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        # Who was let in before goes on; who has no token at all is told so.
        assert service.get("/v1/campaigns", role="viewer").status_code == 200
        assert service.client.get("/v1/campaigns").status_code == 401
        visit = Visit(service, None)
        fields = {"token": "sqb_guess", "csrf": token(visit.get("/sign-in").text)}
        assert visit.send("/sign-in", fields).status_code == 429
        visit.close()


def test_pages_are_calls_of_their_token_too(tmp_path):
    with running(tmp_path / "campaigns.db", rate=0.01, burst=3) as service:
        visit = Visit(service, "viewer")
        # Signing in was the first.
        answers = [visit.get("/") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert "Too many calls with this token" in answers[-1].text
        assert service.get("/v1/campaigns", role="viewer").status_code == 429
        fields = {"token": service.token("viewer"), "csrf": token(visit.get("/sign-in").text)}
        assert visit.send("/sign-in", fields).status_code == 429
        visit.close()


def test_pages_keep_to_the_limits_of_files(tmp_path):
    table = pl.DataFrame({"unit": list("abcd"), "age": [31, 45, 28, 60], "visit": [0, 1, 0, 1]})
    packed = io.BytesIO()
    table.write_parquet(packed)
    with running(tmp_path / "campaigns.db", file_rows=3, folder=tmp_path / "up") as service:
        campaign, visit = service.campaign(), Visit(service)
        csrf = token(visit.get("/").text)
        fields = {"csrf": csrf, "once": "x" * 20, "wave": "1"}
        for path in ("/campaigns/spring/units", "/campaigns/spring/outcomes"):
            sent = {"file": ("units.csv", table.write_csv().encode())}
            at = visit.send(path, {"csrf": csrf}, files=sent).headers["location"]
            for answer in (visit.get(at), visit.send(at, fields)):
                assert answer.status_code == 413
                assert "at most 3 rows" in answer.text
        for path in ("/campaigns/spring/units", "/campaigns/spring/outcomes", "/new"):
            # By what the file states, before any row of it is read, and it is not kept.
            sent = {"file": ("units.parquet", packed.getvalue())}
            assert visit.send(path, {"csrf": csrf}, files=sent).status_code == 413
        assert not [*tmp_path.glob("up/uploads/*/*.parquet"), *tmp_path.glob("up/*/*/*.partial")]
        assert len(campaign.events()) == 1
        visit.close()


def test_an_upload_that_aborts_its_reader_is_refused(tmp_path):
    content = crashing(pa.table({"unit": ["a", "b"], "age": [1, 2]}))
    with running(tmp_path / "campaigns.db", folder=tmp_path / "up") as service:
        service.campaign()
        visit = Visit(service)
        csrf = token(visit.get("/").text)
        for path in ("/campaigns/spring/units", "/new"):
            sent = {"file": ("units.parquet", content)}
            answer = visit.get(visit.send(path, {"csrf": csrf}, files=sent).headers["location"])
            assert "units.parquet" in answer.text
            assert "the reader crashed (SIGABRT)" in answer.text
        visit.close()


def test_a_file_that_takes_too_long_is_let_go(tmp_path):
    with running(tmp_path / "campaigns.db", file_seconds=1e-9) as service:
        service.campaign()
        answer = service.call("POST", ASSIGN, content=b"unit,age\na,1\n", headers=CSV)
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:seqbatch:too-slow"
        outcomes = "/v1/campaigns/spring/outcomes"
        answer = service.call("POST", outcomes, content=b"unit,visit\na,1\n", headers=CSV)
        assert answer.status_code == 503
        assert Campaign(service.store, "spring").situation().sequence == 1


@pytest.mark.parametrize("word", ["rate", "rate=", "rate=0", "rate=inf", "burst=1.5", "colour=1"])
def test_limits_are_checked(word):
    with refused("invalid-argument", field="limit"):
        Settings().changed([word])


def test_settings_reach_the_workers_as_they_are():
    changed = Settings().changed(["rate=50", "file_rows=7"])
    assert Settings.of_text(changed.as_text()) == changed
    assert (changed.rate, changed.file_rows) == (50.0, 7)


def test_the_page_has_limits_with_their_defaults_and_the_reference_has_all():
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.MULTILINE)
    limits = vars(Settings())
    assert len(rows) > 5
    for name, value in rows:
        assert float(value.replace(",", "")) == limits[name], name
    # The reference shows its docstring.
    described = re.findall(r"^    (\w[\w, ]*)$", Settings.__doc__, re.MULTILINE)
    assert {name for line in described for name in line.split(", ")} >= set(limits)


def test_several_workers_need_a_server(tmp_path):
    said = run("serve", "--store", tmp_path / "campaigns.db", "--workers", "2", code=2).output
    assert "PostgreSQL" in said
