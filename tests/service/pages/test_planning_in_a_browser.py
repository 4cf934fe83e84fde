"""The planner and a new campaign in a browser: by keys, at two widths, and without scripts."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from seqbatch import planning
from seqbatch.campaign import Campaign
from tests.cases import thorough
from tests.service.pages.browsing import WIDTHS, Tab, started
from tests.service.pages.test_in_a_browser import faults
from tests.service.running import running

pytestmark = pytest.mark.slow

SMALL = "units=900&actions=2&features=0&waves=2&no-effect=1&no-detect=1&randomised=10"
TABLE = pl.DataFrame(
    {
        "customer": [f"c{row:03d}" for row in range(90)],
        "age": np.arange(90) % 40 + 20,
        "region": np.array(["north", "south", "<b>east"])[np.arange(90) % 3],
    }
)


@pytest.fixture(scope="module")
def browser():
    with started() as made:
        yield made


@pytest.fixture(scope="module")
def asked():
    """Make plans quickly, and tell which were asked for."""
    calls, plan = [], planning.plan

    @cache
    def known(units, actions, batches):
        return plan(units=units, actions=actions, batches=batches, features=0, quick=True)

    def quickly(*, units, actions, batches, quick, **_options):
        calls.append((units, quick))
        if actions < 2:
            return plan(units=units, actions=actions, features=0)
        made = known(units, actions, batches or 2)
        return replace(made, request=replace(made.request, quick=quick), wrong_guesses=tuple)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "plan", quickly)
        yield calls


@pytest.fixture(scope="module")
def service(tmp_path_factory, asked):
    folder = tmp_path_factory.mktemp("planning-browser")
    with running(folder / "campaigns.db") as made:
        made.asked = asked
        yield made


def test_a_slider_moved_by_keys_changes_the_answer(browser, service):
    tab = Tab(browser, service, viewport=WIDTHS["desktop"]).sign_in("viewer")
    page = tab.page
    page.goto(f"/plan/research?{SMALL}")
    # The pause after which a slider asks is over when the test says so, however slow keys are.
    page.evaluate(
        """() => { const later = setTimeout; window.paused = [];
        window.setTimeout = (act, ms) => ms === 250 ? paused.push(act) : later(act, ms); }"""
    )
    page.evaluate(
        """() => { window.heard = [];
        new MutationObserver(() => heard.push(document.getElementById("said").textContent))
          .observe(document.getElementById("said"), {childList: true}); }"""
    )
    before = page.locator("#answer").inner_text()
    service.asked.clear()
    slider = page.get_by_role("slider", name="Total units, slider")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    units = page.get_by_role("spinbutton", name="Total units").input_value()
    assert units == "1400"
    assert slider.get_attribute("aria-valuetext") == "1,400 units"
    assert page.evaluate("paused.splice(0).map((act) => act()).length") == 5
    page.get_by_text("The plan: 2 waves of").wait_for()
    heard = page.evaluate("heard")
    assert heard[0] == "Planning…"
    assert any(text.startswith("First answer: 2 waves of") for text in heard)
    assert page.locator("#answer").inner_text() != before
    assert f"units={units}&" in page.url
    # The last question alone was asked, in two steps.
    assert service.asked == [(1_400, True), (1_400, False)]
    # The focus stays where it was.
    assert page.evaluate("document.activeElement.type") == "range"
    page.reload()
    page.get_by_role("heading", name="2 waves, with Lookahead").wait_for()
    tab.close()
    assert tab.wrong == []


def test_boxes_take_the_place_of_numbers(browser, service):
    tab = Tab(browser, service, viewport=WIDTHS["phone"]).sign_in("viewer")
    page = tab.page
    page.goto("/plan/research")
    waves = page.get_by_role("spinbutton", name="Waves")
    assert waves.is_disabled()
    page.get_by_label("Recommend a number").uncheck()
    assert waves.is_enabled()
    waves.fill("3")
    page.get_by_text("The plan: 3 waves of").wait_for()
    assert tab.fits()
    tab.close()
    assert tab.wrong == []


def test_a_question_that_is_refused_says_so_at_its_number(browser, service):
    tab = Tab(browser, service, viewport=WIDTHS["desktop"]).sign_in("viewer")
    page = tab.page
    page.goto(f"/plan/research?{SMALL}")
    page.get_by_role("spinbutton", name="Actions").fill("1")
    page.get_by_text("actions must be a whole number of at least 2").wait_for()
    assert page.locator("#actions").get_attribute("aria-invalid") == "true"
    page.get_by_role("spinbutton", name="Actions").fill("3")
    page.get_by_text("The plan: 2 waves of").wait_for()
    assert page.locator("#actions").get_attribute("aria-invalid") is None
    tab.close()
    # The browser itself tells of the refusal.
    assert [each for each in tab.wrong if "422" not in each] == []


def look(tab):
    """See that a page fits and has no grave fault, in light and dark."""
    tab.page.emulate_media(color_scheme="light")
    assert faults(tab) == []
    tab.page.emulate_media(color_scheme="dark")
    assert faults(tab, ["color-contrast"]) == []
    assert tab.fits()


@pytest.mark.parametrize("width", ["phone", *thorough("desktop")])
def test_from_a_plan_to_a_campaign(browser, service, width):
    tab = Tab(browser, service, viewport=WIDTHS[width], bypass_csp=True).sign_in()
    page, name = tab.page, f"spring-{width}"
    page.goto(f"/plan/research?{SMALL}")
    look(tab)
    tab.press("Create a campaign with this plan", role="link")
    look(tab)
    file = {"name": "customers.csv", "mimeType": "text/csv", "buffer": TABLE.write_csv().encode()}
    page.get_by_label("File of units").set_input_files(file)
    tab.press("Read the file")
    look(tab)
    page.get_by_label("Name", exact=True).fill(name)
    page.locator("#name-of").fill("spend")
    page.get_by_label("Action 2", exact=True).fill("mail")
    tab.press("Review")
    look(tab)
    page.get_by_text("customers.csv: 90 units can be assigned.").wait_for()
    page.get_by_role("button", name="Create the campaign").dblclick()
    page.get_by_role("heading", name=f"{name} was created").wait_for()
    look(tab)
    tab.press("Assign units of customers.csv", role="link")
    page.get_by_role("heading", level=1).wait_for()
    tab.close()
    assert tab.wrong == []
    made = Campaign(service.store, name)
    assert [event.kind for event in made.events()] == ["create"]
    now = made.situation()
    assert sum(now.sizes) == 900
    assert [action.name for action in now.actions] == ["nothing", "mail"]
    assert sorted(now.spec.features.columns) == ["age", "region"]


def test_all_of_it_without_scripts(browser, service):
    tab = Tab(browser, service, java_script_enabled=False, viewport=WIDTHS["phone"]).sign_in()
    page = tab.page
    page.goto("/plan/research")
    page.get_by_label("Total units").fill("800")
    tab.press("Plan")
    page.get_by_text("The waves").wait_for()
    assert "units=800" in page.url
    tab.press("Create a campaign with this plan", role="link")
    file = {"name": "customers.csv", "mimeType": "text/csv", "buffer": TABLE.write_csv().encode()}
    page.get_by_label("File of units").set_input_files(file)
    tab.press("Read the file")
    page.get_by_label("Name", exact=True).fill("plain")
    page.locator("#name-of").fill("spend")
    tab.press("Review")
    tab.press("Create the campaign")
    page.get_by_role("heading", name="plain was created").wait_for()
    tab.close()
    assert tab.wrong == []
