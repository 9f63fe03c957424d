"""The browser of the system, which the tests of the page drive."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Return the path of a Chromium on the path; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)
