"""SQL dialects: how DuckDB, PostgreSQL, Spark, BigQuery, Snowflake and Trino differ.

All other syntax in a statement is common to all of them: CASE, LEAST, GREATEST, FLOOR, JOIN.
"""

from typing import ClassVar

from seqbatch.errors import InvalidArgumentError


class SqlDialect:
    """Standard SQL, as accepted by DuckDB and Trino."""

    name: ClassVar[str]
    double: ClassVar[str] = "DOUBLE"
    string: ClassVar[str] = "VARCHAR"
    whole: ClassVar[str] = "BIGINT"
    #: The type to which integers are cast before they are summed; "" if sums cannot overflow.
    wide: ClassVar[str] = ""
    #: The clause that ends every stage.
    fence: ClassVar[str] = ""
    #: What makes a stage be computed once, if the fence does not.
    once: ClassVar[str] = ""
    #: Whether the tests run statements in the database.
    tested: ClassVar[bool] = False
    #: The lock under which a wave is inserted; "" where the statement suffices.
    lock: ClassVar[str] = ""
    #: Whether a column can be added only where there is none.
    widens: ClassVar[bool] = True
    #: The largest number of columns in a result.
    columns: ClassVar[int] = 10_000
    _quote: ClassVar[str] = '"'
    _escapes: ClassVar[bool] = False

    def name_of(self, name: str) -> str:
        """Return a quoted identifier."""
        return self._quote + name.replace(self._quote, self._quote * 2) + self._quote

    def table(self, name: str) -> str:
        """Return a quoted table name, which may include a schema."""
        parts = name.split(".")
        if not all(parts):
            raise InvalidArgumentError("table", "a name, as table or schema.table", repr(name))
        return ".".join(self.name_of(part) for part in parts)

    def text(self, value: str) -> str:
        """Return a quoted string literal."""
        if not self._escapes:
            return "'" + value.replace("'", "''") + "'"
        for character, spelled in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(character, spelled)
        return f"'{value}'"

    def number(self, value: float) -> str:
        """Return a number literal that the database reads as exactly the same 64 bits."""
        spelled = repr(float(value))
        return self._signed(spelled if "e" in spelled else f"{spelled}e0")

    def _signed(self, spelled: str) -> str:
        return f"({spelled})" if spelled.startswith("-") else spelled

    def as_text(self, value: str) -> str:
        """Return a value cast to text."""
        return f"CAST({value} AS {self.string})"

    def as_number(self, value: str) -> str:
        """Return a value cast to a floating-point number, with NaN replaced by NULL."""
        return f"NULLIF(CAST({value} AS {self.double}), CAST('NaN' AS {self.double}))"

    def as_date(self, value: str) -> str:
        """Return a value cast to a date."""
        return f"CAST({value} AS DATE)"

    def day_number(self, date: str) -> str:
        """Return the number of days from 1970-01-01 to a date."""
        return f"date_diff('day', DATE '1970-01-01', {date})"

    def month(self, date: str) -> str:
        """Return the month of a date, from 1 to 12."""
        return f"CAST(EXTRACT(MONTH FROM {date}) AS {self.whole})"

    def floor(self, value: str) -> str:
        """Return a value rounded down to an integer."""
        return f"CAST(FLOOR({value}) AS {self.whole})"

    def md5(self, value: str) -> str:
        """Return the md5 of a text as 32 hexadecimal digits."""
        return f"md5({value})"

    def from_digits(self, digits: str) -> str:
        """Return the integer that hexadecimal digits represent."""
        return f"CAST('0x' || {digits} AS {self.whole})"

    def digits(self, value: str, start: int, stop: int) -> str:
        """Return some of a text's hexadecimal digits as an integer."""
        return self.from_digits(f"substr({value}, {start + 1}, {stop - start})")

    def fail(self, message: str) -> str:
        """Return an integer expression that ends the statement with a message."""
        # No cast is a message in itself, but every database names the text that it cannot cast.
        return f"CAST({message} AS {self.whole})"

    def total(self, value: str) -> str:
        """Return a sum of integers as text, which no file format rounds."""
        return f"CAST({self.sum(value)} AS {self.string})"

    def sum(self, value: str) -> str:
        """Return a sum of integers in a type with room for large values."""
        return f"SUM(CAST({value} AS {self.wide}))" if self.wide else f"SUM({value})"


class DuckDB(SqlDialect):
    """DuckDB, whose sums of integers have 128 bits."""

    name = "duckdb"
    tested = True
    once = "MATERIALIZED "

    def fail(self, message: str) -> str:
        """Return an integer expression that ends the statement with a message."""
        return f"CAST(error({message}) AS {self.whole})"


