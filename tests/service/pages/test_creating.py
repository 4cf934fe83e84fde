"""A new campaign by a form: proposals, corrections, errors at their fields, created once."""

import io
import json
import re
import tomllib
from html import unescape
from html.parser import HTMLParser

import polars as pl
import pytest
import xlsxwriter

from seqbatch import planning
from seqbatch.campaign import Campaign
from seqbatch.service import rehearsals
from seqbatch.service.pages.campaign_plan import shown_plan
from seqbatch.storage import tokens
from tests.hostile import EVERY, SCRIPTS, TERMINAL, acts
from tests.service.pages.visiting import Visit
from tests.service.running import running

ROWS = 60
TABLE = pl.DataFrame(
    {
        "customer": [f"c{row:03d}" for row in range(ROWS)],
        "age": [20 + row % 40 for row in range(ROWS)],
        "region": [("north", "south", "east")[row % 3] for row in range(ROWS)],
        "visited": [row % 2 for row in range(ROWS)],
        "order": [f"o{row:03d}" for row in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("creating")
    with running(folder / "campaigns.db", token_seconds=0.0) as made:
        made.campaign()
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service, secret=service.token("ann", role="admin"))
    yield made
    made.close()


def uploaded(visit, content=None, name="customers.csv", query=""):
    """Upload a file; return the address of what is found in it."""
    content = TABLE.write_csv().encode() if content is None else content
    answer = visit.fill(f"/new{query}", "/new", files={"file": (name, content)})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


class Fields(HTMLParser):
    """The fields of a form as a browser would send them."""

    def __init__(self, action):
        super().__init__()
        self.action, self.within, self.made, self.select, self.area = action, False, [], None, None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form":
            self.within = given.get("action") == self.action
        if not self.within:
            return
        if (
            tag == "input"
            and "name" in given
            and ("checked" in given or given.get("type") not in ("radio", "checkbox"))
        ):
            self.made.append((given["name"], given.get("value", "")))
        elif tag == "textarea":
            self.area = given["name"]
            self.made.append((self.area, ""))
        elif tag == "select":
            self.select = given["name"]
        elif tag == "option" and "selected" in given:
            self.made.append((self.select, given["value"]))

    def handle_data(self, data):
        if self.area:
            name, text = self.made.pop()
            self.made.append((name, text + data))

    def handle_endtag(self, tag):
        if tag == "textarea":
            name, text = self.made.pop()
            self.made.append((name, text.removeprefix("\n")))
            self.area = None


def chosen(page, action):
    """Return what a form would send: fields, areas, the chosen boxes and options."""
    parser = Fields(action)
    parser.feed(page)
    return parser.made


def filled(visit, at, changes=(), kinds=()):
    """Send the form that is at an address with some changes."""
    path = at.partition("?")[0]
    fields = chosen(visit.get(at).text, path)
    made = [(name, dict(changes).get(name, value)) for name, value in fields]
    made += [pair for pair in dict(changes).items() if pair[0] not in dict(fields)]
    ticked = [pair for pair in made if pair[0] != "use" or json.loads(pair[1])[0] not in kinds]
    used = [(column, kind) for column, kind in dict(kinds).items() if kind != "left out"]
    ticked += [("use", json.dumps([column, None])) for column, _ in used]
    ticked += [("kind-of", json.dumps(pair)) for pair in used if pair[1]]
    return visit.send(path, sent(ticked))


def sent(pairs):
    """Return fields of which several may have the same name, as they are sent."""
    made = {}
    for name, value in pairs:
        made.setdefault(name, []).append(value)
    return made


def reviewed(visit, name, *, at=None, kinds=(), **changes):
    at = at or uploaded(visit)
    return at.partition("?")[0], filled(
        visit, at, {"name": name, "metric": "spend", **changes}, kinds
    )


def spec_of(page):
    return tomllib.loads(unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.S)[1]))


def words(page):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def created(visit, at, page):
    return visit.send(f"{at}/create", dict(chosen(page, f"{at}/create")))


