"""Write the files of the corpus whose bytes no editor writes: encodings, Parquet, Arrow, Excel.

``python -m tests.corpus.make`` writes them again. All other files are kept as they were typed,
but for two that other programs wrote: `legacy.xls` by xlwt, `password.xlsx` by msoffcrypto-tool.
"""

import gzip
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import xlsxwriter

HERE = Path(__file__).parent

GERMAN = """\
Kundennummer;Ort;Umsatz Vorjahr;Kunde seit;Newsletter
000871;Köln;1.234,56;03.01.2019;ja
000872;München;98,00;17.11.2021;nein
000873;Köln;12.040,10;28.02.2020;ja
000874;Düsseldorf;0,00;31.12.2023;nein
000875;München;455,90;09.06.2018;nein
000876;Köln;1.000,00;01.04.2022;ja
000877;Düsseldorf;77,77;15.08.2021;ja
000878;München;3.210,05;30.09.2017;nein
"""
UTF16 = """\
Customer ID\tCountry\tSpend\tVisits
A-1\tÖsterreich\t12.5\t3
A-2\tSchweiz\t130\t14
A-3\tÖsterreich\t7.25\t1
A-4\tDeutschland\t88\t9
A-5\tSchweiz\t41.5\t2
A-6\tDeutschland\t19.99\t5
"""
DASHES = """\
id;Preisklasse;Betrag;Bemerkung
1;„günstig“;12,50 €;–
2;„teuer“;1.099,00 €;–
3;„günstig“;8,99 €;–
4;„teuer“;740,00 €;–
5;„günstig“;15,00 €;–
6;„günstig“;22,10 €;–
"""
PLAIN = """\
user,age,plan
u1,31,basic
u2,44,plus
u3,27,basic
u4,59,plus
u5,38,basic
u6,61,pro
"""


def _text(name: str, text: str, encoding: str, *, ends: str = "\r\n") -> None:
    (HERE / name).write_bytes(text.replace("\n", ends).encode(encoding))


def _parquet(name: str, columns: dict[str, Any]) -> None:
    pa.parquet.write_table(pa.table(columns), HERE / name)


def _arrow(name: str, columns: dict[str, Any]) -> None:
    table = pa.table(columns)
    with pa.ipc.new_file(str(HERE / name), table.schema) as writer:
        writer.write_table(table)


def texts() -> None:
    """Write delimited text in other encodings, line ends and wrappings."""
    _text("excel-german.csv", GERMAN, "latin-1")
    _text("excel-utf16.txt", UTF16, "utf-16")
    _text("windows-1252.csv", DASHES, "cp1252")
    _text("utf8-bom.csv", PLAIN, "utf-8-sig")
    _text("line-ends-crlf.csv", PLAIN, "utf-8")
    _text("line-ends-cr.csv", PLAIN, "utf-8", ends="\r")
    broken = UTF16.replace("\t", ",").encode()
    (HERE / "broken-utf8.csv").write_bytes(broken.replace(b"Deutschland", b"D\xe4nemark", 1))
    (HERE / "compressed.csv.gz").write_bytes(gzip.compress(PLAIN.encode(), mtime=0))
    (HERE / "workbook.csv").write_bytes(b"PK\x03\x04\x14\x00\x06\x00\x08\x00" + bytes(64))
    spaced = ["1\u202f234,50", "1\xa0099,00", "87,25", "12\u202f500,00", "640,00", "3\xa0310,75"]
    rows = [f"{700 + n};{amount};{3 * n + 1}" for n, amount in enumerate(spaced)]
    _text("thousands-nbsp.csv", "\n".join(["client;encours;contrats", *rows, ""]), "utf-8")


def frames() -> None:
    """Write Parquet and Arrow files with the types that data frames and databases have."""
    numbers = [1, 2, 3, 4, 5, 6]
    _parquet("pandas-na.parquet", {
        "customer_id": [f"C{n:04d}" for n in numbers],
        "visits": pa.array([3, None, 8, 1, None, 5], pa.int64()),
        "basket": pa.array([12.5, 80.0, None, float("nan"), 33.25, 41.0], pa.float64()),
        "member": pa.array([True, None, False, True, False, None], pa.bool_()),
        "city": pa.array(["Rome", None, "Oslo", "Oslo", None, "Rome"], pa.string()),
    })  # fmt: skip
    _arrow("polars.arrow", {
        "user_id": pa.array([f"u{n}" for n in numbers], pa.large_string()),
        "channel": pa.array(["web", "app", "web", "web", "app", "app"], pa.string_view()),
        "tier": pa.array(["a", "b", "a", "b", "b", "a"]).dictionary_encode(),
        "logins": pa.array([1, 12, 7, 3, 0, 9], pa.int8()),
        "last_seen": pa.array([date(2025, 1, n) for n in (3, 9, 1, 30, 14, 22)], pa.date32()),
    })  # fmt: skip
    zone = [datetime(2025, 2, n, 22, 30, tzinfo=UTC) for n in (1, 5, 9, 14, 20, 28)]
    _parquet("duckdb.parquet", {
        "account": pa.array([10_000_000_000 + n for n in numbers], pa.int64()),
        "balance": pa.array([Decimal("10.50"), Decimal("-3.25"), Decimal("0.00"),
                             Decimal("1200.75"), Decimal("88.10"), Decimal("5.00")],
                            pa.decimal128(18, 2)),
        "created_at": pa.array(zone, pa.timestamp("us", tz="UTC")),
        "flag": pa.array([1, 0, 1, 1, 0, 0], pa.uint8()),
    })  # fmt: skip
    _arrow("half-floats.arrow", {
        "id": pa.array(numbers, pa.uint32()),
        "score": pa.array(np.array([0.5, 1.25, -2.0, 8.0, 0.75, 3.5], dtype=np.float16)),
        "weight": pa.array([0.5, 1.5, 2.5, 3.5, 4.5, 0.25], pa.float32()),
    })  # fmt: skip
    _parquet("lists-and-nulls.parquet", {
        "id": [f"r{n}" for n in numbers],
        "tags": [["a"], ["b", "c"], [], ["a"], None, ["c"]],
        "nothing": pa.nulls(len(numbers)),
        "amount": [4.0, 8.5, 1.0, 9.25, 3.0, 7.75],
    })  # fmt: skip
    _parquet("outcomes-typed.parquet", {
        "user_id": pa.array([f"u{n}" for n in (1, 3, 6)], pa.large_string()),
        "outcome": pa.array([Decimal("1.50"), Decimal("0.25"), Decimal("3.00")],
                            pa.decimal128(9, 2)),
    })  # fmt: skip


