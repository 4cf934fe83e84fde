"""An attack on a masked trial with looks: whoever is not on the committee finds out nothing."""

import json
import logging
import re
from hashlib import blake2b
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec import masking
from seqbatch.campaign.spec.masking import Key
from seqbatch.cli.app import app
from seqbatch.service import roles
from tests.campaign.specs import about
from tests.service.pages.visiting import Visit
from tests.service.running import running

SEED = 7_123_456_789_012_345
ARMS = ("placebo-x", "low dose", "high dose")
SPEC = {
    "name": "trial", "seed": SEED, "actions": list(ARMS), "control": "placebo-x",
    **about("score", range=[0, 20]), "features": {"numeric": {"age": "raw"}},
    "grid": {"sizes": [90, 90, 90]}, "floor": 0.05, "randomised": 0.1,
    "masked": True, "interim": "committee",
    "stopping": {"rule": "obrien-fleming", "alpha": 0.001, "looks": "key holder"},
}  # fmt: skip
#: Options that change what a route answers.
ASKED = {
    "report": ["?format=html", "?format=json", "?at_event=4"],
    "protocol": ["?format=html", "?format=json"],
    "export": [f"?what={what}" for what in ("units", "outcomes", "rows", "held", "events")],
    "document": ["?what=report&format=json", "?what=protocol&format=md"],
    "findings": ["", "?tree=true", "?at_event=4"],
    "status": ["", "?at_event=4"],
    "rule": ["", "?kind=tree&format=sql"],
}
#: Counts or values by code, in JSON, in sentences and in tables.
BY_CODE = re.compile(r'"[ABC]": ?[\d.-]|\b[ABC] \d|<td>[ABC]</td>|^[│|] *[ABC] *[│|]', re.MULTILINE)


class Attack:
    """A running trial, what everybody could open or read of it, and what they must not find."""

    def __init__(self, service, folder):
        self.service, self.folder = service, folder
        self.key = folder / "safe" / "trial.key"
        self.key.parent.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            # Which arm is A decides what a look says, and is drawn anew for each campaign.
            patch.setattr(masking.secrets, "SystemRandom", lambda: Random(1))
            Campaign.create(SPEC, store=service.store, key=self.key, who="ann")
        #: Each text with who could read it.
        self.read = []
        self.means = []

    def cli(self, *words, code=0):
        words = (*words, "--store", str(self.folder / "campaigns.db"))
        result = CliRunner().invoke(app, ["campaign", *words])
        assert result.exit_code == code, result.output
        self.read.append(("command line", " ".join(words), result.output))
        return result.output

    def post(self, path, body, role, status=200):
        answer = self.service.post(f"/v1/campaigns/trial/{path}", body, role=role)
        assert answer.status_code == status, answer.text
        self.read.append((role, f"POST {path}", answer.text))
        return answer.json()

    def outcomes(self, answers):
        """Return outcomes of assigned units; keep each code's mean."""
        codes = Key.read(self.key).codes
        rows = [
            {"unit": one["unit"], "score": (5.4 if codes[one["action"]] == "high dose" else 5.0)
             + place * 7919 % 13 / 7.3}
            for place, one in enumerate(answers)
        ]  # fmt: skip
        for code in codes:
            own = [row["score"] for row, one in zip(rows, answers, strict=True)
                   if one["action"] == code]  # fmt: skip
            self.means.append(sum(own) / len(own))
        return rows


def units(wave):
    return [{"unit": f"P-{wave}-{n:03}", "age": 20 + n * 37 % 60} for n in range(90)]


def first_wave(trial):
    """Over HTTP: one role enrols, another records and closes."""
    made = trial.post("assignments", {"units": units(1)}, "enrol")["assignments"]
    assert {name for row in made for name in row} == {"unit", "action", "wave", "repeated"}
    trial.post("outcomes", {"outcomes": trial.outcomes(made)}, "operator")
    assert trial.post("close", {"wave": 1}, "operator")["assigned"] == {"all actions": 90}
    refused = trial.post("assignments", {"units": units(2)}, "enrol", status=409)
    assert refused["code"] == "look-due"
    visit = Visit(trial.service, "admin")
    for page in ("", "/change", "/close"):
        text = visit.get(f"/campaigns/trial{page}").text
        assert page == "/close" or "A look is due" in text
        trial.read.append(("admin", page, text))
    visit.close()
    look(trial, 1)