def test_a_campaign_from_a_file(service, visit):
    at, page = reviewed(visit, "first", how="sizes", sizes="20, 40")
    assert page.status_code == 200, words(page.text)
    said = words(page.text)
    assert "customers.csv: 60 units can be assigned." in said
    assert "The first wave has room for 20 units." in said
    assert "Compared with: nothing." in said
    spec = spec_of(page.text)
    assert spec["unit"] == "customer"
    assert list(spec["features"]["numeric"]) == ["age"]
    assert spec["grid"] == {"sizes": [20, 40]}
    assert "first" not in service.store.names()
    answer = created(visit, at, page.text)
    assert answer.headers["location"] == f"{at}/created/first"
    event = Campaign(service.store, "first").events()[0]
    assert (event.kind, event.who) == ("create", "ann")
    done = visit.get(answer.headers["location"]).text
    assert f'href="/campaigns/first/units/{at.rpartition("/")[2]}?how=draw"' in done
    # The same file fits the campaign that was made for it.
    units = visit.get(f"/campaigns/first/units/{at.rpartition('/')[2]}?how=draw")
    assert units.status_code == 200
    assert "20" in words(units.text)


def test_what_is_proposed_can_be_corrected(visit):
    kinds = {"age": "categorical", "visited": "boolean", "region": "left out"}
    at = uploaded(visit)
    _, page = reviewed(
        visit, "second", at=at, kinds=kinds, unit='["order"]', randomised="25", floor="2",
        required="80", direction="min", kind="amount", low="0", high="500", waves="4",
    )  # fmt: skip
    spec = spec_of(page.text)
    assert spec["unit"] == "order"
    assert set(spec["features"]) == {"intercept", "boolean", "categorical"}
    assert list(spec["features"]["categorical"]) == ["age"]
    assert (spec["randomised"], spec["floor"], spec["required_outcomes"]) == (0.25, 0.02, 0.8)
    assert spec["metrics"]["spend"]["range"] == [0.0, 500.0]
    assert spec["objective"] == {"minimise": "spend"}
    assert spec["grid"]["sizes"] == [15, 15, 15, 15]
    assert "equal waves; a plan finds better sizes" in words(page.text)


def test_actions_have_costs_and_empty_rows_are_left_out(visit):
    at = uploaded(visit)
    fields = dict(chosen(visit.get(at).text, at))
    fields |= {"name": "costly", "metric": "spend", "control": "2"}
    fields |= {"action": ["mail", "", "none", "call"], "cost": ["0.4", "", "", "3"]}
    page = visit.send(at, fields)
    spec = spec_of(page.text)
    assert spec["actions"] == [{"name": "mail", "cost": 0.4}, "none", {"name": "call", "cost": 3.0}]


#: What a campaign needs beyond its name, actions and metric, in the form.
WHOLE = {
    "question": "Which mail earns most?", "owner": "crm team", "direction": "max",
    "kind": "amount", "measured": "EUR", "absent": "0", "rows": "sum", "row_id": "order_id",
    "date": "ordered_at", "date_format": "%d.%m.%Y", "within": "14 days", "cap": "500,5",
    "metric-1": "unsubscribed", "kind-1": "yes/no", "absent-1": "0", "column-1": "opt_out",
    "guardrail-1": "at_most_control_plus", "bound-1": "0.5pp",
    "currency": "EUR", "less_costs": "yes", "purpose": "both", "afterwards": "20,000",
    "budget": "60", "budget_wave": "40", "stopping": "pocock-classical", "alpha": "10",
    "futility": "yes", "cost": "0,5", "total": "50",
    "rule-1": '["age"]', "condition-1": ">=", "value-1": "25", "who-1": "1",
    "rule-2": '["region"]', "condition-2": "in", "value-2": "north, south", "who-2": "",
    "rule-3": '["order"]', "condition-3": "!=", "value-3": "o'1", "who-3": "2",
}  # fmt: skip


