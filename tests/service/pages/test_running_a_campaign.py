"""A campaign by forms without scripts: check, confirm, execute once, and files kept between."""

import hashlib
import io
import os
import re
import time
import zipfile
from codecs import BOM_UTF8
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest
import python_calamine as calamine

from seqbatch.campaign import Campaign
from seqbatch.service import Settings
from seqbatch.service.pages import campaign as campaign_pages
from seqbatch.service.pages.uploads import Uploads
from tests.campaign.files.workbooks import write_workbook
from tests.campaign.specs import about
from tests.refusals import refused
from tests.service.pages.visiting import Visit, form, token
from tests.service.running import running

UNITS = "/campaigns/{}/units"
OUTCOMES = "/campaigns/{}/outcomes"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    with running(
        folder / "campaigns.db", file_bytes=200_000, uploads=2, folder=folder / "up"
    ) as made:
        made.folder = folder / "up" / "uploads"
        yield made


@pytest.fixture(scope="module")
def visit(service):
    made = Visit(service)
    yield made
    made.close()


@pytest.fixture
def campaign(service, request):
    return service.campaign(name=re.sub(r"\W+", "-", request.node.name)[:60])


def csv(**columns):
    return pl.DataFrame(columns).write_csv().encode()


def units(count, start=0):
    return csv(unit=[f"u{start + n}" for n in range(count)], age=list(range(20, 20 + count)))


def outcomes(count, start=0):
    return csv(unit=[f"u{start + n}" for n in range(count)], visit=[n % 2 for n in range(count)])


def uploaded(visit, path, content, name="units.csv", **fields):
    answer = visit.fill(path, path, fields, files={"file": (name, content)})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def read_again(visit, location, **fields):
    """Read an uploaded file in another way, as its page offers."""
    path, _, fingerprint = location.partition("?")[0].rpartition("/")
    action = f"/uploads/{fingerprint}?then={path}"
    answer = visit.send(action, form(visit.get(location).text, action, fields))
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def confirmed(visit, location, **fields):
    """Confirm what a page showed; return the page that says what was done."""
    path = location.partition("?")[0]
    answer = visit.send(path, form(visit.get(location).text, path, fields))
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def facts(page):
    return dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page))


def test_from_units_to_the_report(visit, campaign):
    name = campaign.name
    location = uploaded(visit, UNITS.format(name), units(4))
    page = visit.get(location).text
    assert "No problems found in this file." in page
    assert facts(page)["To be assigned now"] == "4"
    assert campaign.situation().assigned == 0
    done = confirmed(visit, location)
    assert "4 units of wave 1 were assigned" in visit.get(done).text
    assert campaign.situation().assigned == 4
    [link] = re.findall(r'href="([^"]*/assignments/[^"]*)"', visit.get(done).text)
    answer = visit.get(link)
    named = f'attachment; filename="{name}-wave-1-assignments.csv"'
    assert answer.headers["content-disposition"] == named
    assert answer.content.startswith(BOM_UTF8)
    table = pl.read_csv(io.BytesIO(answer.content))
    assert table["unit"].to_list() == ["u0", "u1", "u2", "u3"]
    assert table["wave"].to_list() == [1] * 4
    location = uploaded(visit, OUTCOMES.format(name), outcomes(5), "outcomes.csv")
    page = visit.get(location).text
    assert "Nothing has been recorded yet." in page
    assert facts(page) == {
        "Accepted": "4", "Duplicate": "0", "Conflict": "0", "Quarantined": "1", "Total rows": "5",
    }  # fmt: skip
    assert campaign.situation().observed == 0
    assert "4 outcomes recorded" in visit.get(confirmed(visit, location)).text
    page = visit.get(f"/campaigns/{name}/close").text
    assert "This cannot be undone." in page
    assert "Wave 2, of 4 units, opens." in page
    # What closing would say is not told before it is done.
    assert len(campaign.events()) == 3
    done = confirmed(visit, f"/campaigns/{name}/close")
    assert "wave 1 is closed" in visit.get(done).text
    assert campaign.situation().wave == 2
    assert "Appendix: methods" in visit.get(f"/campaigns/{name}/report").text
    assert {event.who for event in campaign.events()} == {"ann", "admin"}
    assert campaign.verify().sound


