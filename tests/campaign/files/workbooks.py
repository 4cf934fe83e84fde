"""Workbooks for tests, written cell by cell."""

import datetime
import zipfile

import xlsxwriter

#: The number formats of dates, by type.
DATES = {datetime.date: "dd.mm.yyyy", datetime.datetime: "dd.mm.yyyy hh:mm:ss"}


def write_workbook(path, rows, *, sheet="Data", hidden=(), before=(), left=0, **options):
    """Write rows to a sheet; None is an empty cell, and a pair is a cell with its number format.

    Parameters
    ----------
    path
        The file.
    rows
        The rows, with the header.
    sheet, hidden, before
        The name of the sheet, and names of hidden and of empty sheets before it.
    left
        The number of empty columns to the left.
    options
        Options of the workbook.
    """
    book = xlsxwriter.Workbook(path, options)
    for name in (*hidden, *before):
        made = book.add_worksheet(name)
        if name in hidden:
            made.write(0, 0, "hidden")
            made.hide()
    made = book.add_worksheet(sheet)
    made.activate()
    made.set_first_sheet()
    forms = {}
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells, start=left):
            cell, form = cell if isinstance(cell, tuple) else (cell, DATES.get(type(cell)))
            style = forms.setdefault(form, book.add_format({"num_format": form})) if form else None
            if isinstance(cell, Formula):
                made.write_formula(row, column, cell.text, style, cell.result)
            elif isinstance(cell, str):
                made.write_string(row, column, cell, style)
            elif cell is not None:
                made.write(row, column, cell, style)
    book.close()
    return path


class Formula:
    """A formula, with its result; "" for one that was never computed."""

    def __init__(self, text, result=""):
        self.text, self.result = text, result


def with_part(path, part, content):
    """Replace a part of a workbook, such as xl/worksheets/sheet1.xml."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, own in (parts | {part: content}).items():
            archive.writestr(name, own)
    return path
