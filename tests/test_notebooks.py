"""The notebooks in examples/ run from top to bottom, and are kept without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.cases import thorough

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_each_story_has_one():
    assert [path.stem for path in NOTEBOOKS] == ["campaign", "comparison", "trial"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_valid_and_hold_no_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.filterwarnings("default")  # those of the notebook machinery are not ours
@pytest.mark.parametrize(
    "path", [NOTEBOOKS[0], *thorough(*NOTEBOOKS[1:])], ids=lambda path: path.stem
)
def test_they_run(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    printed = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert any(printed)