def test_a_workbook_with_titles_repeats_and_names_is_assigned_as_lists(visit, campaign, tmp_path):
    rows = [["Customers of spring", None, None], ["unit", "name", "age"]]
    rows += [[f"{n:03}", f"=N{n}", 30 + n] for n in (1, 2, 3, 2)]
    content = write_workbook(tmp_path / "u.xlsx", rows, before=["Info"]).read_bytes()
    path = UNITS.format(campaign.name)
    chosen = {"with": "name, age, unit", "split": "action"}
    location = uploaded(visit, path, content, "u.xlsx", **chosen)
    page = visit.get(location).text
    assert "the header seems to be on row 2" in page
    assert "Skip 1 line above the header" in page
    # What each way would give is shown.
    assert '<th scope="col">unit</th><th scope="col">name</th><th scope="col">age</th>' in page
    location = read_again(visit, location, read='{"skip_rows": 1}')
    page = visit.get(location).text
    assert "repeats the id" in page
    for kept in ("<td>002</td><td>=N2</td><td>32</td>", "Keep the first row of each"):
        assert kept in page
    tied = read_again(visit, location, read='{"dedupe": "newest-by"}', newest_by="age")
    assert "is as new as row 4" in visit.get(tied).text
    location = read_again(visit, location, read='{"dedupe": "last"}')
    # The same file, read in three ways, is three uploads.
    assert location != tied
    page = visit.get(location).text
    assert facts(page)["To be assigned now"] == "3"
    assert "1 row of 1 unit (unit) was a repeat; kept the last of each" in page
    assert hashlib.sha256(content).hexdigest() in page
    done = confirmed(visit, location)
    [link] = re.findall(r'href="([^"]*/assignments/[^"]*)"', visit.get(done).text)
    answer = visit.get(link)
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].endswith('-wave-1-assignments.zip"')
    found = {}
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["assignments-mail.xlsx", "assignments-none.xlsx"]
        for name in archive.namelist():
            book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(archive.read(name)))
            header, *own = book.get_sheet_by_index(0).to_python()
            assert header[:4] == ["unit", "name", "age", "action"]
            found |= {row[0]: row[1:3] for row in own}
    assert found == {f"{n:03}": [f"=N{n}", 30 + n] for n in (1, 2, 3)}


def test_outcomes_from_a_workbook(visit, campaign, tmp_path):
    confirmed(visit, uploaded(visit, UNITS.format(campaign.name), units(3)))
    rows = [["Results", None], ["unit", "visit"], ["u0", 1], ["u1", 0], ["u2", 1], ["u0", 0]]
    content = write_workbook(tmp_path / "o.xlsx", rows).read_bytes()
    path = OUTCOMES.format(campaign.name)
    location = uploaded(visit, path, content, "o.xlsx")
    location = read_again(visit, location, skip_rows="1", dedupe="first")
    assert facts(visit.get(location).text)["Accepted"] == "3"
    assert "3 outcomes recorded" in visit.get(confirmed(visit, location)).text


@pytest.mark.parametrize("fields", [
    {"skip_rows": "two"}, {"skip_rows": "2000"}, {"dedupe": "newest-by"}, {"dedupe": "best"},
    {"read": "{"}, {"read": '{"skip_rows": "1"}'}, {"read": '{"path": "x"}'}, {"then": "/plan"},
    {"then": "//elsewhere"},
])  # fmt: skip
def test_wrong_ways_to_read_a_file_are_refused(service, visit, campaign, fields):
    path = UNITS.format(campaign.name)
    location = uploaded(visit, path, units(2))
    fingerprint, before = location.rpartition("/")[2], set(service.folder.glob("*/*"))
    said = {"csrf": token(visit.get(location).text), **fields}
    then = said.pop("then", path)
    assert visit.send(f"/uploads/{fingerprint}?then={then}", said).status_code == 422
    assert set(service.folder.glob("*/*")) <= before
    # Nobody else can read it.
    other = Visit(service)
    said["csrf"] = token(other.get(path).text)
    assert other.send(f"/uploads/{fingerprint}?then={path}", said).status_code in (404, 422)
    other.close()


