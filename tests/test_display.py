"""Objects show themselves: short lines in a console, tables and pictures in a notebook."""

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from seqbatch import Learner, document, environments, grids, policies
from seqbatch.campaign import Campaign
from seqbatch.document import MOST_ROWS, Table, paragraph, shown
from seqbatch.errors import StoreError
from seqbatch.planning import plan
from seqbatch.simulation import Study, simulate
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, outcomes, units
from tests.simulation.test_study_file import SPEC as COMPARISON

NASTY = "<script>alert('mail')</script>"


class Page(HTMLParser):
    """The cells, images and tags of a piece of HTML, every tag of which must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.images = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs)["src"])
        elif tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def page(made):
    """Return what a notebook shows, which asks nobody for anything and runs nothing."""
    text = made._repr_html_()
    found = Page(text)
    assert "script" not in found.tags
    assert all(image.startswith("data:image/svg+xml;base64,") for image in found.images)
    without_data = re.sub(r'src="data:[^"]*"', "", text)
    assert "://" not in without_data
    return found


def holds_tables(found, made):
    for table in made.tables():
        for row in table.shortened().cells():
            for cell in row:
                assert cell in found.cells


def is_short(made):
    text = repr(made)
    assert len(text) < 300
    assert "array(" not in text
    return text


@pytest.fixture(scope="module")
def planned():
    return plan(units=5_000, actions=2, features=3, max_batches=2)


@pytest.fixture
def campaign(tmp_path):
    store = open_store(str(tmp_path / "campaigns.db"))
    spec = {**SPEC, "actions": ["none", "call", NASTY], "control": "none"}
    made = Campaign.create(spec, store=store, who="ann")
    table = made.assign(units(300)).table
    names = table.column("action").to_pylist()
    plain = table.set_column(1, "action", [["mail" if name == NASTY else name for name in names]])
    made.record(outcomes(plain))
    made.close()
    yield made
    store.close()


@pytest.mark.usefixtures("few_trials")
@pytest.mark.slow
def test_a_plan_shows_words_tables_and_picture(planned):
    text = is_short(planned)
    assert text.startswith("<Plan: 5,000 units, 2 actions: 2 batches, with ")
    sizes = ", ".join(f"{size:,}" for size in planned.grid.sizes)
    assert f"batches of {sizes} units; expected regret " in text
    found = page(planned)
    assert len(found.images) == 1
    holds_tables(found, planned)


def test_a_worst_case_plan_says_what_is_promised():
    made = plan(units=5_000, actions=2, dim=3, contexts="adversarial", max_batches=2)
    assert "guarantee" in is_short(made)
    assert len(page(made).images) == 1


def test_a_campaign_shows_its_status(campaign):
    assert re.fullmatch(
        r"<Campaign spring in .*campaigns.db: wave 2 of 3; 300 units; 4 events>",
        is_short(campaign),
    )
    status = campaign.status()
    assert is_short(status) == (
        "<Status of spring: wave 2 of 3, room for 200 more units; 300 units, 300 outcomes; "
        "4 events>"
    )
    assert campaign._repr_html_() == status._repr_html_()
    found = page(campaign)
    assert NASTY in found.cells
    assert "none (control)" in found.cells
    assert len(found.images) == 1
    holds_tables(found, status)


def test_a_picture_is_an_image_of_its_own(campaign):
    [image] = page(campaign).images
    drawn = base64.b64decode(image.partition(",")[2]).decode()
    assert drawn.startswith("<svg")
    assert NASTY not in drawn


def test_a_new_campaign_has_no_picture(tmp_path):
    store = open_store(str(tmp_path / "campaigns.db"))
    made = Campaign.create(SPEC, store=store)
    assert "wave 1 of 3; 0 units; 1 event>" in repr(made)
    assert not page(made).images
    made.abort(reason="a complaint")
    assert "aborted; 0 units" in repr(made)
    assert repr(made.status()) == "<Status of spring: aborted; 0 units, 0 outcomes; 2 events>"
    assert page(made).cells.count("aborted") == 3
    store.close()


def test_the_page_of_a_campaign_escapes_names(campaign, tmp_path):
    campaign.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert NASTY not in text
    for table in campaign.findings().tables():
        assert table.html() in text


class Broken:
    """A store whose database is not there any more."""

    label = "<gone>"

    def __init__(self, error):
        self.error = error

    def read(self, name):  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize("error", [StoreError("file is not a database"), KeyError("spec")])
def test_a_broken_store_is_said(error):
    made = Campaign(Broken(error), "spring")
    assert (
        repr(made)
        == f"<Campaign spring in <gone>: cannot be read: {type(error).__name__}: {error}>"
    )
    assert "&lt;gone&gt;: cannot be read" in made._repr_html_()


def test_a_damaged_file_is_said(tmp_path):
    file = tmp_path / "campaigns.db"
    store = open_store(str(file))
    made = Campaign.create(SPEC, store=store)
    store.close()
    file.write_bytes(b"not a database at all, but long enough to be looked into" * 100)
    assert "cannot be read: " in repr(made)
    assert "cannot be read: " in made._repr_html_()
    store.close()


def test_a_run_shows_its_batches():
    made = simulate(
        policies.RBGL(), environments.Sphere(dim=2, actions=3), grids.explicit([50, 1_200]), seed=1
    )
    assert is_short(made).startswith("<Trajectory: 1,200 units in 2 batches, 3 actions; regret ")
    holds_tables(page(made), made)
    counts = [row[1:] for row in made.tables()[1].rows]
    assert np.array_equal(counts, made.counts)


def test_columns_that_nobody_knows_are_left_out():
    made = simulate(
        policies.UniformRandom(), environments.Sphere(dim=2, actions=2), grids.explicit([9]), seed=1
    )
    assert not np.isnan([row[1:] for row in made.tables()[0].rows]).any()


def test_a_grid_shows_its_batches():
    grid = grids.explicit([500, 2_000])
    assert repr(grid) == "Grid(units=2000, batches=2, ends=[500, 2000])"
    holds_tables(page(grid), grid)


def test_a_long_grid_is_shortened():
    found = page(grids.online(units=10_000))
    assert "…" in found.cells
    assert "10,000" in found.cells
    assert found.tags.count("tr") == MOST_ROWS + 2


def test_a_learner_shows_its_batches():
    oracle = policies.Oracle(theta=np.linspace(-1, 1, 200).reshape(2, 100))
    learner = Learner(oracle, grids.explicit([2, 4, 6]), actions=2, dim=100, layout="block")
    assert "2 actions; batch 1 of 3, 2 units left" in is_short(learner)
    decision = learner.assign(np.ones((2, 100)))
    assert "awaiting outcomes" in page(learner).cells
    learner.observe(np.zeros(len(decision)))
    learner.assign(np.ones((1, 100)))
    [table] = learner.tables()
    assert table.rows == [(1, 2, 2, "closed"), (2, 2, 1, "open"), (3, 2, 0, "to come")]
    holds_tables(page(learner), learner)


@pytest.mark.slow
def test_a_study_shows_its_summary(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(COMPARISON.replace("policies.mine", f'policies."{NASTY}"'), encoding="utf-8")
    made = Study.load(spec).run()
    assert is_short(made) == (
        "<StudyResult: 2 policies in 1 environment, 2 or 4 batches, 400 or 800 units; 3 trials>"
    )
    found = page(made)
    assert len(found.images) == 1
    assert NASTY in found.cells
    holds_tables(found, made)


def test_everything_is_escaped():
    table = Table(NASTY, (NASTY, "b"), [(NASTY, 1)], words=(NASTY,))
    for text in (table.html(), paragraph(NASTY), shown(NASTY, [table])):
        assert "<script" not in text
        assert "&lt;script&gt;" in text


@pytest.mark.slow
def test_a_plan_is_drawn_without_altair_or_polars():
    code = (
        "import sys\n"
        "sys.modules['altair'] = None\n"
        "from seqbatch.planning import plan\n"
        "text = plan(units=500, actions=2, features=1, max_batches=1, quick=True)._repr_html_()\n"
        "assert '<img' in text\n"
        "assert '<td' in text\n"
        "assert 'polars' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_page_shows_text_as_text_and_runs_nothing():
    hostile = "<script>alert('&')</script>"
    table = Table(hostile, (hostile,), [(hostile,)])
    made = document.page(hostile, [paragraph(hostile), table.html()])
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 6
    assert "default-src 'none'" in made
