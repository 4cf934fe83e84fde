"""Write the files of the corpus whose bytes no editor writes: other encodings, Parquet and Arrow.

``python -m tests.corpus.make`` writes them again. All other files are kept as they were typed.
"""

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

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


if __name__ == "__main__":
    texts()
    frames()