def test_an_unclear_delimiter_is_asked(visit, campaign):
    content = b"unit,age;x\nu1,20;1\nu2,30;2\n"
    location = uploaded(visit, UNITS.format(campaign.name), content)
    page = visit.get(location).text
    assert "A comma separates cells" in page
    assert "A semicolon separates cells" in page
    location = read_again(visit, location, read='{"delimiter": ","}')
    assert "would both give rows" not in visit.get(location).text


def test_outcomes_in_another_format_are_amended_in_place(service, visit):
    spec = {"name": "german", "actions": ["none", "mail"], "grid": {"sizes": [20, 20]}}
    made = Campaign.create({**spec, **about("spend", unit="EUR")}, store=service.store, who="ann")
    made.assign(pl.DataFrame({"unit": [f"u{n}" for n in range(20)]}))
    lines = ["Orders of October;", "unit;spend", *(f"u{n};1.2{n:02},50" for n in range(20))]
    path = OUTCOMES.format(made.name)
    location = uploaded(visit, path, "\n".join(lines).encode(), "orders.csv")
    assert "Skip 1 line above the header" in visit.get(location).text
    location = read_again(visit, location, read='{"skip_rows": 1}')
    page = visit.get(location).text
    assert facts(page)["Quarantined"] == "20"
    assert "spend: numbers are written like 1.234,56" in page
    action = f"/campaigns/{made.name}/amend"
    answer = visit.send(action, form(page, action, {"reason": "German numbers"}))
    assert answer.headers["location"] == location
    assert facts(visit.get(location).text)["Accepted"] == "20"
    viewer = Visit(service, role="operator")
    theirs = uploaded(viewer, path, "\n".join(lines[1:]).encode(), "orders.csv")
    assert action not in viewer.get(theirs).text
    viewer.close()


def test_a_column_with_another_name_is_declared_in_place(service, visit):
    metrics = {"left": {"kind": "yes/no"}}
    made = service.campaign(name="named", **about("visit", unit="EUR", metrics=metrics))
    confirmed(visit, uploaded(visit, UNITS.format(made.name), units(4)))
    rows = csv(**{"unit": ["u0", "u1"], "Visit (EUR)": ["1", "2.5"]})
    check = uploaded(visit, OUTCOMES.format(made.name), rows)
    page = visit.get(check).text
    assert page.count("<strong>visit: its column is Visit (EUR)</strong>") == 1
    # Another metric that this file does not have is not its problem.
    assert "left" not in page
    fields = {"column0": "Visit (EUR)", "reason": "the export's name"}
    back = visit.fill(check, f"/campaigns/{made.name}/amend", {**fields, "file": check[-64:]})
    assert back.headers["location"] == check
    confirmed(visit, check)
    assert made.situation().observed == 2


def test_a_marked_file_is_answered_with_one_mark(visit, campaign):
    content = "unit;age\nü0;31\nü1;32\n".encode("utf-8-sig")
    done = confirmed(visit, uploaded(visit, UNITS.format(campaign.name), content))
    [link] = re.findall(r'href="([^"]*/assignments/[^"]*)"', visit.get(done).text)
    answer = visit.get(link)
    assert answer.content.startswith(BOM_UTF8 + b"unit;action;")
    location = uploaded(visit, UNITS.format(campaign.name), content[3:].decode().encode("cp1252"))
    [link] = re.findall(
        r'href="([^"]*/assignments/[^"]*)"', visit.get(confirmed(visit, location)).text
    )
    answer = visit.get(link)
    assert answer.headers["content-type"] == "text/csv; charset=windows-1252"
    assert answer.content.decode("cp1252").startswith("unit;action;")
    assert answer.content.decode("cp1252").count("ü") == 2


def test_a_form_that_comes_twice_is_done_once(visit, campaign):
    path = UNITS.format(campaign.name)
    location = uploaded(visit, path, units(4))
    fields = form(visit.get(location).text, location)
    first, second = visit.send(location, fields), visit.send(location, fields)
    assert first.headers["location"] == second.headers["location"]
    assert len(campaign.events()) == 2
    other = visit.send(location, {**fields, "how": "draw"})
    assert other.status_code == 422
    assert "was used for another call" in other.text
    close = f"/campaigns/{campaign.name}/close"
    fields = {**form(visit.get(close).text, close), "force": "yes", "reason": "a test"}
    visit.send(close, fields)
    visit.send(close, fields)
    assert campaign.situation().wave == 2
    assert len(campaign.events()) == 3


