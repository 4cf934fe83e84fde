"""The page that plans a campaign: what is typed, what is shown, and what is said of wrong input."""

import re
from functools import cache

import pytest

from seqbatch import planning
from seqbatch.planning import plan_campaign
from seqbatch.service.pages.campaign_plan import asked_of
from seqbatch.service.pages.forms import Form
from tests.cases import thorough
from tests.hostile import SCRIPTS, acts
from tests.service.pages.browsing import WIDTHS, Tab, started
from tests.service.pages.test_in_a_browser import faults
from tests.service.pages.test_planner import words
from tests.service.pages.visiting import Visit
from tests.service.running import running

TYPED = {
    "customers": "20,000", "base_rate": "4", "smallest_lift": "1pp", "value": "12 EUR",
    "actions": "none, mail", "costs": "mail=0.01", "waves": "2", "randomised": "10",
}  # fmt: skip
ASKED = {
    "customers": 20_000, "actions": ["none", "mail"], "base_rate": "4%", "smallest_lift": "1pp",
    "value": "12 EUR", "costs": {"mail": "0.01"}, "waves": 2, "randomised": 0.1,
}  # fmt: skip


@cache
def known():
    return plan_campaign(**ASKED)


@pytest.fixture(scope="module")
def calls():
    """Count the plans that are made; those that are not refused are the same."""
    made, plan = [], planning.plan_campaign

    def counting(*, progress, **asked):
        progress(0.5)
        made.append(asked)
        if {**asked, "actions": ASKED["actions"]} == {**ASKED, "after": 0}:
            return known()
        return plan(**asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "plan_campaign", counting)
        yield made


@pytest.fixture(scope="module")
def service(tmp_path_factory, calls):
    with running(tmp_path_factory.mktemp("plan") / "campaigns.db") as made:
        made.calls = calls
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service, "viewer")
    yield made
    made.close()


def test_the_form_has_an_example_and_its_plan_has_an_address(service, visit):
    empty = visit.get("/plan").text
    assert 'value="50,000"' in empty
    assert 'href="/plan/research"' in empty
    assert 'id="answer"' not in empty
    page = visit.get("/plan", params=TYPED).text
    first, second = known().sizes
    said = words(page)
    assert f"Assign {first:,} and {second:,} customers in 2 waves." in said
    assert f"Advice: {known().advice}" in said
    assert "you run" in said
    assert "data:image/svg+xml" in page
    assert "regret" not in said.partition("Details for researchers")[0].lower()
    assert 'value="mail=0.01"' in page
    assert service.calls == [{**ASKED, "after": 0}]
    # The same address is not planned again, and leads those who may create to their campaign.
    assert "/new?" not in page
    admin = Visit(service)
    [link] = re.findall(r'href="(/new[^"]+)"', admin.get("/plan", params=TYPED).text)
    admin.close()
    assert f"sizes={first},{second}" in link
    assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"customers": "many"}, "customers", "a whole number"),
        ({"base_rate": "400"}, "base_rate", "below 100%"),
        ({"smallest_lift": "0.5%"}, "smallest_lift", "percentage points"),
        ({"costs": "call=1"}, "costs", "cost must be for an action"),
        ({"waves": "21"}, "waves", "at most 20"),
        ({"randomised": "x"}, "randomised", "a share in percent"),
        ({"value": "<b>"}, "value", "an amount with its currency"),
        ({"mean": "80"}, "mean", "left out with base_rate"),
    ],
)
def test_what_cannot_be_planned_is_said_at_its_field(visit, change, field, said):
    page = visit.get("/plan", params=TYPED | change)
    assert page.status_code == 422
    assert said in words(page.text)
    assert 'aria-invalid="true"' in re.search(rf'<input id="{field}"[^>]*>', page.text)[0]


@pytest.mark.parametrize("text", SCRIPTS)
def test_what_is_typed_is_inert(visit, text):
    page = visit.get("/plan", params={**TYPED, "actions": f"none, {text}", text: "1"})
    assert acts(page.text) == set()


def test_amounts_and_costs_are_read_as_people_type_them():
    typed = {
        "customers": "9 000", "mean": "80 EUR", "spread": "60", "zeros": "96", "actions": "3",
        "smallest_lift": "0.5 EUR", "costs": "mail=0,08; call=4,50", "power": "80",
        "after": "1,000",
    }  # fmt: skip
    assert asked_of(Form(list(typed.items()))) == {
        "customers": 9_000, "actions": 3, "mean": "80 EUR", "spread": "60", "zeros": "96%",
        "smallest_lift": "0.5 EUR", "costs": {"mail": "0,08", "call": "4,50"}, "power": "80%",
        "after": 1_000, "waves": None,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", ["phone", *thorough("desktop")])
def test_the_plan_fits_a_window_and_is_short(service, width):
    with started() as browser:
        tab = Tab(browser, service, viewport=WIDTHS[width], bypass_csp=True).sign_in("viewer")
        tab.page.goto("/plan?" + "&".join(f"{name}={text}" for name, text in TYPED.items()))
        assert tab.fits()
        assert faults(tab) == []
        tab.page.emulate_media(color_scheme="dark")
        assert faults(tab, ["color-contrast"]) == []
        assert len(tab.page.inner_text("main").split()) < 300
        tab.close()
        assert tab.wrong == []
