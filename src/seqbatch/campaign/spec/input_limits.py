"""The largest sizes that a campaign accepts: files, cells, ids, actions.

The limits keep a small file from using up a machine's memory or hours of its time, and a single
row from making an estimate impossible. They should not affect any real campaign;
docs/reference/limits.md lists them.
"""

#: Bytes of a unit's or an outcome's id: PostgreSQL cannot index text above 2,704 bytes, and both
#: stores must accept the same ids.
LONGEST_ID = 1_000
#: Bytes of any other cell that is read: a level of a category, or a number as text.
LONGEST_CELL = 10_000
#: Rows of one file: finding repeated ids takes 32 bytes of memory for each.
MOST_ROWS = 10_000_000
#: Columns of one file, most of which are never read.
MOST_COLUMNS = 20_000
#: Bytes of standard input, which is copied to a temporary file: 400 for each of `MOST_ROWS`.
MOST_PIPED = 1 << 32
#: The most problems kept for one file: more of them usually have one cause.
MOST_PROBLEMS = 100_000
#: Bytes that a file may unpack to at once (a row group of Parquet, a record batch of Arrow), ...
UNPACKED = 1 << 29
#: ... or this many times its size if that is more: real columns compress by less than this.
EXPANSION = 100
#: Bytes that all cells of a file may have in total, read piece by piece, ...
DECODED = 1 << 31
#: ... or this many times its size if that is more: gzip compresses at most 1,032 to 1.
MOST_DECODED = 1_100
#: Bytes of the cells in one piece: a dictionary can repeat a long text a million times.
PIECE = 1 << 25
#: Bytes of memory for drafting a first spec: those of the distinct cells, plus 4 for each cell.
INFERRED = 1 << 29

#: Size of a number in a file: below 1e30, the product of two features is below `LARGEST_ENCODED`.
LARGEST_NUMBER = 1e30
#: Size of a number in the model, after scaling and interactions: the squares of 4e9 such numbers,
#: times the largest outcome, sum to 4e159, which is still a finite number.
LARGEST_ENCODED = 1e60

#: Characters of a spec: room for tens of thousands of levels.
LONGEST_SPEC = 1_000_000
#: Nesting depth of tables in a spec: no setting is deeper than 4.
DEEPEST = 16
#: Waves of a campaign: every call reads the sizes of all of them.
MOST_WAVES = 10_000
#: Batches that a campaign's plan may consider: planning more of them takes minutes.
MOST_PLANNED = 30
#: Units of a campaign, expected or assigned: below 2^32, up to which exact sums and the sums of
#: marks fit into their integers.
MOST_UNITS = 4_000_000_000
#: Actions of a campaign: every answer has a column for each.
MOST_ACTIONS = 1_000
#: Columns that a unit's id may consist of, and further columns of its outcome.
MOST_UNIT_COLUMNS = 8
MOST_METRICS = 50
#: Columns within which units are balanced.
MOST_STRATA = 8
#: Strata of a wave whose units are balanced in order: the campaign's state has an entry for each.
MOST_STRATA_COUNTED = 10_000
#: Units of a permuted block, and sizes that blocks may have.
LARGEST_BLOCK = 10_000
MOST_BLOCK_SIZES = 20
#: Levels of one category, each a column of the model.
MOST_LEVELS = 10_000
#: The most sums of products that are stored: half a gigabyte in each state.
MOST_SUMS = 60_000_000
