"""Each compiled kernel against its plain twin."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import seqbatch
from seqbatch.core import kernels
from seqbatch.core.kernels import compiling

random = np.random.default_rng(0)


def plain_means_and_widths(rows, theta, root, K):
    n, slots, _ = rows.shape
    means, widths = np.empty((n, K)), np.empty((n, K))
    for t in range(n):
        for a in range(K):
            x, model = rows[t, min(a, slots - 1)], min(a, len(theta) - 1)
            means[t, a] = x @ theta[model]
            widths[t, a] = np.sqrt(((root[model] @ x) ** 2).sum())
    return means, widths


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 11, 16, 21, 54])
@pytest.mark.parametrize("units", [1, 15, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize(("slots", "models", "K"), [(1, 3, 3), (3, 3, 3), (3, 1, 3)])
def test_means_and_widths(dim, units, slots, models, K):
    rows = random.standard_normal((units, slots, dim))
    theta = random.standard_normal((models, dim))
    root = np.tril(random.standard_normal((models, dim, dim)))
    means, widths = np.empty((units, K)), np.empty((units, K))
    kernels.means_and_widths(rows, theta, root, means, widths)
    expected = plain_means_and_widths(rows, theta, root, K)
    np.testing.assert_allclose(means, expected[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(widths, expected[1], rtol=1e-12)
    alone = np.empty((units, K))
    kernels.means(rows, theta, alone)
    np.testing.assert_allclose(alone, means, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 3, 4, 7, 10, 54])
def test_a_units_numbers_do_not_depend_on_its_neighbours(dim):
    rows = random.standard_normal((200, 1, dim))
    theta = random.standard_normal((2, dim))
    root = np.tril(random.standard_normal((2, dim, dim)))
    means, widths = np.empty((200, 2)), np.empty((200, 2))
    kernels.means_and_widths(rows, theta, root, means, widths)
    alone = np.empty((200, 2))
    kernels.means(rows, theta, alone)
    for units in ([0], [199], range(3, 40), random.permutation(200)):
        part = np.ascontiguousarray(rows[list(units)])
        m, w = np.empty((len(part), 2)), np.empty((len(part), 2))
        kernels.means_and_widths(part, theta, root, m, w)
        assert np.array_equal(m, means[list(units)])
        assert np.array_equal(w, widths[list(units)])
        kernels.means(part, theta, m)
        assert np.array_equal(m, alone[list(units)])


@pytest.mark.parametrize("dim", [1, 3, 4, 9])
def test_accumulate(dim):
    rows = random.standard_normal((100, dim)) * (random.random((100, dim)) < 0.6)
    rewards, cells = random.standard_normal(100), random.integers(-1, 3, 100)
    gram, moment = np.zeros((3, dim, dim)), np.zeros((3, dim))
    squares, count = np.zeros(3), np.zeros(3, dtype=np.int64)
    kernels.accumulate(rows, rewards, cells, gram, moment, squares, count)
    for cell in range(3):
        mine = cells == cell
        np.testing.assert_allclose(gram[cell], rows[mine].T @ rows[mine], atol=1e-12)
        np.testing.assert_allclose(moment[cell], rows[mine].T @ rewards[mine], atol=1e-12)
        np.testing.assert_allclose(squares[cell], (rewards[mine] ** 2).sum())
        assert count[cell] == mine.sum()
        assert np.array_equal(gram[cell], gram[cell].T)


@pytest.mark.parametrize("dim", [1, 2, 5, 8, 16, 17, 30, 54])
def test_factorise_and_solve(dim):
    x = random.standard_normal((dim + 3, dim))
    gram, moment = x.T @ x, random.standard_normal(dim)
    root, theta = np.empty((dim, dim)), np.empty(dim)
    kernels.factorise(gram, 0.3, np.empty((dim, dim)), root)
    kernels.solve(root, moment, theta)
    A = gram + 0.3 * np.eye(dim)
    np.testing.assert_allclose(root, np.linalg.inv(np.linalg.cholesky(A)), atol=1e-11)
    np.testing.assert_allclose(theta, np.linalg.solve(A, moment), rtol=1e-9, atol=1e-11)


def test_factorise_survives_a_penalty_lost_to_rounding():
    x = 1e12 * np.ones((5, 3))
    root = np.empty((3, 3))
    kernels.factorise(x.T @ x, 1.0, np.empty((3, 3)), root)
    assert np.isfinite(root).all()


def test_online_updates_do_not_drift():
    """After far more rank-one updates than a refresh apart, the root is that of the gram."""
    units, dim = 20 * kernels.REFRESH + 17, 6
    rows = 3 * random.standard_normal((units, 1, dim))
    table = random.standard_normal((units, 2))
    gram, moment = np.zeros((2, dim, dim)), np.zeros((2, dim))
    squares, count = np.zeros(2), np.zeros(2, dtype=np.int64)
    theta, root = np.zeros((2, dim)), np.stack([np.eye(dim)] * 2) / np.sqrt(0.4)
    actions = np.empty(units, dtype=np.int64)
    kernels.replay_online_ucb(
        rows, table, 0.5, 0.4, random.random(units), False, False, False, None,
        gram, moment, squares, count, theta, root, actions,
    )  # fmt: skip
    assert count.sum() == units
    assert (count > 3 * kernels.REFRESH).all()
    for cell in range(2):
        mine = actions == cell
        A = 0.4 * np.eye(dim) + rows[mine, 0].T @ rows[mine, 0]
        b = rows[mine, 0].T @ table[mine, cell]
        np.testing.assert_allclose(root[cell].T @ root[cell], np.linalg.inv(A), rtol=1e-10, atol=0)
        np.testing.assert_allclose(theta[cell], np.linalg.solve(A, b), rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(gram[cell] + 0.4 * np.eye(dim), A, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(squares[cell], (table[mine, cell] ** 2).sum())


@pytest.mark.parametrize("number", [1, 7, 8, 17])
@pytest.mark.parametrize("dim", [1, 5, 31])
def test_solve_positive(number, dim):
    half = random.standard_normal((number, dim, dim))
    matrices, ridge = half @ np.swapaxes(half, 1, 2), 0.5 + random.random(number)
    vectors, solutions = random.standard_normal((number, dim)), np.empty((number, dim))
    kernels.solve_positive(matrices, ridge, vectors, solutions)
    systems = matrices + ridge[:, None, None] * np.eye(dim)
    expected = np.linalg.solve(systems, vectors[..., None])[..., 0]
    np.testing.assert_allclose(solutions, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("columns", [0, 4, 6])
def test_complete_roots(rank, columns):
    """Where directions decide, as given; in all others, as drawn."""
    p, size = 6, 3
    frame = np.linalg.qr(random.standard_normal((p, p)))[0][:, : size - 1]
    root = np.tril(random.standard_normal((size, size)))
    cross, below = random.standard_normal((2, p, p))
    diagonal = np.where(np.arange(p) < columns, 1 + random.random(p), 0.0)
    made = np.full((1, 1, 1 + p, size + p), np.nan)
    ranks = np.full((1, 1), rank)
    given = (one[None, None] for one in (cross, below, diagonal))
    kernels.complete_roots(frame[None], root[None, None], ranks, *given, made)
    expected = np.zeros((1 + p, size + p))
    kept = root * (np.arange(size) < rank)
    wishart = (np.tril(below, -1) + np.diag(diagonal)) * (diagonal > 0)
    others = np.eye(p) - frame @ frame.T
    expected[0, :size] = kept[0]
    expected[1:, :size] = frame @ kept[1:] + others @ (cross[:, :size] * (np.arange(size) < rank))
    expected[1:, size:] = others @ wishart
    np.testing.assert_allclose(made[0, 0], expected, atol=1e-13)


def test_kernels_are_listed_before_they_are_loaded_and_nothing_else_is():
    assert set(dir(kernels)) == set(kernels.__all__)
    assert all(getattr(kernels, name) is not None for name in kernels.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_kernel'"):
        kernels.no_such_kernel  # noqa: B018


def test_where_nothing_can_be_written_code_is_compiled_every_time_and_that_is_said(monkeypatch):
    """A package of the system's, and a user without a home."""

    def refuse(**_):
        raise PermissionError

    monkeypatch.setattr(compiling, "TemporaryFile", refuse)
    with pytest.warns(UserWarning, match="environment variable NUMBA_CACHE_DIR"):
        assert compiling._folder() is None


