"""What the name of a column says about it: an id, a code, an outcome, a treatment."""

import re

#: Words of names that columns of ids have.
ID_WORDS = frozenset((
    "id", "ids", "uuid", "guid", "key", "nr", "no", "nummer", "number",
))  # fmt: skip
#: Parts of such names.
WHOSE = re.compile(r"mail|account|client|customer|kund|konto|member|patient|subject|unit|user")
#: Words of names whose numbers count nothing: codes, which are categories.
CODE_WORDS = frozenset((
    "code", "zip", "plz", "postal", "postcode", "postleitzahl", "phone", "tel", "telefon", "type",
    "typ", "class", "klasse", "category", "kategorie", "store", "branch", "filiale", "region",
))  # fmt: skip
#: Words of what is known only after a unit was assigned, ...
OUTCOME_WORDS = frozenset((
    "revenue", "umsatz", "converted", "conversion", "visit", "visited", "purchased", "bought",
    "outcome", "reward", "response", "responded", "clicked", "opened", "unsubscribed", "churn",
    "churned", "profit", "sales", "label", "target", "redeemed", "returned", "after", "post",
))  # fmt: skip
#: ... of what was done to it, ...
TREATMENT_WORDS = frozenset((
    "treatment", "treated", "arm", "variant", "segment", "offer", "campaign", "assigned", "action",
    "exposed", "exposure", "condition", "intervention",
))  # fmt: skip
#: ... and words that say of either that it was known before.
EARLIER_WORDS = frozenset((
    "past", "prior", "previous", "last", "before", "history", "historic", "historical", "first",
    "lifetime", "total", "avg", "average", "pre", "previously", "ytd", "12m", "6m", "3m", "30d",
    "90d", "365d", "letzte", "bisher", "vorjahr", "recent",
))  # fmt: skip


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case.

    >>> words("customerID"), words("Spend_after 30d")
    (['customer', 'id'], ['spend', 'after', '30d'])
    """
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return re.findall(r"[^\W_]+", parted)


def unlikely_id(name: str) -> int:
    """Return how unlikely a name is for ids: 0 where it says so, 1 where it says whose, else 2."""
    if ID_WORDS & set(words(name)):
        return 0
    return 1 if WHOSE.search(name.lower()) else 2


def is_code(name: str) -> bool:
    """Say whether numbers under this name are codes rather than amounts."""
    return bool(CODE_WORDS & set(words(name)))


def question(name: str) -> str:
    """Return what must be asked before a column of this name is a feature, "" for nothing.

    >>> question("revenue"), question("revenue_last_year")
    ('may be an outcome: is it known before the unit is assigned?', '')
    """
    said = set(words(name))
    if said & EARLIER_WORDS:
        return ""
    if said & OUTCOME_WORDS or name.lower() == "y":
        return "may be an outcome: is it known before the unit is assigned?"
    if said & TREATMENT_WORDS or name.lower() in ("group", "test_group", "ab_group"):
        return "may be what was done to the unit: is it known before the unit is assigned?"
    return ""