def test_a_form_declares_a_whole_campaign(service, visit):
    at, page = reviewed(visit, "whole", kinds={"region": "left out"}, **WHOLE)
    assert page.status_code == 200, words(page.text)
    spec = spec_of(page.text)
    assert (spec["question"], spec["owner"]) == ("Which mail earns most?", "crm team")
    assert spec["metrics"] == {
        "spend": {
            "kind": "amount", "column": "spend", "unit": "EUR", "absent": 0, "rows": "sum",
            "row_id": "order_id", "date": "ordered_at", "date_format": "%d.%m.%Y",
            "within": "14 days", "cap": 500.5,
        },
        "unsubscribed": {
            "kind": "yes/no", "absent": 0, "column": "opt_out",
            "guardrail": {"at_most_control_plus": 0.005},
        },
    }  # fmt: skip
    assert spec["objective"] == {
        "maximise": "spend", "less_costs": True, "purpose": {"after": 20_000},
    }  # fmt: skip
    assert spec["budget"] == {"total": 60, "each_wave": 40}
    limit = {"total": 50}
    assert spec["capacity"] == {"nothing": limit, "offer A": limit, "offer B": limit}
    assert spec["stopping"] == {"rule": "pocock-classical", "alpha": 0.1, "futility": True}
    assert spec["eligible"] == {
        "offer A": "age >= 25 and region in ['north', 'south']",
        "offer B": "region in ['north', 'south'] and order != \"o'1\"",
    }
    assert spec["columns"] == {"region": "text", "order": "text"}
    back = visit.send(at, sent([*chosen(page.text, f"{at}/create"), ("again", "rules")]))
    again = set(chosen(back.text, at))
    assert {pair for pair in WHOLE.items() if pair[0] not in ("cost", "total", "who-2")} <= again
    # There is room for one more of each.
    assert {"metric-2", "value-4"} <= {name for name, _ in again}
    assert created(visit, at, page.text).status_code == 303
    assert Campaign(service.store, "whole").situation().spec.stopping.alpha == 0.1


def test_columns_are_searched_grouped_and_ticked(visit):
    table = TABLE.with_columns(first_name=pl.Series([f"Ann{row % 9}" for row in range(ROWS)]))
    at = uploaded(visit, table.write_csv().encode())
    page = visit.get(at).text
    said = words(page)
    assert "Recommended: 2 of 2 used" in said
    assert "first_name a name, left out by default" in said
    # A ticked column that is left out by default is used as what its values are.
    _, page = reviewed(visit, "ticked", at=at, kinds={"age": "left out", "first_name": None})
    features = spec_of(page.text)["features"]
    assert "numeric" not in features
    assert list(features["categorical"]) == ["region", "first_name"]
    assert '"age": not among the chosen columns' in unescape(page.text)


@pytest.mark.parametrize("count", ["0500000", "²", "51", "1"])
def test_a_count_of_actions_that_no_plan_has_is_left_out(visit, count):
    pages = [visit.get(uploaded(visit, query=query)).text for query in ("", f"?actions={count}")]
    plain, asked = [re.findall(r'name="action" value="([^"]*)"', page) for page in pages]
    assert asked == plain != []


def test_a_plan_comes_with_its_numbers(visit):
    at = uploaded(visit, query="?sizes=10,50&actions=4&randomised=12.5")
    assert at.endswith("?sizes=10%2C50&actions=4&randomised=12.5")
    _, page = reviewed(visit, "planned", at=at)
    spec = spec_of(page.text)
    assert spec["grid"]["sizes"] == [10, 50]
    assert spec["randomised"] == 0.125
    assert len(spec["actions"]) == 4


def test_a_plan_in_money_comes_with_its_actions_and_costs(visit):
    made = planning.plan_campaign(
        customers=60, waves=2, base_rate="20%", smallest_lift="10pp", value="12.5 EUR",
        actions=["none", "mail", "call"], costs={"mail": 0.08},
    )  # fmt: skip
    at = uploaded(visit, query=shown_plan(made).create.removeprefix("/new"))
    _, page = reviewed(visit, "priced", at=at, metric="purchase")
    spec = spec_of(page.text)
    assert spec["actions"] == ["none", {"name": "mail", "cost": 0.08}, "call"]
    assert spec["metrics"]["purchase"]["absent"] == 0
    assert spec["metrics"]["purchase"]["kind"] == "yes/no"
    assert spec["objective"]["value"] == 12.5
    assert (spec["objective"]["less_costs"], spec["currency"]) == (True, "EUR")
    assert spec["grid"]["sizes"] == list(made.sizes)