#: Number formats of cells, by the columns of the sheet that have them.
FORMATS = {
    "Kundennummer": "000000", "Umsatz Vorjahr": '#,##0.00 "€"', "Kunde seit": "dd.mm.yyyy",
    "Rabatt": "0.0%", "changed": "yyyy-mm-dd hh:mm", "part no": "d-mmm",
}  # fmt: skip


def _workbook(
    name: str,
    rows: Sequence[Sequence[Any]],
    *,
    above: Sequence[str] = (),
    also: Callable[[Any, Any], None] = lambda _book, _sheet: None,
) -> None:
    """Write rows below titles to a sheet called Kunden, which comes after an empty one."""
    book = xlsxwriter.Workbook(HERE / name, {"strings_to_formulas": False})
    book.set_properties({"created": datetime(2000, 1, 1)})
    book.add_worksheet("Info")
    sheet = book.add_worksheet("Kunden")
    for row, title in enumerate(above):
        sheet.write(row, 0, title)
    forms = {
        column: book.add_format({"num_format": FORMATS[head]})
        for column, head in enumerate(rows[0])
        if head in FORMATS
    }
    for row, cells in enumerate(rows, start=len(above)):
        for column, cell in enumerate(cells):
            sheet.write(row, column, cell, forms.get(column) if row > len(above) else None)
    also(book, sheet)
    book.close()


def workbooks() -> None:
    """Write workbooks as people have them, and files that are called like workbooks."""
    kunden = [
        ["Kundennummer", "Ort", "Umsatz Vorjahr", "Kunde seit", "Rabatt", "Newsletter"],
        [871, "Köln", 1234.56, datetime(2019, 1, 3), 0.125, True],
        [872, "München", 98, datetime(2021, 11, 17), 0, False],
        [873, "Köln", 12040.1, datetime(2020, 2, 28), 0.05, True],
        [874, "Düsseldorf", 0, datetime(2023, 12, 31), 0, False],
        [875, "München", 455.9, datetime(2018, 6, 9), 0.05, False],
        [876, "Köln", 1000, datetime(2022, 4, 1), 0.125, True],
    ]
    _workbook("workbook.xlsx", kunden)
    title = ["Kundenliste", "Stand: 01.03.2024", ""]
    _workbook("workbook-title.xlsx", kunden, above=title)
    _workbook("workbook-title-skipped.xlsx", kunden, above=title)
    _workbook("workbook-totals.xlsx", [*kunden, ["Summe", "", 14828.56]])
    grouped = [["Kunde", "", "Umsatz", "", "", ""], *kunden]
    _workbook("workbook-two-headers.xlsx", grouped)
    spelled = [[*row[:2], text, *row[3:]] for row, text in zip(
        kunden,
        ["Umsatz Vorjahr", "1.234,56", 98.567, "12.040,10", 0.0, "n/a", 1000.0],
        strict=True,
    )]  # fmt: skip
    _workbook("workbook-text-numbers.xlsx", spelled)
    long = [["account", "visits"], *([1234567890123456 + 1000 * n, n] for n in range(6))]
    _workbook("workbook-long-ids.xlsx", long)
    dated = [["part no", "visits"], ["A-1", 3], [datetime(2024, 12, 3), 4], ["B-9", 9]]
    _workbook("workbook-dated-ids.xlsx", dated)
    _workbook("workbook-errors.xlsx", kunden, also=lambda _, sheet: sheet.write_formula(
        "C4", "=1/0", None, "#DIV/0!"
    ))  # fmt: skip
    _workbook("workbook-formulas.xlsx", kunden, also=lambda _, sheet: sheet.write_formula(
        "C4", "=C2+C3", None, ""
    ))  # fmt: skip
    _workbook("workbook-repeats.xlsx", [
        ["customer id", "visits", "plan", "changed"],
        ["c1", 3, "basic", datetime(2024, 1, 5, 9, 30)],
        ["c2", 8, "plus", datetime(2024, 1, 2, 12, 0)],
        ["c1", 4, "plus", datetime(2024, 1, 5, 9, 45)],
        ["c3", 1, "basic", datetime(2024, 2, 1, 8, 0)],
        ["c2", 7, "basic", datetime(2023, 12, 24, 18, 0)],
    ])  # fmt: skip
    (HERE / "web-page.xls").write_text(
        "<html><table><tr><td>id</td></tr><tr><td>1</td></tr></table></html>\n", encoding="utf-8"
    )
    _text("text.xls", UTF16, "utf-8")


if __name__ == "__main__":
    texts()
    frames()
    workbooks()
