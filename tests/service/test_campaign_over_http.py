"""A whole campaign over HTTP, from the plan to the export."""

import inspect
import io
import json
import zipfile

import polars as pl
import pytest
import python_calamine as calamine

from seqbatch import planning
from seqbatch.service.api_models import CampaignPlanBody, PlanBody
from tests.campaign.files.workbooks import write_workbook
from tests.service.running import OUTCOMES, SPEC, UNITS, running

CLOSE = "/v1/campaigns/spring/close"


@pytest.fixture
def service(tmp_path):
    with running(tmp_path / "campaigns.db") as made:
        yield made


def test_a_campaign_from_spec_to_report(service):
    found = service.post("/v1/campaigns/validate", {"spec": SPEC, "units": UNITS}).json()
    assert found["sound"], found
    assert found["sizes"] == [4, 4]
    created = service.post("/v1/campaigns", {"spec": SPEC})
    assert created.status_code == 201
    assert created.json()["next"] == "assign"
    answer = service.post("/v1/campaigns/spring/assignments", {"units": UNITS}).json()
    assert [row["unit"] for row in answer["assignments"]] == list("abcd")
    assert {row["action"] for row in answer["assignments"]} <= {"none", "mail"}
    assert answer["left"] == 0
    again = service.post("/v1/campaigns/spring/assignments", {"units": UNITS[:1]}).json()
    assert again["assignments"] == [{**answer["assignments"][0], "repeated": True}]
    assert again["event"] is None
    recorded = service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES}).json()
    assert recorded["accepted"] == 4
    closed = service.post("/v1/campaigns/spring/close", {"wave": 1})
    assert closed.status_code == 200
    assert sum(closed.json()["observed"].values()) == 4
    status = service.get("/v1/campaigns/spring/status", role="viewer").json()
    assert [wave["closed"] for wave in status["waves"]] == [True, False]
    found = service.get("/v1/campaigns/spring/findings", role="viewer").json()
    assert found["decision"]["lead"]
    asked = service.get(
        "/v1/campaigns/spring/findings?tree=true&boosted_trees=true&conditional_power=true",
        role="viewer",
    ).json()
    assert asked["tree"]["sentences"][0].startswith("There is no tree.")
    assert asked["trees"]["gain"]["note"]
    for kind, begins in (("json", "{"), ("sql", "-- {"), ("python", '"""Give each unit')):
        rule = service.get(f"/v1/campaigns/spring/rule?format={kind}", role="viewer")
        assert rule.text.startswith(begins)
    tree = service.get("/v1/campaigns/spring/rule?kind=tree", role="viewer")
    assert (tree.status_code, tree.json()["code"]) == (409, "no-rule")
    for kind, begins in (("html", "<!doctype html>"), ("md", "# "), ("json", "{")):
        report = service.get(f"/v1/campaigns/spring/report?format={kind}", role="viewer")
        assert report.status_code == 200
        assert report.text.lower().startswith(begins)
    protocol = service.get("/v1/campaigns/spring/protocol?format=md", role="viewer")
    assert protocol.text.startswith("# ")
    export = service.get("/v1/campaigns/spring/export")
    assert pl.read_csv(io.BytesIO(export.content))["unit"].to_list() == list("abcd")
    events = service.get("/v1/campaigns/spring/events", role="viewer").json()["events"]
    assert [event["kind"] for event in events] == ["create", "assign", "record", "close"]
    assert {event["who"] for event in events} == {"admin"}
    claimed = {"meaning": "read", "who": "somebody else"}
    assert service.post("/v1/campaigns/spring/sign", claimed).status_code == 422
    assert service.post("/v1/campaigns/spring/sign", {"meaning": "read"}).json()["who"] == "admin"
    assert service.post("/v1/campaigns/spring/abort", {"reason": "enough"}).status_code == 200
    assert service.get("/v1/campaigns").json()["campaigns"][0]["condition"] == "aborted"


def test_a_plan(service):
    body = {"units": 20_000, "actions": 3, "features": 4, "contexts": "adversarial"}
    answer = service.post("/v1/plan", body, role="viewer")
    assert answer.status_code == 200
    assert sum(answer.json()["sizes"]) == 20_000


def test_a_plan_takes_what_the_planner_takes(service):
    known = set(inspect.signature(planning.plan).parameters) - {"progress", "history"}
    assert known == set(PlanBody.model_fields)
    body = {
        "units": 2_000, "actions": 2, "features": 1, "effect": [0.3], "effect_spread": 1.5,
        "batches": 2, "detect": 0.3, "quick": True, "max_batches": 2,
    }  # fmt: skip
    answer = service.post("/v1/plan", body, role="viewer")
    assert answer.status_code == 200, answer.text
    told = planning.plan(**body).as_dict()
    assert answer.json() == json.loads(json.dumps(told))


