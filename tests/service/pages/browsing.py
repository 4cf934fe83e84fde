"""Debian's Chromium, driven by Playwright; what it complains about, and where it turns to."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = (
    "pages are not tried in a browser: there is no Chromium; install it (apt-get install chromium)"
)
WIDTHS = {"desktop": {"width": 1200, "height": 800}, "phone": {"width": 360, "height": 740}}


@contextmanager
def started():
    """Start a browser; skip, saying why, where there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page of a browser that remembers whatever went wrong in it."""

    def __init__(self, browser, service, **options):
        self.service, self.wrong = service, []
        self.context = browser.new_context(base_url=service.url, locale="en-GB", **options)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)

    def sign_in(self, role="admin"):
        self.page.goto("/sign-in")
        self.page.get_by_label("Token").fill(self.service.token(role))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()
        return self

    def press(self, name, *, role="button"):
        """Press what leads to another page, and wait until that page is there."""
        with self.page.expect_navigation():
            self.page.get_by_role(role, name=name, exact=True).first.click()

    def fits(self):
        """Nothing is wider than the window."""
        self.page.wait_for_load_state()
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        return wide <= self.page.viewport_size["width"]

    def close(self):
        self.context.close()

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.service.url, "data:")):
            self.wrong.append(f"elsewhere: {request.url}")

    def _dialog(self, dialog):
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()
