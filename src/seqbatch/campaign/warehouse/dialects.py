"""SQL dialects: where databases differ in how they spell things.

Everything else in a statement is common to all of them: CASE, LEAST, GREATEST, FLOOR, JOIN.
"""

from typing import ClassVar

from seqbatch.errors import InvalidArgumentError


class SqlDialect:
    """Standard SQL, as DuckDB and Trino take it."""

    name: ClassVar[str]
    double: ClassVar[str] = "DOUBLE"
    string: ClassVar[str] = "VARCHAR"
    whole: ClassVar[str] = "BIGINT"
    #: The type that sums of whole numbers are cast to first; "" where they cannot overflow anyway.
    wide: ClassVar[str] = ""
    #: What ends every stage.
    fence: ClassVar[str] = ""
    #: The most columns of a result.
    columns: ClassVar[int] = 10_000
    _quote: ClassVar[str] = '"'
    _escapes: ClassVar[bool] = False

    def name_of(self, name: str) -> str:
        """Return a name, quoted."""
        return self._quote + name.replace(self._quote, self._quote * 2) + self._quote

    def table(self, name: str) -> str:
        """Return the name of a table, which may have a schema before it."""
        parts = name.split(".")
        if not all(parts):
            raise InvalidArgumentError("table", "a name, as table or schema.table", repr(name))
        return ".".join(self.name_of(part) for part in parts)

    def text(self, value: str) -> str:
        """Return a text, quoted."""
        if not self._escapes:
            return "'" + value.replace("'", "''") + "'"
        for character, spelled in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(character, spelled)
        return f"'{value}'"

    def number(self, value: float) -> str:
        """Return a number of which the database makes the same 64 bits."""
        spelled = repr(float(value))
        return self._signed(spelled if "e" in spelled else f"{spelled}e0")

    def _signed(self, spelled: str) -> str:
        return f"({spelled})" if spelled.startswith("-") else spelled

    def as_text(self, value: str) -> str:
        """Return a value as text."""
        return f"CAST({value} AS {self.string})"

    def as_number(self, value: str) -> str:
        """Return a value as a floating point number, NULL where it is none (NaN)."""
        return f"NULLIF(CAST({value} AS {self.double}), CAST('NaN' AS {self.double}))"

    def as_date(self, value: str) -> str:
        """Return a value as a date."""
        return f"CAST({value} AS DATE)"

    def day_number(self, date: str) -> str:
        """Return the days from 1970-01-01 to a date."""
        return f"date_diff('day', DATE '1970-01-01', {date})"

    def month(self, date: str) -> str:
        """Return the month of a date, from 1."""
        return f"CAST(EXTRACT(MONTH FROM {date}) AS {self.whole})"

    def floor(self, value: str) -> str:
        """Return the whole number below."""
        return f"CAST(FLOOR({value}) AS {self.whole})"

    def md5(self, value: str) -> str:
        """Return the 32 hexadecimal digits of a text's md5."""
        return f"md5({value})"

    def from_digits(self, digits: str) -> str:
        """Return the whole number that hexadecimal digits spell."""
        return f"CAST('0x' || {digits} AS {self.whole})"

    def digits(self, value: str, start: int, stop: int) -> str:
        """Return some of a text's hexadecimal digits as a whole number."""
        return self.from_digits(f"substr({value}, {start + 1}, {stop - start})")

    def total(self, value: str) -> str:
        """Return the sum of whole numbers, as text: no file format changes that."""
        return f"CAST({self.sum(value)} AS {self.string})"

    def sum(self, value: str) -> str:
        """Return the sum of whole numbers, which has room for large ones."""
        return f"SUM(CAST({value} AS {self.wide}))" if self.wide else f"SUM({value})"


class DuckDB(SqlDialect):
    """DuckDB: sums of whole numbers have 128 bits."""

    name = "duckdb"