@pytest.mark.usefixtures("few_trials")
def test_a_campaigns_plan_is_that_of_python(service):
    known = set(inspect.signature(planning.plan_campaign).parameters) - {"progress"}
    assert known == set(CampaignPlanBody.model_fields)
    body = {
        "customers": 9_000, "actions": ["none", "mail"], "base_rate": "4%",
        "smallest_lift": "1pp", "value": "12EUR", "costs": {"mail": 0.01}, "waves": 2,
        "after": 500,
    }  # fmt: skip
    answer = service.post("/v1/plan/campaign", body, role="viewer")
    assert answer.status_code == 200, answer.text
    assert answer.json() == json.loads(json.dumps(planning.plan_campaign(**body).as_dict()))
    wrong = service.post("/v1/plan/campaign", {**body, "value": "twelve"}, role="viewer")
    assert wrong.status_code == 422
    assert "with its currency" in wrong.text


def test_a_spec_as_toml(service):
    text = (
        'name = "toml"\nseed = 7\nactions = ["none", "mail"]\n[grid]\nsizes = [4, 4]\n[metrics]\n'
        'visit = {kind = "yes/no"}\n[objective]\nmaximise = "visit"\n'
        '[features.numeric]\nage = "raw"\n'
    )
    assert service.post("/v1/campaigns", {"spec": text}).status_code == 201
    refused = service.post("/v1/campaigns", {"spec": text.replace("seed = 7", "seed = x")})
    assert refused.status_code == 422
    assert "seed = x" in refused.json()["detail"]


def test_held_rows_have_one_shape_whatever_the_id_is_called(service):
    for number, columns in enumerate((["customer"], ["customer", "week"])):
        spec = {**SPEC, "unit": columns, "name": f"held-{number}"}
        [units, outcomes] = (
            [{**dict.fromkeys(columns, row["unit"]), key: row[key]} for row in rows]
            for rows, key in ((UNITS, "age"), (OUTCOMES, "visit"))
        )
        outcomes[1] |= dict.fromkeys(columns, "ghost")
        trial = {"spec": spec, "units": units, "outcomes": outcomes}
        tried = service.post("/v1/campaigns/validate", trial).json()["outcomes"]
        service.post("/v1/campaigns", {"spec": spec})
        at = f"/v1/campaigns/{spec['name']}"
        service.post(f"{at}/assignments", {"units": units})
        dry = service.post(f"{at}/outcomes", {"outcomes": outcomes, "dry_run": True}).json()
        unit, why = "|".join(["ghost"] * len(columns)), "no such unit in this campaign"
        shown = {"line": 2, "unit": unit, "verdict": "quarantined", "reason": why}
        assert (dry["accepted"], dry["held"]) == (3, [shown])
        assert tried == dry
    described = service.get("/v1/openapi.json").json()["components"]["schemas"]
    answered = described["ValidateAnswer"]["properties"]["outcomes"]["anyOf"]
    assert {"$ref": "#/components/schemas/OutcomesAnswer"} in answered


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_of_units_and_outcomes(service, kind):
    service.campaign()
    media_types = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
    headers = {"content-type": media_types[kind]}

    def written(rows):
        file = io.BytesIO()
        frame = pl.DataFrame(rows)
        {"csv": frame.write_csv, "parquet": frame.write_parquet}[kind](file)
        return file.getvalue()

    answer = service.call(
        "POST", "/v1/campaigns/spring/assignments", content=written(UNITS), headers=headers,
        key="file",
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert answer.headers["seqbatch-assigned"] == "4"
    reader = {"csv": pl.read_csv, "parquet": pl.read_parquet}[kind]
    assert reader(io.BytesIO(answer.content))["unit"].to_list() == list("abcd")
    again = service.call(
        "POST", "/v1/campaigns/spring/assignments", content=written(UNITS), headers=headers,
        key="file",
    )  # fmt: skip
    assert again.content == answer.content
    assert again.headers["seqbatch-assigned"] == "4"
    recorded = service.call(
        "POST", "/v1/campaigns/spring/outcomes", content=written(OUTCOMES), headers=headers
    )
    assert recorded.json()["accepted"] == 4
    event = service.get("/v1/campaigns/spring/events").json()["events"][1]
    assert "file" not in event["payload"]


WORKBOOK = {
    "content-type": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
}  # fmt: skip


def test_workbooks_of_units_and_outcomes(service, tmp_path):
    service.campaign()
    at = "/v1/campaigns/spring"
    rows = [["Spring", None, None], ["unit", "mail", "age"]]
    rows += [[unit, f"{unit}@x.org", 31] for unit in "abcda"]
    content = write_workbook(tmp_path / "u.xlsx", rows, before=["Info"]).read_bytes()

    def posted(query, **options):
        return service.call(
            "POST", f"{at}/assignments{query}", content=content, headers=WORKBOOK, **options
        )

    problem = posted("").json()
    assert problem["remedies"] == [{"action": "skip-rows", "options": {"skip_rows": 1}}]
    problem = posted("?skip_rows=1").json()
    assert problem["remedies"] == [{"action": "dedupe", "options": {"dedupe": "last"}}]
    assert 'dedupe = "last"' in problem["detail"]
    assert problem["errors"][0]["row"] == 7
    for wrong in ("dedupe=best", "skip_rows=-1", "skip_rows=x", "split_by=wave", "format=xls"):
        assert posted(f"?{wrong}").status_code == 422
    query = "?skip_rows=1&dedupe=last&sheet=Data&with=mail"
    answer = posted(query, key="k")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == WORKBOOK["content-type"]
    assert answer.headers["seqbatch-assigned"] == "4"
    said = json.loads(answer.headers["seqbatch-read-as"])
    assert said.startswith("body was read from sheet 'Data', not 'Info'; 1 row of 1 unit (unit)")
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(answer.content))
    header, *found = book.get_sheet_by_index(0).to_python()
    assert header[:3] == ["unit", "mail", "action"]
    assert [row[:2] for row in found] == [[u, f"{u}@x.org"] for u in "bcda"]
    assert posted(query, key="k").content == answer.content
    assert posted(query.replace("last", "first"), key="k").json()["code"] == "key-reused"
    lists = posted(f"{query}&split_by=action&format=csv")
    assert lists.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(lists.content)) as archive:
        assert archive.namelist() == ["assignments-mail.csv", "assignments-none.csv"]
    rows = [["unit", "visit"], ["a", 1], ["b", 0], ["a", 0]]
    outcomes = write_workbook(tmp_path / "o.xlsx", rows).read_bytes()
    recorded = service.call(
        "POST", f"{at}/outcomes?dedupe=first", content=outcomes, headers=WORKBOOK
    ).json()
    assert (recorded["accepted"], recorded["rows"]) == (2, 2)
    assert "kept the first of each" in recorded["read_as"]