def second_wave(trial):
    """On the command line."""
    folder = trial.folder
    pl.DataFrame(units(2)).write_csv(folder / "units.csv")
    trial.cli("assign", "trial", str(folder / "units.csv"), "--out", str(folder / "answers.csv"))
    header, *_ = (folder / "answers.csv").read_text().splitlines()
    assert header == "unit,action,wave"
    made = pl.read_csv(folder / "answers.csv").to_dicts()
    pl.DataFrame(trial.outcomes(made)).write_csv(folder / "outcomes.csv")
    trial.cli("record", "trial", str(folder / "outcomes.csv"))
    trial.cli("close", "trial")
    look(trial, 2)
    trial.cli("close", "trial", "--wave", "2")
    trial.cli("close", "trial", "--wave", "2", "--json")


def look(trial, wave):
    out = trial.key.with_name(f"closed-{wave}.html")
    trial.cli("look", "trial", "--key", str(trial.key), "--out", str(out))
    assert "high dose" in out.read_text()


def commands(trial):
    """Try every command that shows something, without the key."""
    for words in (["status"], ["show-event"], ["show-event", "1"], ["show-event", "5"],
                  ["verify"], ["replan"]):  # fmt: skip
        first, *rest = words
        trial.cli(first, "trial", *rest)
        trial.cli(first, "trial", *rest, "--json")
    trial.cli("list")
    for words in (["findings"], ["findings", "--at-event", "4"], ["rule"],
                  ["sql", "--units", "t"]):  # fmt: skip
        trial.cli(words[0], "trial", *words[1:], code=3)
    for what in ("units", "outcomes", "rows", "held", "events"):
        out = trial.folder / f"export-{what}.csv"
        trial.cli("export", "trial", "--what", what, "--out", str(out),
                  code=0 if what == "events" else 3)  # fmt: skip
        assert out.exists() == (what == "events")
    trial.read.append(("command line", "export", (trial.folder / "export-events.csv").read_text()))
    trial.cli("report", "trial", "--out", str(trial.folder / "report.html"), code=3)
    trial.cli("protocol", "trial", "--out", str(trial.folder / "protocol.html"))
    trial.read.append(("command line", "protocol", (trial.folder / "protocol.html").read_text()))


def routes(trial):
    """Open every address that shows something, as every role."""
    for role in ("viewer", "enrol", "operator", "admin"):
        visit = Visit(trial.service, role)
        for method, route in roles.ROUTES:
            if method != "GET" or "once" in route or "fingerprint" in route:
                continue
            for asked in ASKED.get(route.rsplit("/", 1)[-1], [""]):
                path = route.replace("{name}", "trial") + asked
                api = route.startswith(("/v1", "/metrics"))
                got = trial.service.get(path, role=role) if api else visit.get(path)
                assert got.status_code < 500
                trial.read.append((role, path, got.text))
        visit.close()


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("withheld")
    with running(folder / "campaigns.db") as service:
        made = Attack(service, folder)
        logs = Logs()
        logging.getLogger().addHandler(logs)
        try:
            first_wave(made)
            second_wave(made)
            made.cli("unblind", "trial", "P-1-003", "--key", str(made.key), "--reason", "a fall")
            # What the key holder was shown is not for the others.
            made.read.pop()
            commands(made)
            routes(made)
        finally:
            logging.getLogger().removeHandler(logs)
        made.read.append(("logs", "", "\n".join(logs.lines)))
        yield made