def test_consent_is_proposed_as_a_rule_and_can_be_a_feature(visit):
    asked = [("yes", "no", "no")[row % 3] for row in range(ROWS)]
    may = [("J", "N")[row % 2] for row in range(ROWS)]
    table = TABLE.with_columns(opt_out=pl.Series(asked), telefon_erlaubt=pl.Series(may))
    content = table.write_csv().encode()
    at = uploaded(visit, content)
    page = visit.get(at).text
    assert page.count("rule: who may get an action (proposed)") == 2
    assert page.count('name="rule-column"') == 1
    fields = dict(chosen(page, at)) | {"name": "asked", "metric": "spend"}
    fields |= {"action": ["none", "mail", "call"], "cost": ["", "", ""]}
    spec = spec_of(visit.send(at, fields).text)
    rules = {"mail": "not opt_out", "call": "not opt_out and telefon_erlaubt"}
    assert spec["eligible"] == rules
    assert spec["columns"] == {"opt_out": "yes or no", "telefon_erlaubt": "yes or no"}
    _, page = reviewed(visit, "asked", at=at, kinds={"opt_out": "boolean"})
    assert list(spec_of(page.text)["features"]["boolean"]) == ["opt_out"]


@pytest.mark.usefixtures("few_trials")
def test_a_plan_in_the_form_knows_the_outcome(visit):
    known = {"how": "plan", "base_rate": "4%", "smallest_lift": "2pp", "waves": "2"}
    _, page = reviewed(visit, "plans", max_features="2", **known)
    assert page.status_code == 200
    assert sum(spec_of(page.text)["grid"]["sizes"]) == ROWS
    assert "yes for 4% of units" in words(page.text).replace(" # ", " ")


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"how": "plan"}, "waves", "base_rate must be given if the waves are planned"),
        ({"how": "plan", "base_rate": "4%", "smallest_lift": "5%"}, "waves", "percentage points"),
        ({"how": "plan", "spread": "much"}, "waves", "spread must be an amount"),
        ({"max_features": "0"}, "features", "max_features must be a whole number of at least 1"),
        ({"name": "two words"}, "name", "name must be at most 100 letters from a to z, digits"),
        ({"metric": ""}, "metric", "objective.maximise must name a metric"),
        (
            {"metric-1": "late", "kind-1": "yes/no", "guardrail-1": "at_most", "bound-1": "2"},
            "metric-1",
            "at_most is a share of units if the metric is yes/no",
        ),
        ({"metric-1": "late", "cap-1": "much"}, "metric-1", "late: cap must be a plain number"),
        ({"rule-1": '["region"]', "condition-1": ">=", "value-1": "5"}, "rules", "uses region as"),
        ({"rule-1": '["age"]', "condition-1": ">=", "value-1": "old"}, "rules", "a plain number"),
        ({"budget": "10"}, "money", "budget"),
        (
            {"kind": "amount", "measured": "EUR", "currency": "EUR", "cost": "0,1"},
            "money",
            "say whether to subtract them",
        ),
        ({"stopping": "pocock-spending", "alpha": "70"}, "stopping", "at most 0.5"),
        ({"metric": "age"}, "metric", "is also a column of the units"),
        ({"action": "same"}, "actions", "actions must all be different; repeated: same"),
        (
            {"cost": "1,500"},
            "actions",
            "the cost of 'nothing' must be a plain number such as 0.5; rec",
        ),
        ({"kind": "amount", "low": "0", "high": "1,500"}, "metric", "the largest number (to) must"),
        ({"randomised": "300"}, "randomised", "at most 1; received 3.0 (1 is 100%)"),
        ({"floor": "60"}, "floor", "floor must be at most 1 / 3 with 3 actions"),
        ({"floor": "0", "randomised": "0"}, "actions", "after the first wave nothing ensures"),
        (
            {"required": "most"},
            "required",
            "required must be a plain number such as 0.5; received 'most'.",
        ),
        ({"how": "sizes", "sizes": "ten"}, "waves", "sizes must be a whole number; received 'ten'"),
        (
            {"how": "sizes", "sizes": "20 1,500"},
            "waves",
            "sizes must be numbers such as 1500, with",
        ),
        ({"how": "sizes", "sizes": "0, 5"}, "waves", "grid.sizes.0 must be at least 1"),
        ({"waves": "0"}, "waves", "waves must be a whole number of at least 1; received 0"),
        ({"unit": '["region"]'}, "", "line"),
        ({"unit": '["nothing"]'}, "unit", "unit must be columns of customers.csv"),
        ({"kind": "amount", "low": "5", "high": "1"}, "metric", "range must be [low, high]"),
    ],
)
def test_a_refused_form_is_shown_again_with_what_was_typed(service, visit, changes, field, said):
    at = uploaded(visit)
    page = filled(
        visit, at, {"name": "again", "metric": "spend", **changes}, {"age": "categorical"}
    )
    assert said in words(page.text)
    assert "again" not in service.store.names()
    if not field:
        return
    assert page.status_code == 422
    assert f'href="#{field}"' in page.text
    assert f'id="{field}-wrong"' in page.text
    again = chosen(page.text, at)
    for name, value in {"name": "again", **changes}.items():
        assert (name, value) in again or name == "unit"
    assert '["age", "categorical"]' in [value for name, value in again if name == "kind-of"]


