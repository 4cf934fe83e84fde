"""What is wrong with a unit, in few words: the same in a database's answers as on Arrow batches.

Neither the value nor advice is among them: databases spell numbers in ways of their own, and who
has a million answers counts them by their problem.
"""


def briefly(column: str, reason: str) -> str:
    """Return what is wrong with a unit; the column is empty where it is none's.

    >>> briefly("age", "must be finite and below 1e+30 in size; received inf")
    'age must be finite and below 1e+30 in size'
    """
    return f"{column} {reason.partition(';')[0]}".strip()