class Logs(logging.Handler):
    """Collects all messages of all loggers."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def test_much_was_opened(trial):
    assert len(trial.read) > 150
    assert sum("the declared rule" in text or "trial" in text for _, _, text in trial.read) > 100


def test_nobody_finds_a_name_or_a_key(trial):
    key = Key.read(trial.key)
    for who, what, text in trial.read:
        for secret in (*ARMS, key.salt, json.dumps(key.codes)):
            assert secret not in text, (who, what)


def test_nobody_below_admin_can_foresee_an_action(trial):
    created = Campaign(trial.service.store, "trial").events()[0].payload
    secrets = [
        str(SEED), f"{SEED:x}", created["salt"],
        blake2b(f"{SEED}\ntrial".encode(), digest_size=32).hexdigest(),
    ]  # fmt: skip
    for who, what, text in trial.read:
        found = [secret for secret in secrets if secret in text]
        assert who == "admin" or not found, (who, what)
    # The search finds what is there.
    assert any(who == "admin" and str(SEED) in text for who, _, text in trial.read)


def test_nobody_sees_a_statistic_or_a_mean(trial):
    campaign = Campaign(trial.service.store, "trial")
    looks = campaign.findings(key=trial.key).stopping.looks
    assert len(looks) == 2
    numbers = [
        value
        for one in looks
        for row in one.actions
        for value in (row.statistic, row.low, row.high)
    ]
    hidden = {f"{abs(value):.7f}"[:5] for value in (*numbers, *trial.means)}
    assert len(hidden) > 12
    # Measured times are not results, but may be equal to any number.
    for who, what, text in [each for each in trial.read if each[1] != "/metrics"]:
        for number in hidden:
            assert not re.search(rf"(?<![\d.]){re.escape(number)}", text), (who, what, number)
    report = campaign.report(trial.folder / "safe" / "report.json", key=trial.key).read_text()
    assert sum(number in report for number in hidden) > 6


def test_nobody_sees_how_often_a_code_was_given(trial):
    """With a policy that learns, the better arm is given more often."""
    for who, what, text in trial.read:
        found = BY_CODE.search(text)
        assert found is None or what == "POST assignments", (who, what, found)


def test_the_committee_sees_results_by_code_but_enrols_nobody(trial):
    service = trial.service
    status = service.get("/v1/campaigns/trial/status", role="committee").json()
    assert {row["action"] for row in status["actions"]} == {"A", "B", "C"}
    found = service.get("/v1/campaigns/trial/findings", role="committee")
    assert found.status_code == 200
    assert not [name for name in ARMS if name in found.text]
    visit = Visit(service, "committee")
    assert "Results of the closed waves" in visit.get("/campaigns/trial").text
    for page in ("findings", "report", "history", "protocol"):
        assert visit.get(f"/campaigns/trial/{page}").status_code == 200
    visit.close()
    events = service.get("/v1/campaigns/trial/events", role="committee").text
    assert str(SEED) not in events
    answer = service.post("/v1/campaigns/trial/assignments", {"units": units(3)}, role="committee")
    assert answer.status_code == 403


def test_who_enrols_sees_no_results_of_an_open_campaign_either(trial):
    service = trial.service
    plain = Campaign.create(
        {**SPEC, "name": "open", "masked": False, "interim": "open", "stopping": {}},
        store=service.store, who="ann",
    )  # fmt: skip
    made = service.post("/v1/campaigns/open/assignments", {"units": units(1)}, role="enrol").json()
    assert set(made["assignments"][0]) == {"unit", "action", "wave", "repeated"}
    rows = [{"unit": one["unit"], "score": 1.0 + n % 7} for n, one in enumerate(units(1))]
    plain.record(pa.Table.from_pylist(rows))
    plain.close()
    assert service.get("/v1/campaigns/open/status", role="enrol").json()["actions"] == []
    assert service.get("/v1/campaigns/open/status", role="viewer").json()["actions"]
    for view in ("findings", "report", "rule"):
        answer = service.get(f"/v1/campaigns/open/{view}", role="enrol")
        assert answer.status_code == 403
    visit = Visit(service, "enrol")
    page = visit.get("/campaigns/open").text
    assert "Results of the closed waves" not in page
    assert visit.get("/campaigns/open/document?what=report&format=json").status_code != 200
    visit.close()


def test_a_withheld_campaign_is_created_where_its_key_is_a_file(trial):
    spec = {**SPEC, "name": "other", "masked": False, "stopping": {}}
    answer = trial.service.post("/v1/campaigns", {"spec": spec})
    assert (answer.status_code, answer.json()["field"]) == (422, "interim")