def test_a_column_that_cannot_be_read_so_is_named(visit):
    _, page = reviewed(visit, "kinds", kinds={"region": "numeric"})
    assert page.status_code == 422
    assert "features.region must be a column that can be read as numeric" in words(page.text)


def test_the_spec_can_be_edited_and_is_checked(service, visit):
    at, page = reviewed(visit, "edited")
    fields = dict(chosen(page.text, f"{at}/create"))
    wrong = {**fields, "spec": re.sub(r"seed = \d+", lambda _: 'seed = "x"', fields["spec"])}
    for step in ("review", "create"):
        answer = visit.send(f"{at}/{step}", wrong)
        assert answer.status_code == 422
        assert "seed must be a whole number" in words(answer.text).replace("seed: ", "seed ")
        assert re.search(r'line \d+: seed = "x"', words(answer.text))
        assert "seed = &#34;x&#34;" in answer.text
    good = {**fields, "spec": re.sub(r"seed = \d+", lambda _: "seed = 5", fields["spec"])}
    answer = visit.send(f"{at}/review", good)
    assert answer.status_code == 200
    assert spec_of(answer.text)["seed"] == 5
    assert created(visit, at, answer.text).status_code == 303
    assert Campaign(service.store, "edited").situation().spec.seed == 5


def test_from_the_review_back_to_the_form(visit):
    at, page = reviewed(visit, "returned", kinds={"age": "categorical"}, randomised="25")
    checked = visit.send(f"{at}/review", sent(chosen(page.text, f"{at}/create")))
    fields = [*chosen(checked.text, f"{at}/create"), ("again", "yes")]
    back = visit.send(at, sent(fields))
    assert back.status_code == 200
    again = chosen(back.text, at)
    assert {("name", "returned"), ("randomised", "25"), ("metric", "spend")} <= set(again)
    assert ("kind-of", '["age", "categorical"]') in again
    assert [name for name, _ in again].count("csrf") == 1


def test_rows_that_do_not_fit_the_spec_are_listed(visit):
    at, page = reviewed(visit, "misfits")
    fields = dict(chosen(page.text, f"{at}/create"))
    fields["spec"] = fields["spec"].replace("age = ", 'region = "raw"\nage = ')
    fields["spec"] = re.sub(r"\nregion = \{.*", "", fields["spec"])
    answer = visit.send(f"{at}/review", fields)
    assert answer.status_code == 422
    assert "customers.csv does not fit:" in words(answer.text)
    assert "'north'" in words(answer.text)