def test_keys_of_clients_are_apart_from_those_of_forms(service, visit, campaign):
    name = campaign.name
    for key in ("page abcdefghij", "page abcdefghij file"):
        rows = {"units": [{"unit": "u0", "age": 20}]}
        assert service.post(f"/v1/campaigns/{name}/assignments", rows, key=key).status_code == 200
    done = confirmed(visit, uploaded(visit, UNITS.format(name), units(2)))
    for path in ("done/abcdefghij", "assignments/abcdefghij"):
        assert visit.get(f"/campaigns/{name}/{path}").status_code == 404
    # The file that came of a form is no page of its own.
    assert visit.get(f"{done}%0afile").status_code == 404


def test_a_wave_that_was_closed_meanwhile_takes_no_file_that_was_checked_for_it(visit, campaign):
    location = uploaded(visit, UNITS.format(campaign.name), units(2))
    fields = form(visit.get(location).text, location)
    campaign.assign(pl.DataFrame({"unit": list("abcd"), "age": 1}))
    campaign.close(force=True, reason="a test")
    answer = visit.send(location, fields)
    assert answer.status_code == 409
    assert "Check the file again" in answer.text
    assert campaign.situation().assigned == 4


def test_every_row_that_is_wrong_is_named(visit, campaign):
    content = b"unit,age\na,31\nb,old\nc,\na,5\n"
    location = uploaded(visit, UNITS.format(campaign.name), content, "my units.csv")
    page = visit.get(location).text
    assert "The file cannot be used." in page
    cells = re.findall(r'<td class="number">(\d+)</td><td>(\w*)</td><td class="lines">', page)
    assert cells == [("3", "age"), ("4", "age")]
    assert "Assign" not in re.findall(r"<button[^>]*>([^<]*)<", page)
    assert len(campaign.events()) == 1


def test_too_many_units_are_drawn_or_the_first_ones_taken(visit, campaign):
    path = UNITS.format(campaign.name)
    location = uploaded(visit, path, units(6))
    page = visit.get(location).text
    assert "has room for 4 more units; the file has 6 new ones" in page
    assert "draw=True" not in page
    assert facts(visit.get(f"{location}?how=partial").text)["Do not fit"] == "2"
    assert facts(visit.get(f"{location}?how=draw").text)["Not drawn"] == "2"
    assert uploaded(visit, path, units(6), how="draw") == f"{location}?how=draw"
    confirmed(visit, f"{location}?how=draw")
    assert campaign.situation().assigned == 4


def test_a_known_value_is_replaced_with_a_reason_alone(visit, campaign):
    campaign.assign(pl.DataFrame({"unit": ["u0", "u1", "u2", "u3"], "age": 1}))
    campaign.record(pl.DataFrame({"unit": ["u0", "u1"], "visit": [1, 1]}))
    location = uploaded(visit, OUTCOMES.format(campaign.name), outcomes(4), "outcomes.csv")
    assert facts(visit.get(location).text)["Conflict"] == "1"
    page = visit.get(f"{location}?correct=true").text
    assert facts(page)["Accepted"] == "3"
    fields = form(page, location)
    assert "given with a correction" in visit.send(location, fields).text
    fields = form(
        visit.get(f"{location}?correct=true").text, location, {"reason": "a typing error"}
    )
    assert visit.send(location, fields).status_code == 303
    assert campaign.events()[-1].why == "a typing error"


def test_ids_that_lost_their_zeros_are_matched_on_the_page(visit, campaign):
    campaign.assign(pl.DataFrame({"unit": ["001", "002", "003"], "age": 1}))
    content = csv(unit=["1", "2", "3"], visit=[1, 0, 1])
    location = uploaded(visit, OUTCOMES.format(campaign.name), content, "outcomes.csv")
    page = visit.get(location).text
    assert facts(page)["Quarantined"] == "3"
    [link] = re.findall(r'href="(\?match_ids=true)"', page)
    page = visit.get(location + link).text
    assert facts(page)["Accepted"] == "3"
    assert "match_ids=true" not in page
    assert visit.send(location, form(page, location)).status_code == 303
    assert campaign.events()[-1].payload["matched"] == 3


