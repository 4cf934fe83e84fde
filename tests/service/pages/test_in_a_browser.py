"""Pages in a browser: a whole campaign at two widths, accessibility by axe, keyboard only."""

import io
import re

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.service.roles import PAGES as NEEDED
from tests.campaign.specs import about
from tests.cases import thorough
from tests.hostile import SCRIPTS
from tests.service.pages.browsing import WIDTHS, Tab, started
from tests.service.pages.test_hostile_names import hostile_campaign
from tests.service.running import running

pytestmark = pytest.mark.slow

SPEC = {
    "unit": "customer", "actions": ["none", "mail", "call"], "control": "none", "randomised": 0.2,
    "grid": {"sizes": [60, 90]},
    **about("spend", unit="EUR", metrics={"complaints": {"guardrail": {"at_most": 0.05}}}),
    "features": {"numeric": {"age": "learn"}}, "policy": {"kind": "RBGL"},
    "capacity": {"call": {"total": 200}},
}  # fmt: skip
#: What axe calls these must not be there.
GRAVE = {"serious", "critical"}
#: The rules that are tried: those of the guidelines for accessible pages.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def customers(count, start=0):
    ids = [f"c{start + number}" for number in range(count)]
    return pl.DataFrame({"customer": ids, "age": np.arange(count) % 50 + 20})


def answers(table, seed=0):
    rng = np.random.default_rng(seed)
    mean = table["action"].replace_strict({"none": 2.0, "mail": 5.0, "call": 1.0})
    return pl.DataFrame(
        {
            "customer": table["customer"],
            "spend": mean.to_numpy() + rng.normal(size=len(table)),
            "complaints": rng.integers(0, 2, len(table)),
        }
    )


@pytest.fixture(scope="module")
def browser():
    with started() as made:
        yield made


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    with running(folder / "campaigns.db") as made:
        yield made


@pytest.fixture(scope="module")
def midway(service):
    """A campaign with a closed wave and an open one."""
    made = Campaign.create({**SPEC, "name": "midway", "seed": 1}, store=service.store, who="ann")
    given = pl.from_arrow(made.assign(customers(60)).table)
    made.record(answers(given))
    made.close()
    made.assign(customers(90, start=60))
    return made


def file(table, name):
    return {"name": name, "mimeType": "text/csv", "buffer": table.write_csv().encode()}


def upload(tab, label, table, name):
    tab.page.get_by_label(label).set_input_files(file(table, name))
    tab.press("Check the file")


@pytest.mark.parametrize("width", ["phone", *thorough("desktop")])
def test_a_whole_campaign(browser, service, width):
    made = Campaign.create({**SPEC, "name": f"whole-{width}"}, store=service.store, who="ann")
    tab = Tab(browser, service, viewport=WIDTHS[width], accept_downloads=True).sign_in()
    page = tab.page
    tab.press(made.name, role="link")
    for wave, size in enumerate(SPEC["grid"]["sizes"], start=1):
        tab.press("Upload units", role="link")
        upload(tab, "File of units", customers(size, start=100 * wave), "units.csv")
        assert tab.fits()
        # A double click is one assignment.
        page.get_by_role("button", name=f"Assign {size} units").dblclick()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the actions", exact=True).click()
        table = pl.read_csv(io.BytesIO(download.value.path().read_bytes()))
        assert len(table) == size
        tab.press("Upload outcomes", role="link")
        upload(tab, "File of outcomes", answers(table, wave), "outcomes.csv")
        page.get_by_text("Nothing has been recorded yet.").wait_for()
        assert tab.fits()
        tab.press("Record the outcomes")
        tab.press(f"Close wave {wave}", role="link")
        page.get_by_text("This cannot be undone.").wait_for()
        assert tab.fits()
        tab.press(f"Close wave {wave}")
        page.get_by_text(f"wave {wave} is closed").wait_for()
    tab.press("Read the report", role="link")
    page.get_by_text("Appendix: methods, tables and audit").wait_for()
    assert tab.fits()
    tab.press("Sign out")
    page.get_by_role("heading", name="Sign in").wait_for()
    tab.close()
    assert tab.wrong == []
    assert [event.kind for event in made.events()] == ["create", *["assign", "record", "close"] * 2]
    assert made.situation().condition == "finished"


