"""The ways to read an uploaded file: what each would give, and reading it again."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign.files.csv import DELIMITERS
from seqbatch.campaign.files.formats import WORKBOOKS
from seqbatch.campaign.files.reading import ReadingOptions, Source
from seqbatch.display import counted
from seqbatch.errors import InvalidFileError, Remedy, RowProblem
from seqbatch.service.long_calls import placed
from seqbatch.service.pages.forms import read_form
from seqbatch.service.pages.session import Visiting
from seqbatch.service.pages.spec_form import PLANNED
from seqbatch.service.pages.uploads import Kept, Uploads, reading_of
from seqbatch.service.problems import ProblemError

#: Most rows and columns of a preview, and most sheets that are offered.
ROWS, COLUMNS, SHEETS = 3, 6, 6
#: Most lines of a title that are looked below for a header.
MOST_LINES = 10
#: The pages to which a file that is read again may lead.
PAGES = re.compile(r"/new|/campaigns/[A-Za-z0-9._-]+/(?:units|outcomes)")


@dataclass(frozen=True)
class ReadingChoice:
    """A way to read a file.

    Parameters
    ----------
    label
        The way, as the label of a button.
    options
        The options that it adds, as JSON.
    header, rows
        The first columns and rows that it gives.
    problem
        Why the file could not be read in this way, either; "" if it could.
    """

    label: str
    options: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    problem: str = ""


@dataclass(frozen=True)
class Readings:
    """What may be decided about how a file is read.

    Parameters
    ----------
    choices
        The ways that solve its problems.
    columns
        The columns by which the newest row of a repeated unit can be chosen; () if none is
        repeated.
    sheets
        The visible sheets of a workbook that has several.
    sheet
        The sheet that was read.
    """

    choices: Sequence[ReadingChoice] = ()
    columns: Sequence[str] = ()
    sheets: Sequence[str] = ()
    sheet: str = ""


def readings_of(file: Kept, error: InvalidFileError | None = None) -> Readings:
    """Return how a file could be read, with the first rows that each way gives."""
    sheet, others = _sheets(file)
    if error is None:
        return Readings(sheets=[sheet, *others] if others else (), sheet=sheet)
    columns: Sequence[str] = ()
    made: list[ReadingChoice] = []
    for remedy in error.remedies:
        if remedy.action == "dedupe":
            columns = _columns(file, {})
            made += _of_repeats(file, error)
        elif remedy.action in ("skip-rows", "delimiter"):
            made.append(_previewed(file, _label(remedy), remedy.options))
    wanted = {each.column for each in error.problems if each.code == "no-such-column"}
    if wanted and (lines := _lines_above(file, wanted)):
        remedy = Remedy("skip-rows", skip_rows=lines)
        made.append(_previewed(file, _label(remedy), remedy.options))
    if not made:
        made += [_previewed(file, f"Read sheet {one}", {"sheet": one}) for one in others[:SHEETS]]
    return Readings(made, columns, [sheet, *others] if others else (), sheet)


def _label(remedy: Remedy) -> str:
    if remedy.action == "delimiter":
        mark = remedy.options["delimiter"]
        return f"A {DELIMITERS.get(mark, mark)} separates cells"
    return f"Skip {counted(remedy.options['skip_rows'], 'line')} above the header"


def _source(file: Kept, options: Mapping[str, Any]) -> Source:
    how: ReadingOptions = {**file.reading, "file_format": file.file_format}
    return Source(file.path, name=file.name, **{**how, **options})


def _sheets(file: Kept) -> tuple[str, list[str]]:
    """Return the sheet of a workbook that is read, and its other visible sheets."""
    if file.file_format not in WORKBOOKS:
        return "", []
    try:
        with _source(file, {}) as opened:
            return opened.sheets
    except InvalidFileError:
        return "", []


def _columns(file: Kept, options: Mapping[str, Any]) -> list[str]:
    try:
        with _source(file, options) as opened:
            return opened.columns()
    except InvalidFileError:
        return []


def _lines_above(file: Kept, wanted: set[str]) -> int:
    """Return how many lines of a CSV file are above a header with these columns; 0 if none."""
    if file.file_format != "csv":
        return 0
    skipped = range(1, MOST_LINES + 1)
    found = (rows for rows in skipped if wanted <= set(_columns(file, {"skip_rows": rows})))
    return next(found, 0)


def _previewed(file: Kept, label: str, options: Mapping[str, Any]) -> ReadingChoice:
    said = json.dumps(dict(options))
    try:
        with _source(file, options) as opened:
            header = opened.columns()[:COLUMNS]
            rows = [row for _, row in islice(_rows(opened, header), ROWS)]
    except InvalidFileError as error:
        return ReadingChoice(label, said, problem=error.problems[0].reason)
    return ReadingChoice(label, said, header, rows)


def _of_repeats(file: Kept, error: InvalidFileError) -> list[ReadingChoice]:
    """Return the rows of a unit that are kept if the first or the last row of each counts."""
    repeat = next(each for each in error.problems if each.code == "repeated")
    header, rows = _repeats(file, repeat)
    return [
        ReadingChoice(
            f"Keep the {which} row of each", json.dumps({"dedupe": which}), header, rows[place:][:1]
        )
        for which, place in (("first", 0), ("last", -1))
    ]


def _repeats(file: Kept, repeat: RowProblem) -> tuple[list[str], list[list[str]]]:
    """Return the rows of the unit that is repeated on a line."""
    with _source(file, {}) as opened:
        there = opened.columns()
        if repeat.column not in there:
            return [], []
        header = [repeat.column, *(name for name in there if name != repeat.column)][:COLUMNS]
        unit = next((row[0] for line, row in _rows(opened, header) if line == repeat.row), None)
        return header, [row for _, row in _rows(opened, header) if row[0] == unit]


def _rows(opened: Source, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows as texts, each with its line."""
    read = 0
    for piece in opened.batches(columns, shown=True):
        cells = [column.to_pylist() for column in piece.columns]
        lines = opened.lines(np.arange(read + 1, read + 1 + piece.num_rows)).tolist()
        for line, *row in zip(lines, *cells, strict=True):
            yield line, ["" if cell is None else str(cell)[:40] for cell in row]
        read += piece.num_rows


# ----------------------------------------------------------------------
# Reading a kept file in another way


router = APIRouter(include_in_schema=False)


@router.post("/uploads/{fingerprint}")
async def read_again(
    request: Request, fingerprint: str, visitor: Visiting, then: str = "", again: str = ""
) -> Response:
    """Read a file that was uploaded in another way, and go on where it is used.

    With `again`, the page gets the whole form, so that nothing that was typed is lost.
    """
    form = await read_form(request, visitor)
    if not PAGES.fullmatch(then):
        raise ProblemError(422, "form-refused", "the form must name a page that reads a file.")
    uploads: Uploads = request.app.state.uploads
    file = uploads.find(visitor.key, fingerprint)
    how = reading_of(form, file.reading)
    kept = await placed(request, lambda: uploads.read_as(visitor.key, file, how))
    if again:
        query = urlencode({"again": again})
        return RedirectResponse(f"{then}/{kept.fingerprint}?{query}", status_code=307)
    kept_on = [(name, value) for name, value in form.fields if name in HANDED_ON and value]
    query = f"?{urlencode(kept_on)}" if kept_on else ""
    return RedirectResponse(f"{then}/{kept.fingerprint}{query}", status_code=303)


#: What the address of a page says besides the file.
HANDED_ON = ("how", "with", "split", *PLANNED)