def test_a_rehearsal_goes_on_and_its_hash_is_kept(service, visit, monkeypatch):
    monkeypatch.setattr(rehearsals, "SLICE", -1.0)
    at, page = reviewed(visit, "rehearsed", how="sizes", sizes="20, 20", metric="visit")
    fields = dict(chosen(page.text, f"{at}/create"))
    assert fields["truth"] == 'nothing = 0.04\n"offer A" = 0.05\n"offer B" = 0.05'
    fields |= {"campaigns": "3", "truth": 'nothing = 0.3\n"offer A" = 0.8'}
    wrong = visit.send(f"{at}/rehearsal", {**fields, "truth": "nothing = 3"})
    assert wrong.status_code == 422
    assert "nothing: must be from 0 to 1; received 3" in words(wrong.text)
    page = visit.send(f"{at}/rehearsal", fields)
    assert '<progress value="1" max="2"' in page.text
    assert "50% done" in words(page.text)
    page = visit.send(f"{at}/rehearsal", dict(chosen(page.text, f"{at}/rehearsal")))
    assert "<progress" not in page.text
    assert '<figure class="drawn"><img src="data:image' in page.text
    assert "How often tests reject a true hypothesis" in words(page.text)
    answer = visit.send(f"{at}/create", dict(chosen(page.text, f"{at}/rehearsal")))
    assert answer.status_code == 303, words(answer.text)
    kept = Campaign(service.store, "rehearsed").events()[0].payload["rehearsal"]
    assert kept["campaigns"] == 3
    assert kept["hash"] in words(page.text)


def test_a_form_sent_twice_creates_once(service, visit):
    at, page = reviewed(visit, "twice")
    fields = dict(chosen(page.text, f"{at}/create"))
    first, second = (visit.send(f"{at}/create", fields) for _ in range(2))
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"]
    assert len(Campaign(service.store, "twice").events()) == 1
    # Another form for the same name is another matter.
    other = created(visit, at, page.text.replace(fields["once"], "x" * 24))
    assert other.status_code == 422
    assert "exists" in words(other.text)
    _, page = reviewed(visit, "twice", at=at)
    assert "a campaign with this name already exists" in words(page.text)


def test_without_its_proof_nothing_is_created(service, visit):
    at, page = reviewed(visit, "unproved")
    fields = dict(chosen(page.text, f"{at}/create"))
    for csrf in ("", "0" * 64):
        for step in ("", "/review", "/create"):
            assert visit.send(f"{at}{step}", {**fields, "csrf": csrf}).status_code == 403
    assert "unproved" not in service.store.names()


def test_the_rules_of_tokens_hold(service, visit):
    at, page = reviewed(visit, "hidden")
    fields = dict(chosen(page.text, f"{at}/create"))
    masked = {
        **fields,
        "spec": re.sub(r"seed = \d+", lambda _: "seed = 1\nmasked = true", fields["spec"]),
    }
    answer = visit.send(f"{at}/create", masked)
    assert answer.status_code == 422
    assert "that writes its key to a file" in words(answer.text)
    secret, _ = tokens.create(service.store, "apart", role="admin", campaigns=("autumn",))
    apart = Visit(service, secret=secret)
    at, page = reviewed(apart, "hidden")
    answer = created(apart, at, page.text)
    assert answer.status_code == 422
    assert "this token may not see it" in words(answer.text)
    # What a token may not see is not told to exist.
    _, page = reviewed(apart, "spring", at=at)
    assert "already exists" not in words(page.text)
    apart.close()
    assert "hidden" not in service.store.names()


