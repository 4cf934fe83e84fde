"""Consent and blocks: columns that say whether a unit may be contacted, as eligibility rules.

Which columns these are follows from the whole words of their names, in English and German:
`telefon_erlaubt` is a permission for one channel, `do_not_contact` a block for all of them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from seqbatch.campaign.files.column_name import words
from seqbatch.campaign.spec.eligibility import WORDS

# ----------------------------------------------------------------------
# What a column's name says about contact.


Channel = Literal["phone", "e-mail", "post", "sms"]
#: The words for each channel, in names of columns and of actions; mail may be either kind.
CHANNELS: dict[Channel, frozenset[str]] = {
    "phone": frozenset((
        "phone", "phoned", "telephone", "tel", "telefon", "telefonisch", "call", "calls", "called",
        "calling", "anruf", "anrufe", "anrufen", "angerufen", "callcenter", "telemarketing",
    )),
    "e-mail": frozenset((
        "email", "emails", "mail", "mails", "mailing", "mailings", "newsletter", "newsletters",
        "emailing",
    )),
    "post": frozenset((
        "post", "postal", "postalisch", "letter", "letters", "brief", "briefe", "mail", "mails",
        "mailing", "mailings", "katalog", "catalog", "catalogue", "print", "flyer", "postkarte",
        "postcard", "direct",
    )),
    "sms": frozenset(("sms", "texting", "whatsapp", "messenger", "push", "mms")),
}  # fmt: skip
#: Words for contact by any channel.
CONTACT = frozenset((
    "contact", "contacts", "contacted", "contacting", "contactable", "kontakt", "kontaktieren",
    "kontaktiert", "marketing", "werbung", "werbe", "advertising", "ads", "promotion", "promotions",
    "promo", "ansprache", "communication", "communications", "kommunikation", "mailable",
))  # fmt: skip
#: Words that say no by themselves, and words that do so only with a word for contact or alone.
BLOCKS = frozenset((
    "optout", "unsubscribed", "unsubscribe", "unsubscribes", "abgemeldet", "abbestellt", "robinson",
    "robinsonliste", "werbesp", "dnc", "donotcontact", "donotcall", "donotmail", "donotemail",
    "uncontactable",
))  # fmt: skip
WEAK_BLOCKS = frozenset((
    "block", "blocked", "blocklist", "blacklist", "blacklisted", "suppressed", "suppression",
    "sperre", "sperr", "gesperrt", "sperrvermerk", "sperrkennzeichen", "stop", "stopp",
    "widerspruch", "widersprochen", "widerrufen", "widerruf", "verbot", "verboten", "objection",
    "objected", "revoked", "refused", "declined", "denied", "forbidden",
))  # fmt: skip
#: The same for words that say yes.
PERMITS = frozenset((
    "optin", "consent", "consented", "consents", "einwilligung", "einwilligungen", "zustimmung",
    "einverständnis", "einverstaendnis", "einverständniserklärung", "contactable", "mailable",
))  # fmt: skip
WEAK_PERMITS = frozenset((
    "allowed", "allow", "allows", "erlaubt", "erlaubnis", "permission", "permissions", "permitted",
    "permit", "accepts", "accepted", "accept", "darf", "may", "ok", "okay", "zugestimmt",
    "eingewilligt", "genehmigt", "freigabe", "freigegeben", "subscribed", "subscription", "can",
    "einverstanden",
    "angemeldet", "abonniert", "doi", "erwünscht", "wanted", "agreed", "granted",
))  # fmt: skip
#: Words of both kinds that need no word for contact beside them.
ALONE = frozenset((
    "blocked", "blocklist", "blacklist", "blacklisted", "suppressed", "gesperrt", "sperrvermerk",
    "widerspruch", "permission", "permissions", "erlaubt", "erlaubnis",
))  # fmt: skip
#: Values that say yes in a column with a status, in lower case and without marks between words.
GRANTED = frozenset((
    "subscribed", "granted", "given", "accepted", "allowed", "consented", "optedin", "optin",
    "confirmed", "erteilt", "erlaubt", "zugestimmt", "angemeldet", "abonniert", "eingewilligt",
))  # fmt: skip
#: Words that turn a later word into its opposite: `no_mail`, but not `mail_no`.
NEGATIONS = frozenset((
    "no", "not", "non", "never", "none", "nothing", "without", "kein", "keine", "keinen", "nicht",
    "nichts", "ohne", "dont",
))  # fmt: skip
#: German compounds of contact and a word for yes or no, each a whole word; and of a channel and
#: contact, such as Telefonwerbung, which need a word for yes or no beside them.
_CHANNEL = r"(?:mailing|mail|email|newsletter|telefon|post|brief|sms|whatsapp)"
_CONTACTED = rf"(?:werbe|kontakt|anruf|{_CHANNEL})"
CONTACT_COMPOUND = re.compile(rf"{_CHANNEL}(?:werbung|kontakt|kontakte|marketing|ansprache)")
BLOCK_COMPOUND = re.compile(
    rf"{_CONTACTED}(?:sperren?|sperrvermerk|sperrkennzeichen|widerspruch|verbot|stopp?)"
)
PERMIT_COMPOUND = re.compile(
    rf"{_CONTACTED}(?:erlaubnis|einwilligung|einverständnis|einverstaendnis|zustimmung|"
    r"genehmigung|freigabe|erlaubt)"
)


@dataclass(frozen=True)
class Consent:
    """What a column says about contacting a unit.

    Parameters
    ----------
    permits
        Whether a yes permits contact; otherwise it blocks it.
    channels
        The channels that it is about; all of them if there are none.
    sure
        Whether the name leaves no doubt, whatever the column's values look like.
    """

    permits: bool
    channels: tuple[Channel, ...] = ()
    sure: bool = True

    @property
    def about(self) -> str:
        """What it is about, in words: contact at large, or some channels."""
        return " or ".join(self.channels) or "contact"

    def matches(self, action: str) -> bool:
        """Return whether an action of this name is a contact of this kind."""
        return not self.channels or bool(set(channels_of(action)) & set(self.channels))


def consent_of(name: str) -> Consent | None:
    """Return what a column of this name says about contact; None if nothing.

    >>> consent_of("do_not_contact"), consent_of("telefon_erlaubt")
    (Consent(permits=False, channels=(), sure=True), \
Consent(permits=True, channels=('phone',), sure=False))
    >>> consent_of("Werbesperre").permits, consent_of("newsletter optIn").channels
    (False, ('e-mail',))
    >>> consent_of("optimum"), consent_of("phone_no"), consent_of("Kreditsperre")
    (None, None, None)
    """
    said = _joined(words(name))
    channels, contact = _channels(said), bool(CONTACT & set(said))
    about = contact or bool(channels) or (len(said) == 1 and said[0] in ALONE)
    opposite = _negated(said)
    compounds = [word for word in said if BLOCK_COMPOUND.fullmatch(word)]
    permits = [word for word in said if PERMIT_COMPOUND.fullmatch(word)]
    if BLOCKS & set(said) or compounds:
        return Consent(permits=opposite, channels=channels)
    if PERMITS & set(said) or permits:
        return Consent(permits=not opposite, channels=channels)
    if WEAK_BLOCKS & set(said) and about:
        return Consent(permits=opposite, channels=channels, sure=False)
    if WEAK_PERMITS & set(said) and about:
        return Consent(permits=not opposite, channels=channels, sure=False)
    # `do_not_call`, `keine_werbung`: the negation alone forbids.
    if opposite and about and len(said) > 1:
        return Consent(permits=False, channels=channels, sure="do" in said)
    return None


def channels_of(name: str) -> tuple[Channel, ...]:
    """Return the channels that the name of an action speaks of.

    >>> channels_of("Anruf"), channels_of("E-Mail"), channels_of("mailing"), channels_of("no mail")
    (('phone',), ('e-mail',), ('e-mail', 'post'), ())
    """
    said = _joined(words(name))
    # No e-mail is no contact.
    return () if NEGATIONS & set(said) else _channels(said)


def _channels(said: Iterable[str]) -> tuple[Channel, ...]:
    found = []
    for channel, own in CHANNELS.items():
        compounds = tuple(own)
        if any(word in own or _compound(word, compounds) for word in said):
            found.append(channel)
    return tuple(found)


def _compound(word: str, starts: tuple[str, ...]) -> bool:
    """Return whether a compound about contact starts with one of these words."""
    compounds = (BLOCK_COMPOUND, PERMIT_COMPOUND, CONTACT_COMPOUND)
    return any(one.fullmatch(word) for one in compounds) and word.startswith(starts)


def _joined(said: Sequence[str]) -> list[str]:
    """Return words with those that belong together joined: e mail, opt out, opted in.

    >>> _joined(["has", "opted", "out", "of", "e", "mail"])
    ['has', 'optout', 'of', 'email']
    """
    text = " ".join(said)
    text = re.sub(r"\be mail", "email", text).replace("whats app", "whatsapp")
    return re.sub(r"\b(?:double )?opt(?:ed|ing)? (in|out)\b", r"opt\1", text).split()


def _negated(said: Sequence[str]) -> bool:
    """Return whether a negation stands before a word for contact or for yes or no."""
    first = next((place for place, word in enumerate(said) if word in NEGATIONS), None)
    if first is None:
        return False
    after = said[first + 1 :]
    told = CONTACT | BLOCKS | WEAK_BLOCKS | PERMITS | WEAK_PERMITS
    return bool(told & set(after)) or bool(_channels(after))


# ----------------------------------------------------------------------
# Eligibility rules from columns of consent.


def column_in_rule(name: str) -> str | None:
    """Return a column's name as a part of a longer rule; None if rules cannot name it.

    >>> column_in_rule("opt_out"), column_in_rule("opt out"), column_in_rule("a`b")
    ('opt_out', '`opt out`', None)
    """
    if re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in WORDS:
        return name
    return None if "`" in name or name != name.strip() or not name.isprintable() else f"`{name}`"


def is_granted(value: str) -> bool:
    """Return whether a status says that a unit may be contacted.

    >>> is_granted("Subscribed"), is_granted("opted_in"), is_granted("not_subscribed")
    (True, True, False)
    """
    return re.sub(r"[\W_]+", "", value.lower()) in GRANTED


def together(rules: Sequence[str]) -> str:
    """Return one rule that holds if all of these do; none of them contains `or`.

    >>> together(["telefon_erlaubt"]), together(["telefon_erlaubt", "not opt_out"])
    ('telefon_erlaubt', 'telefon_erlaubt and not opt_out')
    """
    return " and ".join(rules)