def test_a_spec_that_is_edited_and_checked_twice(browser, service):
    tab = Tab(browser, service, viewport=WIDTHS["desktop"]).sign_in()
    page = tab.page
    page.goto("/new")
    page.get_by_label("File of units").set_input_files(file(customers(60), "units.csv"))
    tab.press("Read the file")
    page.get_by_label("Name", exact=True).fill("edited-here")
    page.get_by_label("Column of the outcomes").first.fill("spend")
    tab.press("Review")
    spec, truth = page.locator("#spec"), page.locator("#truth")
    first = spec.input_value().strip()
    assert len(first.splitlines()) > 20
    for number, least in enumerate((0.2, 0.15)):
        page.get_by_text("The spec, to read or edit").click()
        page.get_by_text("Rehearse it first").click()
        spec.fill(re.sub(r"(?m)^randomised = [0-9.]+", f"randomised = {least}", first))
        truth.fill(f"{truth.input_value()}\n# look {number}")
        tab.press("Check again")
        assert spec.input_value() == first.replace("randomised = 0.1", f"randomised = {least}")
        assert truth.input_value().endswith(f"\n# look {number}")
    assert "\\r" not in truth.input_value()
    tab.press("Create the campaign")
    page.get_by_role("heading", name="edited-here was created").wait_for()
    assert Campaign(service.store, "edited-here").situation().spec.randomised == 0.15
    tab.close()
    assert tab.wrong == []


def test_a_form_of_many_columns(judged):
    from playwright.sync_api import expect

    numbers = {f"spend_{number}": np.arange(60) % (number + 9) for number in range(50)}
    table = customers(60).with_columns(**numbers, opt_out=pl.Series(["yes", "no"] * 30))
    page = judged.page
    page.goto("/new")
    page.get_by_label("File of units").set_input_files(file(table, "many.csv"))
    judged.press("Read the file")
    address = page.url
    assert len(page.locator("main").inner_text().split()) < 300
    page.get_by_label("Search the columns").fill("AGE")
    expect(page.locator(".columns li:visible")).to_have_count(1)
    age = page.get_by_role("checkbox", name="age")
    age.uncheck()
    page.locator(".columns li:visible summary").click()
    page.get_by_label("Role of age").select_option("category")
    expect(age).to_be_checked()
    # What was typed, and what was opened, stays on a page that has an error.
    page.get_by_label("Name", exact=True).fill("many columns")
    page.get_by_label("Column of the outcomes").first.fill("sales")
    page.get_by_text("Money: value, costs, budget").click()
    page.get_by_label("Budget in all").fill("50")
    judged.press("Review")
    expect(page.locator("#name")).to_have_value("many columns")
    expect(page.locator("#name-wrong")).to_be_visible()
    expect(page.get_by_label("Budget in all")).to_have_value("50")
    expect(page.locator('input[value^="[\\"age"]')).to_be_checked()
    expect(page.get_by_label("Role of age")).to_have_value('["age", "categorical"]')
    for each in page.locator("main details").all():
        each.evaluate("each => each.open = true")
    assert faults(judged) == []
    judged.wrong.clear()
    look_at(judged, address)


def pages(name):
    """Return the addresses of all pages that need nothing but a campaign."""
    skipped = ("{fingerprint}", "{once}", "/export", "/document", "/static", "/headline")
    return [
        route.replace("{name}", name)
        for (method, route), _ in NEEDED.items()
        if method == "GET" and not any(each in route for each in skipped)
    ]


@pytest.fixture(scope="module")
def judged(browser, service):
    """A tab in which axe may run: the policy of pages would keep its script out."""
    tab = Tab(browser, service, viewport=WIDTHS["desktop"], bypass_csp=True).sign_in()
    yield tab
    tab.close()


def faults(tab, rules=RULES):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    found = (
        axe.Axe()
        .run(tab.page, options={"runOnly": rules, "resultTypes": ["violations"]})
        .response["violations"]
    )
    return [
        (fault["id"], node["target"], node.get("failureSummary"))
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]


def look_at(tab, path):
    """Open a page and see that it has no grave fault and fits, in light and dark, at any width."""
    page = tab.page
    page.goto(path)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDTHS["desktop"])
    assert faults(tab) == [], path
    page.emulate_media(color_scheme="dark")
    assert faults(tab, ["color-contrast"]) == [], path
    page.set_viewport_size(WIDTHS["phone"])
    assert tab.fits(), path


def test_axe_finds_a_grave_fault_where_there_is_one(judged):
    judged.page.set_content('<html lang="en"><title>x</title><main><h1>x</h1><input></main>')
    assert [fault[0] for fault in faults(judged)] == ["label"]


