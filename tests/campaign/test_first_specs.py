"""What `init` writes for a file, `validate` accepts for that very file: for any file, any options.

Where `init` refuses, it names the file, the column or the option, and what is wrong with it.
"""

import csv
from datetime import date, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqbatch.campaign import validate
from seqbatch.campaign.spec.template import Choices, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.errors import InvalidArgumentError, InvalidFileError, InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.test_corpus import CORPUS, UNITS
from tests.cases import thorough

TODAY = date(2026, 3, 1)
often = settings(suppress_health_check=list(HealthCheck), database=None, deadline=None)

NAMES = [
    "age", "Umsatz Vorjahr", "PLZ", "Kundennummer", "customer_id", "e-mail", "first_name", "Anrede",
    "Bemerkung", "remark", "do_not_contact", "Werbesperre", "opt_out", "telefon_erlaubt",
    "newsletter optIn", "optimum", "phone_consent", "unsubscribed", "revenue", "segment", "action",
    "reward", "wave", "p(none)", "outcome", "unit", "other", "missing", "intercept", "created_at",
    "birth date", "a.b", "# no comment", "[x]", '"', "'", "ü", "\u202eturned", "new\nline", "`b`",
    "NA", "1", "true", "not", "and or", "x" * 250,
]  # fmt: skip
WORDS = [
    "a", "b", "A", " a", "Köln", "other", "missing", "NA", "n/a", "-", "?", "none", "NULL", "nan",
    "0", "1", "yes", "no", "ja", "nein", "X", "TRUE", "false", "01067", "+49 30 123", "1.234,56 €",
    "1,234", "1.234", "12%", "1e30", "9e29", "1e300", "inf", "-1", "999", "9999", "0.5", "0,5",
    "12:30", "2024-01-31", "31.01.2024", "01/02/2024", "1900-01-01", "01.01.1900", "1970-01-01",
    "20240131", "0001-01-01", "9999-12-31", "30.02.2024", "Mrs", "ann@example.org", "x" * 60,
    "Please leave it with the neighbours, they are at home all day, thank you", "z" * 300, "🙂",
    "a,b", 'say "hi"', "two\nlines", "# c", "\ufeff", "a\u0308",
]  # fmt: skip
#: Values that differ in every row.
SERIES = {
    "ids": lambda row: f"C{row:05d}",
    "zeros": lambda row: f"{row:06d}",
    "whole": lambda row: str(row * 7 % 1009),
    "amounts": lambda row: f"{row * 13 % 97 / 4:.2f}",
    "commas": lambda row: f"{row % 89 * 111},{row % 10}0",
    "days": lambda row: (date(2020, 1, 1) + timedelta(row % 700)).isoformat(),
    "german days": lambda row: (date(1950, 1, 1) + timedelta(row % 9000)).strftime("%d.%m.%Y"),
    "towns": lambda row: f"town {row * row % 173}",
    "notes": lambda row: f"Note {row}: the customer asked for a call back in the afternoon",
}