def test_compiled_code_is_kept_by_version_and_by_all_kernel_files(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "HERE", tmp_path)
    (tmp_path / "outer.py").write_text("1")
    (tmp_path / "inner.py").write_text("2")
    before = compiling._folder()
    assert before.parent == tmp_path
    assert before.name.startswith(f"seqbatch-{seqbatch.__version__}-")
    assert compiling._folder() == before
    (tmp_path / "inner.py").write_text("3")
    assert compiling._folder() not in (None, before)


def test_kernels_are_kept_in_that_folder_and_functions_of_others_are_not():
    assert Path(kernels.means.stats.cache_path).is_relative_to(compiling.FOLDER)
    theirs = njit(cache=True)(zero)
    assert not Path(theirs.stats.cache_path).is_relative_to(compiling.FOLDER)


def zero():
    return 0


def test_processes_that_compile_at_the_same_time_never_load_the_wrong_code(tmp_path):
    """Both have read the index before either has written: Numba alone would number both 1."""
    one, other = (compiling.CodeFiles(str(tmp_path), "kernel", 0.0) for _ in range(2))
    one._load_index = other._load_index = dict
    write = one._save_data

    def late(name, data):
        other.save("floats", "code for floats")
        write(name, data)

    one._save_data = late
    one.save("integers", "code for integers")
    later = compiling.CodeFiles(str(tmp_path), "kernel", 0.0)
    assert later.load("floats") == "code for floats"
    # It is not in the index, so it is compiled again.
    assert later.load("integers") is None


EDITED = """
import sys
from pathlib import Path
from seqbatch.core.kernels import compiling
compiling.HERE = Path(sys.argv[1])
compiling.FOLDER = compiling._folder()
import outer
print(outer.twice(3))
"""


def test_a_kernel_that_is_called_in_another_file_may_be_edited(tmp_path):
    """Numba alone would load the old code of both: the file of the outer one has not changed."""
    head = "from seqbatch.core.kernels.compiling import kernel\n"
    outer = f"from inner import one\n{head}@kernel()\ndef twice(x):\n    return one(x) * 2\n"
    (tmp_path / "outer.py").write_text(outer)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    said = []
    for step in ("1", "5"):
        inner = f"{head}@kernel()\ndef one(x):\n    return x + {step}\n"
        (tmp_path / "inner.py").write_text(inner)
        words = [sys.executable, "-B", "-c", EDITED, str(tmp_path)]
        said.append(subprocess.run(words, env=environment, check=True, capture_output=True).stdout)
    assert said == [b"8\n", b"16\n"]


def test_what_kernels_need_is_loaded_once_by_a_thread_of_its_own():
    code = """if True:
        import sys, threading
        from seqbatch.core.kernels.compiling import load_early
        needed = "numba.np.arraymath"
        assert needed not in sys.modules
        load_early()
        load_early()
        threads = [each for each in threading.enumerate() if each.name == "kernels"]
        # It may be over already.
        assert len(threads) <= 1
        for thread in threads:
            thread.join()
        assert needed in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)
