"""Names never run as code in a browser, in any page or notebook."""

import base64
import json
import shutil
import subprocess
from types import SimpleNamespace

import altair as alt
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.cli.app import app
from seqbatch.document import Table, page, paragraph, picture, shown
from seqbatch.planning import Sample, plan
from seqbatch.simulation import Study
from seqbatch.simulation.charts import Rendered, save
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.hostile import EVERY, SCRIPTS, TERMINAL, acts

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000",
    "--dump-dom",
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(tmp_path):
    """Return what a browser makes of a page; skip where there is no browser."""
    if BROWSER is None:
        pytest.skip("no browser is installed")

    def run(file):
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        made = subprocess.run(
            [BROWSER, *FLAGS, profile, file.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return made.stdout

    return run


@pytest.fixture
def campaign(tmp_path):
    actions = [*SCRIPTS, *TERMINAL]
    spec = {
        "name": "x", "actions": actions, "control": actions[0], **about(SCRIPTS[0]),
        "features": {"categorical": {SCRIPTS[1]: list(EVERY)}}, "randomised": 1.0,
        "grid": {"sizes": [len(EVERY), len(EVERY)]},
    }  # fmt: skip
    store = open_store(tmp_path / "c.db")
    made = Campaign.create(spec, store=store, who=SCRIPTS[2])
    made.assign(pl.DataFrame({"unit": EVERY, SCRIPTS[1]: EVERY}))
    made.record(pl.DataFrame({"unit": EVERY, SCRIPTS[0]: 1.0}), reason=SCRIPTS[3])
    made.close(force=True, reason=SCRIPTS[4])
    yield made
    store.close()


def written(tmp_path, inside):
    """Write a page as a notebook shows it: as HTML, with no policy that would keep scripts out."""
    file = tmp_path / "notebook.html"
    text = f"<!doctype html><title>notebook</title><body>{inside}</body>"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_probe_sees_what_runs(tmp_path, opened):
    for script in (SCRIPTS[1], SCRIPTS[3]):
        assert "<title>hacked</title>" in opened(written(tmp_path, script))


def test_a_report_runs_nothing(campaign, tmp_path, opened):
    campaign.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert acts(text) == set()
    assert "<script" not in text
    assert "<title>Campaign x</title>" in opened(tmp_path / "report.html")
    # Without the policy that forbids them, too: there are none.
    bare = text.replace("Content-Security-Policy", "nothing")
    (tmp_path / "bare.html").write_text(bare, encoding="utf-8")
    assert "<title>Campaign x</title>" in opened(tmp_path / "bare.html")


def test_the_policy_of_a_page_keeps_scripts_out(tmp_path, opened):
    (tmp_path / "page.html").write_text(page("safe", SCRIPTS), encoding="utf-8")
    assert "<title>safe</title>" in opened(tmp_path / "page.html")


def test_notebooks_run_nothing(campaign, tmp_path, opened):
    strange = Campaign(SimpleNamespace(label=SCRIPTS[1]), SCRIPTS[0])
    parts = [
        campaign._repr_html_(),
        campaign.status()._repr_html_(),
        campaign.findings()._repr_html_(),
        strange._repr_html_(),
        shown("\n".join(EVERY), [Table(EVERY[0], EVERY[:3], [EVERY[:3]])]),
    ]
    assert "<title>notebook</title>" in opened(written(tmp_path, "".join(parts)))


@pytest.mark.usefixtures("few_trials")
def test_a_plan_runs_nothing(tmp_path, opened):
    values = np.random.default_rng(1).normal(size=(200, len(SCRIPTS)))
    made = plan(units=2_000, actions=2, features=Sample(values, SCRIPTS), batches=2, effect=0.3,
                quick=True)  # fmt: skip
    text = made.save(tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "hacked</title>" not in opened(tmp_path / "plan.html")
    assert "<title>notebook</title>" in opened(written(tmp_path, made._repr_html_()))


COMPARISON = """
horizons = [200, 400]
trials = 2
[environments.{first}]
kind = "Gaussian"
dim = 2
actions = 2
[policies.{second}]
kind = "SBPE"
grid = {{kind = "uniform", batches = 2}}
"""


def test_a_study_runs_nothing(tmp_path, opened):
    for first, second in ((SCRIPTS[0], TERMINAL[0]), (TERMINAL[2], SCRIPTS[3])):
        names = {"first": json.dumps(first), "second": json.dumps(second)}
        (tmp_path / "spec.toml").write_text(COMPARISON.format(**names), encoding="utf-8")
        folder = tmp_path / f"out {len(first)}"
        words = ["simulate", str(tmp_path / "spec.toml"), "--out", str(folder)]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert acts(result.output) == set()
        assert "hacked</title>" not in opened(folder / "time.html")
    made = Study.load(tmp_path / "spec.toml").run()
    assert "<title>notebook</title>" in opened(written(tmp_path, made._repr_html_()))


def hostile_chart():
    rows = [{"x": place, "name": name} for place, name in enumerate(SCRIPTS)]
    return (
        alt.Chart({"values": rows}, title=SCRIPTS[0])
        .mark_point()
        .encode(x=alt.X("x:Q", title=SCRIPTS[1]), color="name:N", tooltip="name:N")
    )


def test_a_chart_of_its_own_page_runs_nothing_but_itself(tmp_path, opened):
    file = save(hostile_chart(), tmp_path / "chart.html")
    [_, script] = file.read_text(encoding="utf-8").rsplit("<script", 1)
    assert script.count("</script>") == 1
    seen = opened(file)
    assert "hacked</title>" not in seen
    # It is drawn all the same.
    assert "marks" in seen


def test_a_picture_is_an_image_and_so_runs_nothing(tmp_path, opened):
    script = "<script>document.title='hacked'</script>"
    inside = picture(lambda: Rendered(hostile_chart()), SCRIPTS[0])
    assert inside.startswith("<img ")
    data = base64.b64encode(f'<svg xmlns="http://www.w3.org/2000/svg">{script}</svg>'.encode())
    worse = f'<img src="data:image/svg+xml;base64,{data.decode()}">'
    assert "<title>notebook</title>" in opened(written(tmp_path, inside + worse))


def test_text_is_escaped_wherever_it_stands():
    hostile = "<script>alert('&')</script>"
    table = Table(hostile, (hostile,), [[hostile]])
    made = page(hostile, [paragraph(hostile), table.html()])
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 6
