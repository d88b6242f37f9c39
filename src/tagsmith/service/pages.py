"""The files of the page: plain HTML, CSS and JavaScript, nothing to build and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
FILES = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "api.js": "text/javascript",
    "marks.js": "text/javascript",
    "tasks.js": "text/javascript",
    "theme.js": "text/javascript",
    "docs.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
