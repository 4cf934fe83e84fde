"""Guess a column's role from its name: id, code, outcome, treatment, personal detail.

Names are compared by whole words, in English and German: `optimum` is not an opt-in.
"""

import re
from typing import Literal

#: Words that occur in names of id columns.
ID_WORDS = frozenset((
    "id", "ids", "uuid", "guid", "key", "nr", "no", "nummer", "number",
))  # fmt: skip
#: German compounds for ids, such as Kundennummer; a phone number is no id.
NUMBERED = re.compile(r".+(?:nummer|nr)")
#: Parts of words that occur in names of id columns.
WHOSE = re.compile(r"mail|account|client|customer|kund|konto|member|patient|subject|unit|user")
#: Parts of words that occur in names of date columns.
DATE_PARTS = re.compile(
    r"date|datum|day|since|seit|birth|geb|created|updated|_at$|_on$", re.IGNORECASE
)
#: Words in names of columns whose numbers are codes (categories) rather than quantities.
CODE_WORDS = frozenset((
    "code", "zip", "zipcode", "plz", "pstlz", "postal", "postcode", "postleitzahl", "phone", "tel",
    "telefon", "type", "typ", "class", "klasse", "category", "kategorie", "store", "branch",
    "filiale", "region",
))  # fmt: skip
#: Words for outcomes, which are known only after a unit was assigned, ...
OUTCOME_WORDS = frozenset((
    "revenue", "umsatz", "converted", "conversion", "visit", "visited", "purchased", "bought",
    "outcome", "reward", "response", "responded", "clicked", "opened", "unsubscribed", "churn",
    "churned", "profit", "sales", "label", "target", "redeemed", "returned", "after", "post",
))  # fmt: skip
#: ... words for treatments, ...
TREATMENT_WORDS = frozenset((
    "treatment", "treated", "arm", "variant", "segment", "offer", "campaign", "assigned", "action",
    "exposed", "exposure", "condition", "intervention",
))  # fmt: skip
#: ... and words showing that either was known before the assignment.
EARLIER_WORDS = frozenset((
    "past", "prior", "previous", "last", "before", "history", "historic", "historical", "first",
    "lifetime", "total", "avg", "average", "pre", "previously", "ytd", "12m", "6m", "3m", "30d",
    "90d", "365d", "letzte", "letzter", "letztes", "letzten", "bisher", "vorjahr", "vormonat",
    "gesamt", "historisch", "erste", "ersten", "recent",
))  # fmt: skip


def words(name: str) -> list[str]:
    """Split a column name into words, in lower case.

    >>> words("customerID"), words("Spend_after 30d")
    (['customer', 'id'], ['spend', 'after', '30d'])
    """
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return re.findall(r"[^\W_]+", parted)


def unlikely_id(name: str) -> int:
    """Rank a name as an id column: 0 if it contains a word for ids, 1 if one for people, else 2."""
    said = words(name)
    numbered = any(NUMBERED.fullmatch(word) for word in said) and personal(name) is None
    if ID_WORDS & set(said) or numbered:
        return 0
    return 1 if tells_person(name) else 2


def tells_person(name: str) -> bool:
    """Return whether a name has a word for a person, such as "Customer" or "Kunden-Nr"."""
    return bool(WHOSE.search(name.lower()))


def is_date(name: str) -> bool:
    """Return whether eight digits in a column of this name are a date."""
    return bool(DATE_PARTS.search(name))


def is_code(name: str) -> bool:
    """Return whether numbers in a column of this name are codes rather than amounts."""
    return bool(CODE_WORDS & set(words(name)))


def question(name: str) -> str:
    """Return the question to settle before a column of this name becomes a feature, or "".

    >>> question("revenue"), question("revenue_last_year")
    ('may be an outcome: is it known before the unit is assigned?', '')
    """
    said = set(words(name))
    if said & EARLIER_WORDS:
        return ""
    if said & OUTCOME_WORDS or name.lower() == "y":
        return "may be an outcome: is it known before the unit is assigned?"
    if said & TREATMENT_WORDS or name.lower() in ("group", "test_group", "ab_group"):
        return "may be the action that the unit got: is it known before the unit is assigned?"
    return ""


# ----------------------------------------------------------------------
# Personal details: they identify a person, or were written for people to read.


#: The kinds of personal details.
Personal = Literal["name", "salutation", "address", "e-mail", "phone", "remark"]
#: The words for each kind; an e-mail address is an e-mail rather than an address. ...
PERSONAL_WORDS: dict[Personal, frozenset[str]] = {
    "e-mail": frozenset(("email", "emails", "mail", "emailadresse", "mailadresse")),
    "phone": frozenset((
        "phone", "telephone", "tel", "telefon", "telefonnummer", "mobile", "mobil", "mobilnummer",
        "handy", "handynummer", "mobiltelefon", "cell", "cellphone", "fax", "telefax", "faxnummer",
        "festnetz", "rufnummer", "telf1", "telf2", "telfx",
    )),
    "remark": frozenset((
        "remark", "remarks", "comment", "comments", "note", "notes", "bemerkung", "bemerkungen",
        "kommentar", "kommentare", "notiz", "notizen", "anmerkung", "anmerkungen", "freitext",
        "memo", "description", "beschreibung", "message", "nachricht", "hinweis", "hinweise",
        "feedback",
    )),
    "salutation": frozenset((
        "anrede", "anred", "briefanrede", "salutation", "honorific", "greeting", "titel", "title",
        "suffix",
    )),
    "name": frozenset((
        "name", "names", "vorname", "nachname", "zuname", "firstname", "lastname", "fullname",
        "surname", "forename", "familienname", "nickname", "username", "ansprechpartner", "name1",
        "name2", "company", "firma", "firmenname",
    )),
    "address": frozenset((
        "street", "street1", "street2", "stras", "strasse", "straße", "str", "hausnummer", "hausnr",
        "address", "address1", "address2", "adresse", "anschrift", "adresszusatz", "postfach",
    )),
}  # fmt: skip
#: ... and the words that may accompany them. `product_name` and `address_country` are not personal.
BESIDE_PERSONAL = frozenset((
    "first", "last", "middle", "full", "family", "maiden", "given", "display", "user", "person",
    "contact", "kontakt", "customer", "client", "kunde", "kunden", "member", "patient", "billing",
    "shipping", "mailing", "delivery", "default", "rechnungs", "liefer", "other", "home", "work",
    "office", "privat", "private", "primary", "secondary", "main", "business", "mobile", "e",
    "number", "nr", "nummer", "no", "line", "zeile", "internal", "intern", "interne", "order",
    "sales", "free", "text", "additional", "1", "2", "3", "and", "und", "of", "the", "lead",
    "account", "house", "haus", "owner",
))  # fmt: skip


def personal(name: str) -> Personal | None:
    """Return the personal detail that a column of this name holds; None if none.

    Every word of the name must be one for such a detail, or one that may accompany it.

    >>> personal("Vorname"), personal("E-Mail Address"), personal("Mobile Phone Number")
    ('name', 'e-mail', 'phone')
    >>> personal("product_name"), personal("email_domain"), personal("Default Address City")
    (None, None, None)
    """
    said = words(name)
    if not BESIDE_PERSONAL.union(*PERSONAL_WORDS.values()).issuperset(said):
        return None
    return next((kind for kind, own in PERSONAL_WORDS.items() if own & set(said)), None)
