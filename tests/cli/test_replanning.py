"""What an analyst sees of proposals, and how they are adopted."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.test_campaign import SPEC, folder, run, said  # noqa: F401

pytestmark = pytest.mark.usefixtures("folder")


def close_a_wave():
    """Run the first wave of an adaptive campaign, too small to tell calls from mail."""
    adaptive = SPEC.replace("sizes = [60, 40]", "sizes = [60, 40, 2900]\nadaptive = true")
    Path("spec.toml").write_text(adaptive, encoding="utf-8")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    table = pl.read_csv("a.csv", infer_schema=False)
    noise = np.random.default_rng(1).normal(0, 2, len(table))
    values = np.where(table["action"] == "call", 0.2, 0.0) + np.clip(noise, -5, 5)
    pl.DataFrame({"id": table["id"], "visit": values.round(6)}).write_csv("o.csv")
    run("record", "spring", "o.csv")
    return " ".join(run("close", "spring").stdout.split())


def test_a_proposal_is_shown_and_adopted():
    shown = close_a_wave()
    assert "The best actions look better than random ones by " in shown
    assert "Proposed: remaining waves of " in shown
    assert " instead of 40, 2,900" in shown
    assert "That is expected to save " in shown
    how = "To adopt the proposal before you assign more units: "
    assert f"{how}seqbatch campaign replan spring --adopt" in shown
    assert "Proposed: remaining waves of " in " ".join(run("status", "spring").stdout.split())
    made = said("replan", "spring")
    assert not made["adopted"]
    assert made["proposal"] == said("status", "spring")["proposal"]
    shown = " ".join(run("replan", "spring").stdout.split())
    assert how in shown
    assert "Adopted (event 5)." in run("replan", "spring", "--adopt").stdout
    assert how not in " ".join(run("close", "spring", "--wave", "1").stdout.split())
    after = said("replan", "spring")
    assert after["sizes"] == [60, *made["proposal"]["sizes"]]
    assert after["proposal"] is None
    assert "No proposal. A proposal is made when a wave is" in run("replan", "spring").stdout
    again = run("replan", "spring", "--adopt").stdout
    assert "Proposed: remaining waves of " in " ".join(again.split())
    assert "Already adopted; nothing was changed." in again
    assert said("status", "spring")["events"] == 5
    assert run("verify", "spring").stdout.endswith("Verified: no discrepancies.\n")


def test_a_campaign_that_is_not_adaptive_says_so():
    run("create", "spec.toml")
    shown = " ".join(run("replan", "spring").stdout.split())
    assert "No proposal. Its spec does not have adaptive = true in [grid]." in shown
