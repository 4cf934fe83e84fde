"""A visitor who uses pages over plain HTTP: cookies, forms, and their hidden fields."""

import re
from html import unescape

import httpx

PAGE = {"accept": "text/html"}


class Visit:
    """A browser without scripts, signed in with a token of a role."""

    def __init__(self, service, role="admin", *, secret=None, headers=()):
        self.client = httpx.Client(
            base_url=service.url, timeout=60, headers={**PAGE, **dict(headers)}
        )
        if role:
            self.sign_in(secret or service.token(role))

    def sign_in(self, secret, **fields):
        page = self.get("/sign-in").text
        answer = self.send("/sign-in", {"token": secret, "csrf": token(page), **fields})
        assert answer.status_code == 303, answer.text
        return answer

    def get(self, path, **options):
        return self.client.get(path, **options)

    def send(self, path, fields, **options):
        return self.client.post(path, data=as_sent(fields), **options)

    def fill(self, page, action, fields=(), *, files=None, leave=()):
        """Send the form of a page that goes to an address, with what it carries."""
        return self.send(action, form(self.get(page).text, action, fields, leave), files=files)

    def close(self):
        self.client.close()


def as_sent(fields):
    """Return fields with line breaks as browsers send them."""

    def broken(value):
        if isinstance(value, list):
            return [broken(each) for each in value]
        return re.sub("\r?\n", "\r\n", value) if isinstance(value, str) else value

    return {name: broken(value) for name, value in dict(fields).items()}


def token(page):
    return re.search(r'name="csrf" value="(\w+)"', page)[1]


def form(page, action, fields=(), leave=()):
    """Return the fields of a page's form: the hidden ones, the chosen ones, and some others."""
    start = page.index(f'action="{action}"')
    text = page[start : page.index("</form>", start)]
    hidden = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', text)
    chosen = re.findall(r'type="radio"[^>]* name="([^"]+)" value="([^"]*)"[^>]* checked', text)
    made = {name: unescape(value) for name, value in (*hidden, *chosen)}
    made |= dict(fields)
    return {name: value for name, value in made.items() if name not in leave}