def test_rows_of_repeated_units(service):
    service.campaign()
    units = [*UNITS, {**UNITS[0], "age": 99}]
    refused = service.post("/v1/campaigns/spring/assignments", {"units": units}).json()
    assert refused["remedies"][0]["action"] == "dedupe"
    body = {"units": units, "dedupe": "newest-by age"}
    found = service.post("/v1/campaigns/spring/assignments", body).json()
    assert len(found["assignments"]) == 4
    outcomes = [*OUTCOMES, OUTCOMES[0]]
    body = {"outcomes": outcomes, "dedupe": "last"}
    assert service.post("/v1/campaigns/spring/outcomes", body).json()["rows"] == 4


def test_the_dialect_of_a_text_file_is_answered(service):
    service.campaign()
    answer = service.call(
        "POST", "/v1/campaigns/spring/assignments", content=b"unit;age\n\xf11;31\n\xf12;30\n",
        headers={"content-type": "text/csv"},
    )  # fmt: skip
    assert answer.headers["content-type"] == "text/csv; charset=windows-1252"
    assert answer.content.decode("cp1252").splitlines()[1].startswith("ñ1;")


@pytest.mark.parametrize("what", ["assignments", "outcomes"])
def test_a_file_of_no_known_kind_is_told_the_kinds(service, what):
    service.campaign()
    sent = {"content-type": "application/x-www-form-urlencoded"}
    answer = service.call(
        "POST", f"/v1/campaigns/spring/{what}", content=b"unit,age\na,3\n", headers=sent
    )
    assert answer.status_code == 415
    said = answer.json()["detail"]
    assert said.startswith("the body must be one of application/json, text/csv, application/vnd")
    assert said.endswith("; received application/x-www-form-urlencoded.")


def test_a_file_that_breaks_rules_is_named_as_the_body(service):
    service.campaign()
    answer = service.call(
        "POST", "/v1/campaigns/spring/assignments", content=b"unit,age\na,x\n",
        headers={"content-type": "text/csv"},
    )  # fmt: skip
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith("body: 1 problem")
    [problem] = answer.json()["errors"]
    assert problem.pop("reason")
    assert problem == {"line": 2, "column": "age", "code": "not-a-number"}