def test_a_file_belongs_to_its_session_and_for_a_while(service, visit, campaign):
    location = uploaded(visit, UNITS.format(campaign.name), units(4))
    other = Visit(service, "operator")
    answer = other.get(location)
    assert answer.status_code == 404
    assert "Upload the file again" in answer.text
    other.close()
    fields = form(visit.get(location).text, location)
    for path in service.folder.glob("*/*"):
        os.utime(path, (time.time() - 4000,) * 2)
    answer = visit.send(location, fields)
    assert answer.status_code == 404
    assert campaign.situation().assigned == 0


def test_uploads_are_bounded(service, visit, campaign):
    path = UNITS.format(campaign.name)
    locations = [uploaded(visit, path, units(2, start)) for start in range(4)]
    assert [visit.get(at).status_code for at in locations] == [404, 404, 200, 200]
    large = units(4) + b"#" * 190_000
    last = uploaded(visit, path, large)
    # Together they would be more than one file may be.
    assert sum(p.stat().st_size for p in service.folder.glob("*/*.csv")) < 200_000
    assert visit.get(last).status_code == 200
    answer = visit.fill(path, path, files={"file": ("units.csv", b"x" * 300_000)})
    assert answer.status_code == 413
    assert not list(service.folder.glob("*/*.partial"))


def test_uploads_of_all_sessions_are_bounded(tmp_path):
    kept = Uploads(tmp_path, Settings(upload_bytes=100))
    for key in "ab":
        kept.keep(key, io.BytesIO(b"x" * 80), "x.csv")
    with refused("busy"):
        kept.keep("c", io.BytesIO(b"x"), "x.csv")
    for path in (*tmp_path.glob("*/*"), *tmp_path.glob("*")):
        os.utime(path, (time.time() - 4000,) * 2)
    kept.keep("c", io.BytesIO(b"x"), "x.csv")
    # What was kept long enough is gone.
    assert [path.parent.name for path in tmp_path.glob("*/*.csv")] == ["c"]


def test_signing_out_drops_the_files(service, campaign):
    visit = Visit(service, "operator")
    uploaded(visit, UNITS.format(campaign.name), units(3, start=50))
    before = len(list(service.folder.glob("*/*.csv")))
    visit.fill("/", "/sign-out")
    assert len(list(service.folder.glob("*/*.csv"))) == before - 1
    visit.close()


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("units.ods", b"PK", 415), ("units.csv.gz", b"x", 415), ("", b"", 422),
        ("units", b"unit,age\n", 415), ("../../etc/passwd.csv", b"unit,age\na,1\n", 303),
        ("C:\\x\\units.csv", b"unit,age\na,1\n", 303),
    ],
)  # fmt: skip
def test_names_of_files(service, visit, campaign, name, content, status):
    path = UNITS.format(campaign.name)
    answer = visit.fill(path, path, files={"file": (name, content)})
    assert answer.status_code == status, answer.text
    assert str(service.folder) not in answer.text


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "multipart/form-data"}, b"x"),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x\r\nno"),
        ({"content-type": "multipart/form-data; boundary=x", "content-encoding": "gzip"}, b"x"),
        (
            {"content-type": "multipart/form-data; boundary=x; charset=unicode_escape"},
            b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n\\ud800\r\n--x--\r\n',
        ),
        ({"content-type": "application/x-www-form-urlencoded"}, b"%ff=%ff"),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a&" * 400),
        ({"content-type": "text/csv"}, b"unit,age\n"),
        ({"content-type": "application/json"}, b"{}"),
    ],
)
def test_bodies_that_are_no_forms(visit, campaign, headers, body):
    for page in ("units", "close"):
        answer = visit.client.post(
            f"/campaigns/{campaign.name}/{page}", content=body, headers=headers
        )
        assert 400 <= answer.status_code < 500, answer.text
    assert len(campaign.events()) == 1


