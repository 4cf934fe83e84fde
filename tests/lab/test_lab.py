"""The lab at a small size: files, claims, resumption; and user-defined comparisons."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from seqbatch.datasets import Labelled
from seqbatch.engine.local import Here
from seqbatch.lab import EXPERIMENTS, Batches, Claim, Figure1, Figure2, Options, figure1, reproduce
from seqbatch.lab import batches as batches_module
from seqbatch.lab import figure2 as figure2_module
from seqbatch.lab import figure3 as figure3_module
from seqbatch.simulation import Progress
from seqbatch.simulation.summaries import summarise
from tests.refusals import refused
from tests.studies import runs_of


def check_files(files, name):
    endings = [file.name.removeprefix(f"{name}.") for file in files]
    assert endings == ["parquet", "csv", "png", "svg", "html", "claims.md"]
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[3].read_text(encoding="utf-8")
    page = files[4].read_text(encoding="utf-8")
    assert 'src="http' not in page  # the page opens without a network
    claims = files[5].read_text(encoding="utf-8").splitlines()
    assert claims[0].startswith("# ")
    verdicts = ("| held |", "| **did not hold** |", "| not decided |")
    assert all(line.endswith(verdicts) for line in claims[6:])
    assert len(claims) > 7
    assert len(pl.read_parquet(files[0])) == len(pl.read_csv(files[1]))


@pytest.fixture
def labelled(monkeypatch):
    """Stand-ins for the public data: separable classes in a few features."""
    random = np.random.default_rng(0)

    def made(name):
        classes = 2 if name == "mushroom" else 7
        labels = random.integers(0, classes, 3_000)
        features = np.eye(classes)[labels] + 0.3 * random.standard_normal((3_000, classes))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        return Labelled(features, labels, tuple("abcdefg"[:classes]), tuple("abcdefg"[:classes]))

    data = {name: made(name) for name in ("mushroom", "covertype")}
    monkeypatch.setattr(figure1, "_data", data.__getitem__)
    sizes = {"mushroom": (300, 1_000, 3_000), "covertype": (300, 1_000, 3_000)}
    monkeypatch.setattr(figure1, "QUICK", sizes)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["mushroom", "covertype"])
def test_figure_1(dataset, labelled, tmp_path):  # noqa: ARG001
    files = reproduce(Figure1(dataset), Options(out=tmp_path, quick=True))
    check_files(files, f"fig1-{dataset}")
    table = pl.read_parquet(files[0])
    assert len(table) == 3 * (3 if dataset == "mushroom" else 10)
    final = table.filter((pl.col("units") == 3_000) & (pl.col("policy") == "LinUCB"))
    assert final["accuracy"][0] > 0.8
    assert final["batches"][0] == 3_000


def test_figure_1_reads_m_both_ways():
    rules = {name: rule.divide for name, (_, rule) in Figure1("covertype").lines().items()}
    assert rules["SBUCB, M"] == 1
    assert rules["SBUCB, M/8"] == 8
    assert rules["SBUCB, M as in the text"] == 10
    assert rules["SBUCB, M/8 as in the text"] == 80
    text = Figure1("covertype").lines()["SBUCB, M as in the text"][1]
    assert text.grid(581_012, 378).batches == 4_821


@pytest.mark.thorough
def test_figure_2(tmp_path, monkeypatch):
    monkeypatch.setattr(figure2_module, "HORIZONS", (1_000, 4_000))
    seen = []
    options = Options(out=tmp_path, trials=2, report=seen.append)
    files = reproduce(Figure2(), options)
    check_files(files, "fig2")
    table = pl.read_parquet(files[0])
    assert set(table["policy"]) == {"SBPE", "BPE", "RBGL", "LBGL", *figure2_module.PLANNED.values()}
    assert set(table["environment"]) == {"Gaussian", "uniform", "sphere", "Student t"}
    assert seen[-1] == Progress(8, 8, 0)
    reproduce(Figure2(), options)
    assert seen[-1] == Progress(8, 8, 8)


@pytest.mark.thorough
def test_planned_grids_lose_less_than_the_papers_policies_at_every_horizon(tmp_path):
    horizons = (50_000, 75_000, 100_000)
    lines = Figure2().lines(horizons, Here())
    table = runs_of(
        environments={"Gaussian": Figure2().environments()["Gaussian"]},
        policies={name: line for name, line in lines.items() if name != "BPE"},
        horizons=horizons,
        trials=8,
        out=tmp_path,
        method="direct",
    )
    means = {(row["policy"], row["units"]): row["mean"] for row in summarise(table).to_dicts()}
    for units in horizons:
        two, three = (means[name, units] for name in figure2_module.PLANNED.values())
        assert two < min(means[name, units] for name in ("SBPE", "RBGL", "LBGL"))
        assert three < means["SBPE", units] / 2


def test_figure_3(tmp_path, monkeypatch):
    monkeypatch.setattr(figure3_module, "QUICK_POOL", 5_000)
    monkeypatch.setattr(figure3_module, "QUICK_HORIZONS", (4_000, 8_000))
    monkeypatch.setenv("SEQBATCH_DATA", str(tmp_path / "nothing"))
    files = reproduce(EXPERIMENTS["fig3"], Options(out=tmp_path, quick=True, trials=2))
    check_files(files, "fig3")
    assert len(pl.read_parquet(files[0])) == 5 * 2 * 2
    assert "generated rows of Avazu's shape" in files[5].read_text(encoding="utf-8")


def test_figure_3_on_a_device(tmp_path, monkeypatch):
    monkeypatch.setattr(figure3_module, "QUICK_POOL", 5_000)
    monkeypatch.setattr(figure3_module, "QUICK_HORIZONS", (4_000, 8_000))
    monkeypatch.setenv("SEQBATCH_DATA", str(tmp_path / "nothing"))
    options = Options(out=tmp_path, quick=True, trials=3, device="numpy")
    files = reproduce(EXPERIMENTS["fig3"], options)
    check_files(files, "fig3")
    table = pl.read_parquet(files[0])
    assert len(table) == 5 * 2 * 3
    assert table["regret"].is_between(0, 500).all()
    assert "reproduce fig3 --quick --trials 3 --device numpy" in files[5].read_text(
        encoding="utf-8"
    )


def test_quick_looks_and_other_devices_do_not_touch_a_long_run(tmp_path, monkeypatch):
    monkeypatch.setattr(figure3_module, "POOL", 6_000)
    monkeypatch.setattr(figure3_module, "HORIZONS", (4_000, 6_000))
    monkeypatch.setattr(figure3_module, "QUICK_POOL", 5_000)
    monkeypatch.setattr(figure3_module, "QUICK_HORIZONS", (4_000,))
    monkeypatch.setenv("SEQBATCH_DATA", str(tmp_path / "nothing"))
    long = Options(out=tmp_path, trials=2, device="numpy")
    files = {file: file.read_bytes() for file in reproduce(EXPERIMENTS["fig3"], long)}
    for other in ({"quick": True}, {"device": None}, {"quick": True, "device": None}):
        reproduce(EXPERIMENTS["fig3"], replace(long, **other))
    assert all(file.read_bytes() == content for file, content in files.items())
    folders = {folder.name for folder in tmp_path.iterdir()}
    assert folders == {"fig3", "fig3-quick", "fig3-numpy", "fig3-quick-numpy"}
    reproduce(EXPERIMENTS["fig3"], replace(long, trials=3))
    assert "3 trials" in (tmp_path / "fig3-numpy" / "claims.md").read_text(encoding="utf-8")


def test_an_unknown_device_is_refused_before_grids_are_planned(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure2, "run", None)
    with refused("invalid-argument", field="device"):
        reproduce(Figure2(), Options(out=tmp_path, device="gpu"))


@pytest.mark.slow
def test_figure_2_on_a_device(tmp_path, monkeypatch):
    monkeypatch.setattr(figure2_module, "HORIZONS", (1_000, 2_000))
    files = reproduce(Figure2(), Options(out=tmp_path, trials=2, device="numpy"))
    check_files(files, "fig2")
    table = pl.read_parquet(files[0])
    assert len(table) == 4 * 6 * 2 * 2
    assert set(table["policy"]) == {"SBPE", "BPE", "RBGL", "LBGL", *figure2_module.PLANNED.values()}
    assert (table["regret"] > 0).all()


def test_batches(tmp_path, monkeypatch):
    counts = {batches_module.ADVERSARY: (1, 20, 500), batches_module.STOCHASTIC: (1, 3, 20)}
    monkeypatch.setattr(batches_module, "COUNTS", counts)
    monkeypatch.setattr(batches_module, "UNITS", 3_000)
    files = reproduce(Batches(), Options(out=tmp_path, trials=3))
    check_files(files, "batches")
    table = pl.read_parquet(files[0])
    assert (table["bound"] > 0).all()
    means = table.group_by("environment", "batches").agg(pl.col("regret", "bound").mean())
    worst = means.filter(pl.col("environment") == batches_module.ADVERSARY)
    assert (worst["regret"] >= 0.9 * worst["bound"]).all()
    more = pl.read_parquet(reproduce(Batches(), Options(out=tmp_path, trials=5))[0])
    assert more.filter(pl.col("trial") < 3).equals(table)
    assert more["trial"].n_unique() == 5


def test_claims_that_do_not_hold_are_said(tmp_path):
    class Sober:
        name, title = "sober", "A sober look"

        def run(self, options):  # noqa: ARG002
            return pl.DataFrame({"x": [1.0], "y": [2.0]})

        def chart(self, table):
            import altair as alt

            return alt.Chart({"values": table.to_dicts()}).mark_point().encode(x="x:Q", y="y:Q")

        def claims(self, table):  # noqa: ARG002
            return [Claim("here", "more", "less", False), Claim("there", "much", "?", None)]

    page = reproduce(Sober(), Options(out=tmp_path))[-1].read_text(encoding="utf-8")
    assert "| here | more | less | **did not hold** |" in page
    assert "| there | much | ? | not decided |" in page
