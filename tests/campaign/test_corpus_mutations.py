"""Files of the corpus, changed at random: nothing ends in a traceback, nothing is read wrongly.

What is spelled otherwise must be read as before. What is damaged must end in an answer or in words.
"""

import codecs
import csv
import io
import time
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign, validate
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.template import Choices, first_spec, write_spec
from seqbatch.errors import SeqbatchError
from seqbatch.storage import open_store
from tests.campaign.test_corpus import CORPUS, MANIFEST, UNITS
from tests.cases import thorough

TEXTS = sorted(case["file"] for case in UNITS if case["file"].endswith((".csv", ".txt")))
EVERY = sorted(case["file"] for case in MANIFEST if "of" not in case)
DELIMITERS = ",;\t|"
#: Seconds that a file may take, from init to assign.
PATIENCE = 10
often = settings(suppress_health_check=list(HealthCheck), database=None, deadline=None)


def read(path):
    """Return the names and cells of a file as the product reads them."""
    with Source(path) as opened:
        names = opened.columns()
        pieces = [batch.to_pydict() for batch in opened.batches(names)]
        assert not opened.ragged
    return names, [[cell for piece in pieces for cell in piece[name]] for name in names]


def rows_of(name):
    """Return the rows of a text file of the corpus, by Python's own reader, and its delimiter."""
    path = CORPUS / name
    with Source(path) as opened:
        dialect = opened.dialect
    # Encodings are known by the corpus' own tests; the mark before the text is no part of it.
    text = path.read_bytes().decode(dialect.encoding).removeprefix("\ufeff")[dialect.before :]
    found = [
        row for row in csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter) if row
    ]
    return [row for row in found if any(row)], dialect.delimiter


def written(rows, *, delimiter=",", quoting=csv.QUOTE_MINIMAL, end="\n", last=True):
    if any(mark in cell for row in rows for cell in row for mark in "\r\n"):
        # Python's writer leaves line breaks unquoted that are not its own.
        quoting = csv.QUOTE_ALL
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    return file.getvalue() if last else file.getvalue().removesuffix(end)


@cache
def spec_of(path):
    """Return the settings of a first spec, all but the names of the campaign and of the file."""
    return first_spec(path, Choices(seed=1)).text.partition("\nseed = ")[2]


def chain(folder, path):
    """Go from a file to a first wave; return how many units were assigned."""
    spec = folder / "spec.toml"
    made = write_spec(spec, path, seed=1, actions=["none", "offer"], waves=1, force=True)
    scratch, store = open_store(folder / "scratch.db"), open_store(folder / "campaigns.db")
    try:
        found = validate(spec, path, scratch=scratch)
        # What is refused by one is refused by the other.
        campaign = Campaign.create(spec, store=store)
        try:
            assigned = campaign.assign(path).assigned
        except SeqbatchError:
            assert not found.sound
            raise
        assert found.sound
        assert assigned == made.draft.rows
        return assigned
    finally:
        for each in (scratch, store):
            each.close()


def fresh(folder):
    for name in ("scratch.db", "campaigns.db"):
        for path in folder.glob(f"{name}*"):
            path.unlink()


@settings(often, max_examples=25)
@given(
    name=st.sampled_from(TEXTS),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be+", "cp1252"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    last=st.booleans(),
)
def test_spelled_otherwise_a_file_is_read_as_before(
    tmp_path_factory, name, encoding, end, quoting, last
):
    rows, delimiter = rows_of(name)
    text = written(rows, delimiter=delimiter, quoting=quoting, end=end, last=last)
    try:
        content = text.encode(encoding.removesuffix("+"))
    except UnicodeEncodeError:
        return
    if encoding.endswith("+"):
        content = codecs.BOM_UTF16_BE + content
    path = tmp_path_factory.mktemp("spelled") / name
    path.write_bytes(content)
    assert read(path) == read(CORPUS / name)
    assert spec_of(path) == spec_of(CORPUS / name)


@settings(often, max_examples=150)
@given(
    name=st.sampled_from(TEXTS),
    delimiter=st.sampled_from(DELIMITERS),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    cut=st.integers(1, 30),
)
def test_with_other_delimiters_cells_are_the_same_or_refused(
    tmp_path_factory, name, delimiter, quoting, cut
):
    rows, _ = rows_of(name)
    path = tmp_path_factory.mktemp("delimited") / name
    path.write_text(written(rows[: cut + 1], delimiter=delimiter, quoting=quoting), "utf-8")
    names, columns = read(CORPUS / name)
    expected = names, [column[:cut] for column in columns]
    try:
        found = read(path)
    except SeqbatchError:
        return
    assert found == expected
    # Stated, it is not looked for.
    with Source(path, delimiter=delimiter) as opened:
        assert opened.columns() == names


@settings(often, max_examples=25)
@given(name=st.sampled_from(TEXTS), data=st.data())
def test_a_row_that_comes_twice_is_never_assigned(tmp_path_factory, name, data):
    rows, delimiter = rows_of(name)
    which = data.draw(st.integers(0, len(rows) - 1))
    place = data.draw(st.integers(max(which, 1), len(rows)))
    folder = tmp_path_factory.mktemp("twice")
    path = folder / name
    path.write_text(
        written([*rows[:place], rows[which], *rows[place:]], delimiter=delimiter), "utf-8"
    )
    with pytest.raises(SeqbatchError):
        chain(folder, path)


def _flipped(draw, content):
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        if content:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


def _cut(draw, content):
    return content[: draw(st.integers(0, len(content)))]


def _lines(draw, content):
    lines = content.splitlines(keepends=True) or [b""]
    line = lines[draw(st.integers(0, len(lines) - 1))]
    lines.insert(draw(st.integers(0, len(lines))), line)
    return b"".join(lines)


def _without(draw, content):
    lines = content.splitlines(keepends=True)
    return b"".join(lines[draw(st.integers(0, len(lines))) :])


def _swapped(draw, content):
    old, new = (draw(st.sampled_from(list(DELIMITERS + '"'))).encode() for _ in "ab")
    return content.replace(old, new)


def _reencoded(draw, content):
    encodings = ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-32", "cp500"]
    old, new = (draw(st.sampled_from(encodings)) for _ in "ab")
    return content.decode(old, errors="replace").encode(new, errors="replace")


@st.composite
def damaged(draw):
    name = draw(st.sampled_from(EVERY))
    content = (CORPUS / name).read_bytes()
    changes = [_flipped, _cut, _lines, _without, _swapped, _reencoded]
    for change in draw(st.lists(st.sampled_from(changes), min_size=1, max_size=3)):
        content = change(draw, content)
    return name, content


def examined(folder, name, content):
    """Hand a damaged file to every step; say whether it was refused, in words."""
    path = folder / name
    path.write_bytes(content)
    # Of the processor's time: another program may have it meanwhile.
    began = time.process_time()
    try:
        chain(folder, path)
        words = ""
    except SeqbatchError as error:
        words = str(error)
    assert time.process_time() - began < PATIENCE
    return bool(words)


@pytest.mark.parametrize("examples", [25, *thorough(50)])
def test_a_damaged_file_ends_in_an_answer_or_in_words(tmp_path_factory, examples):
    folder = tmp_path_factory.mktemp("damaged")
    refused = []

    @settings(often, max_examples=examples)
    @given(damaged())
    def run(case):
        fresh(folder)
        refused.append(examined(folder, *case))

    run()
    # Both kinds of ends were reached.
    assert {True, False} == set(refused)