def test_an_admin_amends_and_ends(visit, campaign):
    page, at = f"/campaigns/{campaign.name}/change", f"/campaigns/{campaign.name}"
    fields = {"sizes": "4, 6 8", "reason": "more is known", "add": "call\n", "retire": "1"}
    answer = visit.fill(page, f"{at}/amend", fields)
    assert "the campaign was amended" in visit.get(answer.headers["location"]).text
    assert campaign.situation().sizes == (4, 6, 8)
    assert campaign.situation().active == (0, 2)
    for unclear in ("many", "1,500 1,500", "4, 6 1,000"):
        answer = visit.fill(page, f"{at}/amend", {"sizes": unclear, "reason": "x"})
        assert "sizes must be whole numbers" in answer.text
    assert visit.fill(page, f"{at}/abort", {"reason": "x"}).status_code == 422
    answer = visit.fill(page, f"{at}/abort", {"reason": "too dear", "sure": "yes"})
    assert "the campaign was ended early" in visit.get(answer.headers["location"]).text
    assert campaign.situation().condition == "aborted"
    assert "it can no longer be changed" in visit.get(page).text
    assert "no wave is open" in visit.get(f"{at}/close").text
    assert campaign.events()[-1].who == "admin"


def test_outcomes_with_a_decimal_comma_are_read_after_a_change(visit, campaign):
    at = f"/campaigns/{campaign.name}"
    confirmed(visit, uploaded(visit, UNITS.format(campaign.name), units(4)))
    rows = csv(unit=["u0", "u1"], visit=["0,5", "1,0"])
    checked = visit.get(uploaded(visit, OUTCOMES.format(campaign.name), rows)).text
    assert "read after a change of the format of visit to &#34;1.234,56&#34;" in checked
    assert "visit: numbers are written like 1.234,56" in checked
    fields = {"format0": "comma", "reason": "a decimal comma"}
    assert visit.fill(f"{at}/change", f"{at}/amend", fields).status_code == 422
    answer = visit.fill(f"{at}/change", f"{at}/amend", {**fields, "format0": "1.234,56"})
    assert "the campaign was amended" in visit.get(answer.headers["location"]).text
    assert "Now: 1.234,56." in visit.get(f"{at}/change").text
    checked = visit.get(uploaded(visit, OUTCOMES.format(campaign.name), rows)).text
    assert facts(checked)["Accepted"] == "2"


def test_every_metric_has_its_own_fields(visit, service):
    made = service.campaign(name="metrics", **about("visit", metrics={"fee": {}}))
    at = f"/campaigns/{made.name}"
    confirmed(visit, uploaded(visit, UNITS.format(made.name), units(4)))
    rows = csv(unit=["u0", "u1"], visit=[1, 1], fee=["2,50", "1,25"])
    checked = visit.get(uploaded(visit, OUTCOMES.format(made.name), rows)).text
    assert "fee can be read after a change of the format of fee" in checked
    assert "fee: numbers are written like 1.234,56" in checked
    fields = {"format1": "1.234,56", "absent0": "0", "reason": "as the shop writes"}
    visit.fill(f"{at}/change", f"{at}/amend", fields)
    metrics = made.situation().spec.metrics
    assert (metrics["visit"].format, metrics["visit"].absent) == (None, 0.0)
    assert (metrics["fee"].format, metrics["fee"].absent) == ("1.234,56", None)


def test_outcomes_that_can_be_read_in_two_ways_are_refused_in_the_words_of_pages(visit, campaign):
    confirmed(visit, uploaded(visit, UNITS.format(campaign.name), units(4)))
    rows = csv(unit=["u0", "u1"], visit=["1.234", "7"])
    page = visit.get(uploaded(visit, OUTCOMES.format(campaign.name), rows)).text
    assert "declare its format, by an amendment" in page
    for way in ("1234.56", "1.234,56"):
        assert f"visit: numbers are written like {way}" in page
    assert "seqbatch campaign amend" not in page


def test_advice_about_outcomes_can_be_followed_on_pages(visit, service):
    made = service.campaign(name="followed", **about("visit", metrics={"fee": {}}))
    confirmed(visit, uploaded(visit, UNITS.format(made.name), units(4)))
    rows = csv(unit=["u0", "U1"], visit=[1, 1], fee=["($2.50)", "1"])
    location = uploaded(visit, OUTCOMES.format(made.name), rows)
    done = visit.get(confirmed(visit, location)).text
    for page in (visit.get(location).text, done):
        assert "read after a change of the format of fee to &#34;(1,234.56 $)&#34;" in page