@pytest.mark.parametrize(
    "headers", [{}, {"content-type": "application/json"},
                {"content-type": "application/x-www-form-urlencoded"}],
    ids=["no kind", "JSON", "a form, as curl -d '' has it"],
)  # fmt: skip
def test_a_close_without_a_body_is_one_that_names_nothing(service, headers):
    made = service.campaign()
    made.assign(pl.DataFrame(UNITS))
    made.record(pl.DataFrame(OUTCOMES))
    answer = service.call("POST", CLOSE, headers=headers, key="first")
    assert answer.status_code == 200, answer.text
    assert [event.kind for event in made.events()][-1] == "close"
    again = service.post(CLOSE, {}, key="first")
    assert (again.status_code, again.content) == (200, answer.content)
    assert made.situation().wave == 2


def test_a_finished_campaign_is_in_its_last_wave_whoever_asks(service):
    made = service.campaign(grid={"sizes": [4]})
    made.assign(pl.DataFrame(UNITS))
    made.record(pl.DataFrame(OUTCOMES))
    made.close()
    short = service.get("/v1/campaigns/spring").json()
    status = service.get("/v1/campaigns/spring/status").json()
    assert (short["condition"], short["wave"], status["wave"]) == ("finished", 1, 1)
    begun = service.get("/v1/campaigns/spring/status?at_event=2").json()
    assert (begun["condition"], begun["wave"]) == ("open", 1)
    again = service.post("/v1/campaigns/spring/assignments", {"units": UNITS[:1]}).json()
    assert (again["wave"], again["event"], again["left"]) == (1, None, 0)


def test_rows_have_the_unit_column_of_the_spec(service):
    service.campaign(unit="customer_id")
    rows = [{"customer_id": row["unit"], "age": row["age"]} for row in UNITS]
    answer = service.post("/v1/campaigns/spring/assignments", {"units": rows}).json()
    assert [row["customer_id"] for row in answer["assignments"]] == list("abcd")
    outcomes = {"outcomes": [{"customer_id": "a", "visit": 1}]}
    assert service.post("/v1/campaigns/spring/outcomes", outcomes).json()["accepted"] == 1
    refused = service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    assert refused.status_code == 422


def test_what_a_body_must_hold_is_said_where_it_is_needed(service):
    service.campaign()
    for step in ("close", "amend"):
        answer = service.call(
            "POST", f"/v1/campaigns/spring/{step}", content=b"{}", headers={"content-type": "a/b"}
        )
        assert answer.status_code == 415, step
    assert service.call("POST", "/v1/campaigns/spring/amend").status_code == 415
    paths = service.get("/v1/openapi.json").json()["paths"]
    optional = {
        path
        for path, methods in paths.items()
        if not methods.get("post", {}).get("requestBody", {"required": True})["required"]
    }
    assert optional == {"/v1/campaigns/{name}/close"}


def test_a_campaign_starts_from_an_earlier_one(service):
    service.post("/v1/campaigns", {"spec": SPEC})
    service.post("/v1/campaigns/spring/assignments", {"units": UNITS})
    service.post("/v1/campaigns/spring/outcomes", {"outcomes": OUTCOMES})
    service.post(CLOSE, {})
    service.post("/v1/campaigns/spring/abort", {"reason": "enough"})
    sums = service.get("/v1/campaigns/spring/export?what=sums")
    assert sums.headers["content-type"] == "application/json"
    assert sums.json()["units"] == 4
    later = {**SPEC, "name": "summer", "history": {"campaign": "spring"}}
    found = service.post("/v1/campaigns/validate", {"spec": later, "units": UNITS}).json()
    assert found["sound"], found
    truths = [{"none": 0.2, "mail": 0.4, "spread": {"sd": 0.1}}]
    asked = {"spec": later, "units": UNITS, "truths": truths, "campaigns": 1}
    greedy = {**later, "name": "g", "policy": {"kind": "SBPE"}, "grid": {"sizes": [4, 4, 4]}}
    made = service.post("/v1/campaigns", {"spec": greedy})
    assert ["lock in" in said for said in made.json()["warnings"]] == [True], made.text
    rehearsed = service.post("/v1/campaigns/rehearse", asked)
    assert rehearsed.status_code == 200, rehearsed.text
    made = service.post("/v1/campaigns", {"spec": later})
    assert (made.status_code, made.json()["warnings"]) == (201, [])
    assert service.post("/v1/campaigns/summer/assignments", {"units": UNITS}).status_code == 200
    for history, field in (({"file": "/etc/passwd"}, "file"), ({"campaign": "x"}, "campaign")):
        refused = service.post(
            "/v1/campaigns", {"spec": {**later, "name": "y", "history": history}}
        )
        assert refused.status_code == 422
        assert refused.json()["field"] == f"history.{field}"
    # A token that may not see the earlier campaign cannot start from it either.
    secret = service.token("apart", role="admin", campaigns=("autumn",))
    refused = service.client.post(
        "/v1/campaigns",
        json={"spec": {**later, "name": "autumn"}},
        headers={"authorization": f"Bearer {secret}"},
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "history.campaign")