@pytest.mark.thorough
def test_no_page_has_a_grave_fault(judged, midway):
    for path in pages(midway.name):
        look_at(judged, path)
    assert judged.wrong == []


def test_pages_of_files_have_no_grave_fault(judged, midway):
    page, at = judged.page, f"/campaigns/{midway.name}"
    wrong = customers(5).with_columns(age=pl.lit("old"))
    many = customers(200, start=500)
    for table in (customers(30), wrong, many):
        page.goto(f"{at}/units")
        upload(judged, "File of units", table, "units.csv")
        look_at(judged, page.url)
    odd = pl.DataFrame({"customer": ["c1", "nobody"], "spend": ["9", "x"], "complaints": [0, 0]})
    page.goto(f"{at}/outcomes")
    upload(judged, "File of outcomes", odd, "outcomes.csv")
    look_at(judged, page.url)
    page.goto("/new")
    twice = pl.concat([customers(30), customers(1)])
    page.get_by_label("File of units").set_input_files(file(twice, "units.csv"))
    judged.press("Read the file")
    page.get_by_text("Keep the last row of each").wait_for()
    look_at(judged, page.url)
    judged.press("Keep the last row of each")
    page.get_by_text("were repeats; kept the last").or_(
        page.get_by_text("was a repeat; kept")
    ).wait_for()
    for path in ("/nothing", f"{at}/done/nothing-of-the-kind"):
        page.goto(path)
        assert faults(judged) == []
    # The browser tells of a page that is not there, and of a file that asks, too.
    assert all("404" in each or "422" in each for each in judged.wrong)
    judged.wrong.clear()


def test_keys_alone(browser, service, midway):
    from playwright.sync_api import expect

    tab = Tab(browser, service, viewport=WIDTHS["desktop"])
    page, key = tab.page, tab.page.keyboard
    page.goto("/sign-in")
    # The field has the focus without a key, soon after the page is there.
    expect(page.get_by_label("Token")).to_be_focused(timeout=20_000)
    key.type(service.token("admin"))
    entered(page, "Campaigns")
    key.press("Tab")
    assert focused(page) == "Skip to the content"
    key.press("Enter")
    tabbed_to(page, midway.name)
    entered(page, midway.name)
    tabbed_to(page, "Close wave")
    entered(page, "Close it anyway?")
    tabbed_to(page, "Why?")
    key.type("nobody answered")
    tabbed_to(page, "Close wave 2 by force")
    with page.expect_navigation():
        key.press("Enter")
    page.get_by_text("wave 2 is closed").wait_for()
    assert midway.events()[-1].why == "nobody answered"
    tab.close()
    assert tab.wrong == []


def entered(page, heading):
    """Press Enter, which leads to another page, and see that it has this heading."""
    # The page before may have the same one.
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.get_by_role("heading", name=heading).wait_for()


def focused(page):
    return page.evaluate(
        "() => (document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim()"
    )


def tabbed_to(page, name):
    """Press Tab until something of this name has the focus, which is seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page) == name:
            outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    raise AssertionError(f"Tab never comes to {name}")


def test_times_are_in_the_readers_zone(browser, service, midway):
    tab = Tab(browser, service, timezone_id="Asia/Tokyo").sign_in("viewer")
    tab.page.goto(f"/campaigns/{midway.name}/history")
    assert "in your time zone (Asia/Tokyo)" in tab.page.get_by_role("contentinfo").inner_text()
    time = tab.page.locator("time").first
    assert "UTC" not in time.inner_text()
    assert time.get_attribute("title").endswith("UTC")
    tab.close()
    plain = Tab(browser, service, java_script_enabled=False).sign_in("viewer")
    plain.page.goto(f"/campaigns/{midway.name}/history")
    assert plain.page.locator("time").first.inner_text().endswith("UTC")
    assert "Times are in UTC." in plain.page.get_by_role("contentinfo").inner_text()
    plain.close()
    assert tab.wrong + plain.wrong == []


def test_hostile_names_run_nothing(browser, service):
    made = hostile_campaign(service.store)
    service.secrets["hostile"] = service.token(SCRIPTS[0], role="admin")
    # Without the policy that would keep scripts out, there are none.
    tab = Tab(browser, service, viewport=WIDTHS["phone"], bypass_csp=True).sign_in("hostile")
    for path in pages(made.name):
        tab.page.goto(path)
        assert tab.page.title().endswith("· seqbatch"), path
        assert tab.fits(), path
    tab.close()
    assert tab.wrong == []