@st.composite
def columns(draw, rows):
    """Return the cells of one column: a few values again and again, or a series, with gaps."""
    series = draw(st.sampled_from([None, None, None, *SERIES]))
    pool = draw(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), min_size=1, max_size=7))
    cells = [
        pool[row % len(pool)] if series is None else SERIES[series](row) for row in range(rows)
    ]
    for row in draw(st.lists(st.integers(0, rows - 1), max_size=3)):
        cells[row] = draw(st.sampled_from(WORDS))
    first, step = draw(st.sampled_from([(0, 0), (0, 2), (1, 7), (6, 1), (rows // 3, 1)]))
    return [
        "" if step and row >= first and (row - first) % step == 0 else cell
        for row, cell in enumerate(cells)
    ]  # fmt: skip


@st.composite
def files(draw):
    """Return the header and the columns of a file; usually with ids, sometimes of a wrong kind."""
    rows = draw(st.sampled_from([2, 3, 7, 40, 120, 450, 1500, 4200]))
    names = draw(st.lists(st.sampled_from(NAMES) | st.text(max_size=12), min_size=1, max_size=7))
    made = [draw(columns(rows)) for _ in names]
    if draw(st.integers(0, 9)):
        names, made = ["id", *names], [[f"K{row}" for row in range(rows)], *made]
    return names, made


def write(folder, names, made, *, delimiter=","):
    path = folder / "units.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        writer.writerows(zip(*made, strict=True))
    return path


def write_parquet(folder, names, made):
    path = folder / "units.parquet"
    kept = {
        name: pa.array([cell or None for cell in cells])
        for name, cells in zip(names, made, strict=False)
    }
    pq.write_table(pa.table(kept), path)
    return path


def drafted(path, **options):
    """Return the first spec of a file; None if it is refused, for a reason that names the thing."""
    found = None
    try:
        return first_spec(path, Choices(seed=1, today=TODAY, **options))
    except (InvalidFileError, InvalidArgumentError, InvalidSpecError) as error:
        found = error
    if isinstance(found, InvalidFileError):
        assert found.problems
    else:
        # A spec's setting begins with the option that it comes from.
        assert found.field.partition(".")[0] in options, found
    return None


def checked(folder, path, **options):
    """Draft a spec of a file; validate accepts it for that very file, unless it was refused."""
    if (made := drafted(path, **options)) is None:
        return None
    scratch = open_store(folder / "scratch.db")
    try:
        found = validate(parse_spec(made.text), path, scratch=scratch)
    finally:
        scratch.close()
        for each in folder.glob("scratch.db*"):
            each.unlink()
    assert found.sound, (found.problems, made.text)
    assert found.units == made.draft.rows
    return made


@st.composite
def options(draw, names):
    """Return options of `init`, some of which do not fit the file."""
    actions = draw(st.sampled_from([
        ["none", "call"], ["nothing", "e-mail", "Brief"], ["mail", "offer A", "call"],
        ["a", "b", "c", "d"],
    ]))  # fmt: skip
    made = {"actions": actions, "waves": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        made["metric"] = draw(st.sampled_from([name for name in names if name] or ["y"]))
    if draw(st.booleans()):
        made["max_features"] = draw(st.integers(1, 12))
    if not draw(st.integers(0, 3)):
        made["columns"] = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    return made


def accepted_share(folder, examples, strategy):
    """Check many files; return the share that was not refused."""
    accepted = []

    @settings(often, max_examples=examples)
    @given(strategy)
    def run(case):
        path, chosen = case
        accepted.append(checked(folder, path(folder), **chosen) is not None)

    run()
    return sum(accepted) / len(accepted)


@st.composite
def cases(draw):
    names, made = draw(files())
    delimiter = draw(st.sampled_from([",", ";", "\t", None]))
    if delimiter is None:
        path = partial(write_parquet, names=list(dict.fromkeys(names)), made=made)
    else:
        path = partial(write, names=names, made=made, delimiter=delimiter)
    return path, draw(st.just({}) | options(names))


@pytest.mark.parametrize("examples", [60, *thorough(250)])
def test_any_file_with_any_options(tmp_path_factory, examples):
    # Most of them are accepted: a test of refusals alone would say little.
    assert accepted_share(tmp_path_factory.mktemp("any"), examples, cases()) > 0.4


@pytest.mark.parametrize("examples", [25, *thorough(100)])
def test_files_as_people_have_them_with_any_options(tmp_path_factory, examples):
    @st.composite
    def usable(draw):
        case = draw(st.sampled_from(UNITS))
        names = [*case["unit"], *case.get("became", {})]
        return lambda _: CORPUS / case["file"], draw(options(names))

    assert accepted_share(tmp_path_factory.mktemp("corpus"), examples, usable()) > 0.4


def test_a_column_that_is_empty_but_for_six_rows(tmp_path):
    rows = 1_500
    said = [f"remark {row % 5}" if row < 6 else "" for row in range(rows)]
    path = write(tmp_path, ["id", "extra"], [[f"K{row}" for row in range(rows)], said])
    [_, extra] = checked(tmp_path, path).draft.columns
    assert (extra.became, extra.code) == ("left out", "one-value")
    said = [f"remark {row % 40}" if row < 240 else "" for row in range(rows)]
    path = write(tmp_path, ["id", "extra"], [[f"K{row}" for row in range(rows)], said])
    [_, extra] = checked(tmp_path, path).draft.columns
    assert (extra.became, extra.code) == ("left out", "rare")