class PostgreSQL(SqlDialect):
    """PostgreSQL: OFFSET 0 keeps it from computing a stage's columns again where they are used."""

    name = "postgres"
    double = "double precision"
    string = "text"
    fence = "OFFSET 0"
    columns = 1_600

    def number(self, value: float) -> str:
        """Return a number of which the database makes the same 64 bits."""
        return f"'{float(value)!r}'::float8"

    def day_number(self, date: str) -> str:
        """Return the days from 1970-01-01 to a date, NULL where it is infinite."""
        return f"(CASE WHEN isfinite({date}) THEN {date} - DATE '1970-01-01' END)"

    def from_digits(self, digits: str) -> str:
        """Return the whole number that hexadecimal digits spell."""
        return f"('x' || lpad({digits}, 16, '0'))::bit(64)::bigint"


class Spark(SqlDialect):
    """Spark SQL."""

    name = "spark"
    string = "STRING"
    wide = "DECIMAL(38, 0)"
    _quote = "`"
    _escapes = True

    def number(self, value: float) -> str:
        """Return a number of which the database makes the same 64 bits."""
        return self._signed(f"{float(value)!r}D")

    def day_number(self, date: str) -> str:
        """Return the days from 1970-01-01 to a date."""
        return f"datediff({date}, DATE '1970-01-01')"

    def from_digits(self, digits: str) -> str:
        """Return the whole number that hexadecimal digits spell."""
        return f"CAST(conv({digits}, 16, 10) AS BIGINT)"


class BigQuery(SqlDialect):
    """BigQuery."""

    name = "bigquery"
    double = "FLOAT64"
    string = "STRING"
    whole = "INT64"
    wide = "BIGNUMERIC"
    _quote = "`"
    _escapes = True

    def name_of(self, name: str) -> str:
        """Return a name, quoted."""
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def as_number(self, value: str) -> str:
        """Return a value as a floating point number, NULL where it is none (NaN)."""
        cast = f"CAST({value} AS FLOAT64)"
        return f"CASE WHEN IS_NAN({cast}) THEN NULL ELSE {cast} END"

    def day_number(self, date: str) -> str:
        """Return the days from 1970-01-01 to a date."""
        return f"DATE_DIFF({date}, DATE '1970-01-01', DAY)"

    def md5(self, value: str) -> str:
        """Return the 32 hexadecimal digits of a text's md5."""
        return f"TO_HEX(MD5({value}))"


class Snowflake(SqlDialect):
    """Snowflake: a number with a fraction is a decimal there, and so is made from text."""

    name = "snowflake"
    _escapes = True

    def number(self, value: float) -> str:
        """Return a number of which the database makes the same 64 bits."""
        return f"'{float(value)!r}'::DOUBLE"

    def day_number(self, date: str) -> str:
        """Return the days from 1970-01-01 to a date."""
        return f"DATEDIFF('day', DATE '1970-01-01', {date})"

    def from_digits(self, digits: str) -> str:
        """Return the whole number that hexadecimal digits spell."""
        return f"TO_NUMBER({digits}, 'XXXXXXXXXXXXX')"


class Trino(SqlDialect):
    """Trino."""

    name = "trino"
    wide = "DECIMAL(38, 0)"

    def as_number(self, value: str) -> str:
        """Return a value as a floating point number, NULL where it is none (NaN)."""
        cast = f"CAST({value} AS DOUBLE)"
        return f"CASE WHEN is_nan({cast}) THEN NULL ELSE {cast} END"

    def md5(self, value: str) -> str:
        """Return the 32 hexadecimal digits of a text's md5."""
        return f"lower(to_hex(md5(to_utf8({value}))))"

    def from_digits(self, digits: str) -> str:
        """Return the whole number that hexadecimal digits spell."""
        return f"from_base({digits}, 16)"


DIALECTS: dict[str, type[SqlDialect]] = {
    each.name: each for each in (DuckDB, PostgreSQL, Spark, BigQuery, Snowflake, Trino)
}


def dialect_of(name: str) -> SqlDialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise InvalidArgumentError("dialect", f"one of {', '.join(DIALECTS)}", repr(name))
    return DIALECTS[name]()
