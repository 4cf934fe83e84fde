"""The lake example at a small size: DuckDB finds the recorded numbers in the folder."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "lake.py"


def test_the_example_runs_and_the_files_tell_the_same(tmp_path, capsys):
    example = runpy.run_path(str(EXAMPLE))
    campaign = example["run"](tmp_path, 300)
    assert campaign.situation().spec.draws == "md5"
    assert campaign.situation().spec.sums == "exact"
    counted = {action: count for action, count, _ in example["by_hand"](tmp_path / "lake")}
    rows = [row for row in campaign.status().actions if row.wave == 3]
    names = example["ACTIONS"]
    assert {names.index(row.action): row.units for row in rows} == counted
    # Letters for the old and e-mails for the young: hardly anybody gets nothing.
    assert counted[0] < 60
    example["main"](tmp_path_of(tmp_path), 60)
    assert "Verified 180 decisions: sound" in capsys.readouterr().out


def tmp_path_of(folder):
    made = folder / "again"
    made.mkdir()
    return made
