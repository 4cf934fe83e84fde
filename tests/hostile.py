"""Text that is meant to be taken for something else: by browsers, terminals, spreadsheets, eyes."""

SCRIPTS = (
    "</script><script>document.title='hacked'</script>",
    "<img src=x onerror=\"document.title='hacked'\">",
    "<svg onload=\"document.title='hacked'\">",
    "\"><script>document.title='hacked'</script>",
    "'-(document.title='hacked')-'",
    "--><script>document.title='hacked'</script>",
    "javascript:document.title='hacked'",
    "${document.title='hacked'}{{7*7}}",
)
TERMINAL = (
    "red \x1b[31m",
    "home \x1b[2J\x1b[H",
    "title \x1b]0;hacked\x07",
    "link \x1b]8;;https://example.org\x1b\\x\x1b]8;;\x1b\\",
    "bell\x07",
    "over\rwritten",
    "back\x08\x08",
    "c1 \x9b31m",
    "delete\x7f",
    "two\nlines",
    "tab\there",
)
FORMULAS = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "＝1+1",
    "'=1+1",
    "''@x",
    "-5",
    "+4.5e3",
    "'-5",
    "-",
    "'tis",
)
UNSEEN = (
    "\u202egnp.exe",
    "\u2066a\u2069",
    "\u200bzero",
    "zero\u200d\ufeff",
    "line\u2028separator",
    "nb\u00a0space",
    "\U000e0041tag",
    "\ufffe",
)
HARMLESS = ("[/b]", "100%", "{x}", "é 漢字 🎉", "a,b;c", 'q"uote', "\\x1b", "x" * 180)
EVERY = (*SCRIPTS, *TERMINAL, *FORMULAS, *UNSEEN, *HARMLESS)
#: What no file can hold: a half of a character, and the end of a string.
IMPOSSIBLE = ("half \ud800", "byte \udcff", "nul \0")


def acts(text):
    """Return the characters of an output that a terminal would obey or not show."""
    return {each for each in text if not each.isprintable() and each != "\n"}
