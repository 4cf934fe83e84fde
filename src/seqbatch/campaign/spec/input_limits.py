"""The largest sizes that a campaign accepts: files, cells, ids, actions.

The limits keep a small file from taking a machine's memory or hours of its time, and a single row
from making an estimate impossible. They are meant to be out of the way of every real campaign;
docs/campaigns.md lists them.
"""

#: Bytes of an id, of a unit or of an outcome: PostgreSQL indexes no text above 2,704 bytes, and
#: both stores must take the same ids.
LONGEST_ID = 1_000
#: Bytes of any other cell that is read: a level of a category, or a number as text.
LONGEST_CELL = 10_000
#: Rows of one file: finding repeated ids takes 32 bytes of memory for each.
MOST_ROWS = 10_000_000
#: Columns of one file, most of which are never read.
MOST_COLUMNS = 20_000
#: No more problems than this are kept of one file: who has so many has one.
MOST_PROBLEMS = 100_000
#: Bytes that a file may unpack to at once (a row group of Parquet, a record batch of Arrow), ...
UNPACKED = 1 << 29
#: ... or this many times its size where that is more: real columns shrink by less than this.
EXPANSION = 100
#: Bytes that all cells of a file may have, read piece by piece, however small the file is, ...
DECODED = 1 << 31
#: ... or this many times its size: gzip at its best packs 1,032 bytes into one.
MOST_DECODED = 1_100
#: Bytes of the cells in one piece: a dictionary can spell a long text a million times.
PIECE = 1 << 25
#: Bytes from which a first spec is inferred, in memory: of the distinct cells, and 4 for each.
INFERRED = 1 << 29

#: Size of a number in a file: below 1e30, the product of two features is below `LARGEST_ENCODED`.
LARGEST_NUMBER = 1e30
#: Size of a number of the model, after scaling and interactions: the squares of 1e9 such numbers,
#: times the largest outcome, sum to 1e159, and the square of that is still a number.
LARGEST_ENCODED = 1e60

#: Characters of a spec: room for tens of thousands of levels.
LONGEST_SPEC = 1_000_000
#: Tables within tables in a spec: no setting is deeper than 4.
DEEPEST = 16
#: Waves of a campaign: every call reads the sizes of all of them.
MOST_WAVES = 10_000
#: Batches that a campaign's plan may weigh: planning more of them takes minutes.
MOST_PLANNED = 30
#: Units of a campaign, expected or assigned: what sums of squares are bounded for.
MOST_UNITS = 1_000_000_000
#: Actions of a campaign: every answer has a column for each.
MOST_ACTIONS = 1_000
#: Columns that a unit's id is made of, and further columns of its outcome.
MOST_UNIT_COLUMNS = 8
MOST_METRICS = 50
#: Columns that units are balanced within.
MOST_STRATA = 8
#: Levels of one category, each a column of the model.
MOST_LEVELS = 10_000
#: Sums of products that are kept at most: half a gigabyte in each state.
MOST_SUMS = 60_000_000