def test_files_belong_to_a_session(service, visit):
    at = uploaded(visit)
    other = Visit(service)
    answer = other.get(at)
    other.close()
    assert answer.status_code == 404
    assert "this upload has expired or belongs to another session" in answer.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "customers.csv"),
        (b"a,a\n1,2\n", "customers.csv"),
        (b"id,age\n1,2\n3\n", "what is wrong"),
        (b"colour\nred\nred\n", "customers.csv"),
        (b"\xff\xfe\x00", "customers.csv"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(visit, content, said):
    page = visit.get(uploaded(visit, content))
    assert page.status_code == 422
    assert "cannot be read yet." in words(page.text)
    assert said in words(page.text)
    assert "Read the file in another way" in page.text


def test_a_file_is_decided_on_without_losing_the_form(visit):
    repeated = pl.concat([TABLE, TABLE.head(2)]).write_csv().encode()
    at = uploaded(visit, b"Customers of spring\n" + repeated, query="?sizes=10,50")
    page = visit.get(at).text
    path, _, _ = at.partition("?")
    assert "Skip 1 line above the header" in page
    action = f"/uploads/{path.rpartition('/')[2]}?then=/new"
    answer = visit.send(action, {**dict(chosen(page, action)), "read": '{"skip_rows": 1}'})
    at = answer.headers["location"]
    assert at.endswith("?sizes=10%2C50")
    page = visit.get(at).text
    assert "Keep the newest row of each" in page
    assert "<option>age</option>" in page
    # The wizard takes what was typed along, from page to page.
    path = at.partition("?")[0]
    action = f"/uploads/{path.rpartition('/')[2]}?then=/new"
    fields = dict(chosen(page, action)) | {"name": "kept", "metric": "spend"}
    for read in ('{"dedupe": "first"}',):
        answer = visit.send(f"{action}&again=yes", {**fields, "read": read})
        assert answer.status_code == 307
        answer = visit.send(answer.headers["location"], {**fields, "read": read})
    assert answer.status_code == 200
    path = re.search(r'action="(/new/\w+)"', answer.text)[1]
    again = chosen(answer.text, path)
    assert {("name", "kept"), ("metric", "spend")} <= set(again)
    assert "2 rows of 2 units (customer) were repeats; kept the first of each" in words(answer.text)


def test_another_sheet_of_a_workbook_is_offered(visit, tmp_path):
    book = xlsxwriter.Workbook(tmp_path / "export.xlsx")
    cover, data = book.add_worksheet("Cover"), book.add_worksheet("Data")
    cover.write_column(0, 0, ["Export", "confidential", "confidential"])
    for place, row in enumerate([TABLE.columns, *TABLE.rows()]):
        data.write_row(place, 0, row)
    book.close()
    at = uploaded(visit, (tmp_path / "export.xlsx").read_bytes(), "export.xlsx")
    page = visit.get(at).text
    assert "Read sheet Data" in page
    assert "<td>c000</td><td>20</td><td>north</td>" in page
    action = f"/uploads/{at.rpartition('/')[2]}?then=/new"
    answer = visit.send(action, {**dict(chosen(page, action)), "read": '{"sheet": "Data"}'})
    page = visit.get(answer.headers["location"]).text
    assert "60 units, 5 columns" in words(page)
    assert "Sheet Data was read." in words(page)


def inert(text):
    assert acts(text) == set()
    assert text.count("<script") == 1
    assert "<img src=x" not in text
    assert "<svg onload" not in text


def test_hostile_columns_values_and_names_are_inert(visit):
    names = [*SCRIPTS, *TERMINAL]
    columns = {"id": [f"u{row}" for row in range(40)]}
    columns |= {name: [EVERY[(row * 7) % len(EVERY)] for row in range(40)] for name in names}
    pl.DataFrame(columns).write_parquet(content := io.BytesIO())
    at = uploaded(visit, content.getvalue(), name=f"{SCRIPTS[0]}.parquet")
    inert(visit.get(at).text)
    inert(reviewed(visit, SCRIPTS[1], at=at, action=SCRIPTS[2], sizes=SCRIPTS[3])[1].text)
    # Names come through the form as they are.
    kinds = dict.fromkeys(names, "categorical")
    _, page = reviewed(visit, "hostile", at=at, kinds=kinds)
    inert(page.text)
    assert page.status_code == 200, words(page.text)
    assert set(spec_of(page.text)["features"]["categorical"]) == set(names)
    answer = created(visit, at, page.text)
    assert answer.status_code == 303
    inert(visit.get(answer.headers["location"]).text)


def test_boxes_that_nobody_made_are_passed_over(visit):
    at = uploaded(visit)
    fields = dict(chosen(visit.get(at).text, at))
    fields |= {"name": "odd", "metric": "spend", "action": ["a", "b"], "cost": ["", ""]}
    for text in ("{", "[1, 2]", '["a"]', "[" * 5_000, '{"a": 1}'):
        odd = {"unit": text, "kind-of": text, "control": "9" * 50}
        assert visit.send(at, {**fields, **odd}).status_code in (200, 422)
