"""Text of CSV files that a spreadsheet would run as a formula: marked, and read back unmarked.

A spreadsheet runs a cell that begins with =, +, -, @, a tab or a line break, unless it is a number.
Such text is written with an apostrophe before it, and so is text that begins like this after
apostrophes of its own. Reading takes exactly one away, and so every text comes back as it was.
"""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: The wide forms are taken for the plain ones in some languages.
FORMULA = r"^'*[=+\-@\t\r\n＝＋－＠]"
MARKED = r"^'+[=+\-@\t\r\n＝＋－＠]"
NUMBER = r"^'*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def marked(table: pa.Table) -> pa.Table:
    """Return a table whose text and column names a spreadsheet shows and does not run.

    >>> marked(pa.table({"=a": ["=1+1", "-5", "'@x", "plain"]})).to_pydict()
    {"'=a": ["'=1+1", '-5', "''@x", 'plain']}
    """
    columns = [_marked(column) for column in table.columns]
    return pa.table(columns, names=[_marked_name(name) for name in table.column_names])


def unmarked(column: Any) -> Any:
    """Return a column of text as it was before it was marked.

    >>> unmarked(pa.array(["'=1+1", "-5", "''@x", "'tis"])).to_pylist()
    ['=1+1', '-5', "'@x", "'tis"]
    """
    # Hardly any file has an apostrophe there, and looking for one is fast.
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    chosen = _matches(column, MARKED)
    return pc.if_else(chosen, pc.utf8_slice_codeunits(column, 1), column)


def unmarked_name(name: str) -> str:
    """Return a column's name as it was before it was marked."""
    return name[1:] if re.search(MARKED, name) and not _numeric(name) else name


def _marked(column: Any) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    chosen = _matches(column, FORMULA)
    if not pc.any(chosen).as_py():
        return column
    apostrophe = pa.scalar("'", column.type)
    nothing = pa.scalar("", column.type)
    return pc.if_else(chosen, pc.binary_join_element_wise(apostrophe, column, nothing), column)


def _matches(column: Any, pattern: str) -> Any:
    found = pc.match_substring_regex(column, pattern)
    # Mostly there is none, and numbers need not be told apart.
    if not pc.any(found).as_py():
        return found
    return pc.and_not(found, pc.match_substring_regex(column, NUMBER))


def _marked_name(name: str) -> str:
    return f"'{name}" if re.search(FORMULA, name) and not _numeric(name) else name


def _numeric(name: str) -> bool:
    # Python's $ would also stand before a last line break.
    return re.search(NUMBER.replace("$", r"\Z"), name) is not None