class PostgreSQL(SqlDialect):
    """PostgreSQL, where OFFSET 0 prevents a stage's columns from being computed again."""

    name = "postgres"
    tested = True
    double = "double precision"
    string = "text"
    fence = "OFFSET 0"
    lock = "SHARE ROW EXCLUSIVE"
    columns = 1_600

    def number(self, value: float) -> str:
        """Return a number literal that the database reads as exactly the same 64 bits."""
        return f"'{float(value)!r}'::float8"

    def day_number(self, date: str) -> str:
        """Return the number of days from 1970-01-01 to a date, or NULL for an infinite date."""
        return f"(CASE WHEN isfinite({date}) THEN {date} - DATE '1970-01-01' END)"

    def from_digits(self, digits: str) -> str:
        """Return the integer that hexadecimal digits represent."""
        return f"('x' || lpad({digits}, 16, '0'))::bit(64)::bigint"


class Spark(SqlDialect):
    """Spark SQL."""

    name = "spark"
    tested = True
    widens = False
    string = "STRING"
    wide = "DECIMAL(38, 0)"
    _quote = "`"
    _escapes = True

    def number(self, value: float) -> str:
        """Return a number literal that the database reads as exactly the same 64 bits."""
        return self._signed(f"{float(value)!r}D")

    def day_number(self, date: str) -> str:
        """Return the number of days from 1970-01-01 to a date."""
        return f"datediff({date}, DATE '1970-01-01')"

    def from_digits(self, digits: str) -> str:
        """Return the integer that hexadecimal digits represent."""
        return f"CAST(conv({digits}, 16, 10) AS BIGINT)"

    def fail(self, message: str) -> str:
        """Return an integer expression that ends the statement with a message."""
        return f"CAST(raise_error({message}) AS {self.whole})"


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
        """Return a quoted identifier."""
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def as_number(self, value: str) -> str:
        """Return a value cast to a floating-point number, with NaN replaced by NULL."""
        cast = f"CAST({value} AS FLOAT64)"
        return f"CASE WHEN IS_NAN({cast}) THEN NULL ELSE {cast} END"

    def day_number(self, date: str) -> str:
        """Return the number of days from 1970-01-01 to a date."""
        return f"DATE_DIFF({date}, DATE '1970-01-01', DAY)"

    def md5(self, value: str) -> str:
        """Return the md5 of a text as 32 hexadecimal digits."""
        return f"TO_HEX(MD5({value}))"

    def fail(self, message: str) -> str:
        """Return an integer expression that ends the statement with a message."""
        return f"CAST(ERROR({message}) AS {self.whole})"


class Snowflake(SqlDialect):
    """Snowflake, which reads literals with a fraction as decimals, so they are cast from text."""

    name = "snowflake"
    _escapes = True

    def number(self, value: float) -> str:
        """Return a number literal that the database reads as exactly the same 64 bits."""
        return f"'{float(value)!r}'::DOUBLE"

    def day_number(self, date: str) -> str:
        """Return the number of days from 1970-01-01 to a date."""
        return f"DATEDIFF('day', DATE '1970-01-01', {date})"

    def from_digits(self, digits: str) -> str:
        """Return the integer that hexadecimal digits represent."""
        return f"TO_NUMBER({digits}, 'XXXXXXXXXXXXX')"


class Trino(SqlDialect):
    """Trino."""

    name = "trino"
    wide = "DECIMAL(38, 0)"

    def as_number(self, value: str) -> str:
        """Return a value cast to a floating-point number, with NaN replaced by NULL."""
        cast = f"CAST({value} AS DOUBLE)"
        return f"CASE WHEN is_nan({cast}) THEN NULL ELSE {cast} END"

    def md5(self, value: str) -> str:
        """Return the md5 of a text as 32 hexadecimal digits."""
        return f"lower(to_hex(md5(to_utf8({value}))))"

    def from_digits(self, digits: str) -> str:
        """Return the integer that hexadecimal digits represent."""
        return f"from_base({digits}, 16)"

    def fail(self, message: str) -> str:
        """Return an integer expression that ends the statement with a message."""
        return f"CAST(fail({message}) AS {self.whole})"


DIALECTS: dict[str, type[SqlDialect]] = {
    each.name: each for each in (DuckDB, PostgreSQL, Spark, BigQuery, Snowflake, Trino)
}


def dialect_of(name: str) -> SqlDialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise InvalidArgumentError("dialect", f"one of {', '.join(DIALECTS)}", repr(name))
    return DIALECTS[name]()