def test_what_comes_next_does_not_ask_for_outcomes_of_the_absent(visit, service):
    made = service.campaign(name="buyers", **about("visit", absent=0, after="2 days"))
    confirmed(visit, uploaded(visit, UNITS.format(made.name), units(4)))
    page = visit.get(f"/campaigns/{made.name}").text
    assert (
        "0 of 4 have arrived. When you close the wave, a unit without one counts as 0, but not"
        in page
    )
    assert "closing it takes" not in page
    made.record(pl.DataFrame({"unit": ["u0"], "visit": [1.0]}))
    page = visit.get(f"/campaigns/{made.name}").text
    assert "1 of 4 have arrived. Once you expect no more outcomes, close wave 1: a unit" in page
    assert "3 without one yet" in page
    assert '<a class="button quiet" href="/campaigns/buyers/close">Close wave 1</a>' in page


def test_a_wave_that_is_not_ready_is_closed_by_force_with_a_reason(visit, campaign):
    close = f"/campaigns/{campaign.name}/close"
    assert "has no units yet" in visit.get(close).text
    campaign.assign(pl.DataFrame({"unit": list("abcd"), "age": [1, 2, 3, 4]}))
    page = visit.get(close).text
    assert "Not ready" in page
    assert "force=True" not in page
    assert visit.fill(close, close).status_code == 422
    assert campaign.situation().wave == 1
    done = visit.fill(close, close, {"reason": "no answers came"})
    assert done.status_code == 303
    assert campaign.events()[-1].why == "no answers came"
    assert visit.send(close, {**form(page, close), "wave": ""}).status_code == 422


def test_history_comes_in_pages(visit, service, monkeypatch):
    monkeypatch.setattr(campaign_pages, "EVENTS", 5)
    made = service.campaign(name="long", grid={"sizes": [400, 4]})
    for number in range(7):
        made.assign(pl.DataFrame({"unit": [f"n{number}"], "age": [number]}))
    page = visit.get("/campaigns/long/history").text
    assert page.count("<strong>assign</strong>") == 5
    [older] = re.findall(r'href="(\?before=\d+)"', page)
    page = visit.get(f"/campaigns/long/history{older}").text
    assert page.count("<strong>assign</strong>") == 2
    assert "<strong>create</strong>" in page
    assert "before=" not in page


def test_files_of_every_kind(visit, campaign):
    page = visit.get(f"/campaigns/{campaign.name}/files").text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]*format=\w+)"', page)]
    assert len(links) == 26
    for link in links:
        answer = visit.get(link)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.content.startswith(BOM_UTF8) == link.endswith("csv")
        policy = answer.headers["content-security-policy"]
        for part in ("sandbox", "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
            assert part in policy


def test_a_masked_campaign_shows_codes_alone(service, visit, tmp_path):
    spec = {
        "name": "blind", "seed": 1, "actions": ["placebo", "cure"], "control": "placebo",
        "randomised": 0.5, "grid": {"sizes": [4, 4]}, **about("visit"),
        "features": {"numeric": {"age": "raw"}}, "masked": True,
    }  # fmt: skip
    made = Campaign.create(spec, store=service.store, key=tmp_path / "key.json", who="ann")
    made.assign(pl.DataFrame({"unit": list("abcd"), "age": [1, 2, 3, 4]}))
    made.record(pl.DataFrame({"unit": list("abcd"), "visit": [0.0, 1.0, 0.5, 1.0]}))
    for page in ("", "/close"):
        assert "masked" in visit.get(f"/campaigns/blind{page}").text
    made.close()
    for page in ("", "/findings", "/report", "/history", "/protocol", "/change", "/units"):
        answer = visit.get(f"/campaigns/blind{page}")
        assert answer.status_code == 200
        assert not re.search("placebo|cure", answer.text)


def test_uploads_at_the_same_time_keep_their_notes(tmp_path):
    kept = Uploads(tmp_path, Settings(uploads=4))

    def upload(number):
        # Some send the same file, and all sessions send more files than are kept.
        content = b"unit\n%d\n" % (number % 7)
        made = kept.keep(f"session-{number % 2}", io.BytesIO(content), "x.csv")
        return made.size == len(content)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(upload, range(400)))
    for session in tmp_path.glob("*"):
        notes = {path.stem for path in session.glob("*.json")}
        assert 1 <= len(notes) <= 7
        assert not list(session.glob("*.partial"))
        last = kept.keep(session.name, io.BytesIO(b"unit\nlast\n"), "x.csv")
        assert kept.find(session.name, last.fingerprint).path.read_bytes() == b"unit\nlast\n"
