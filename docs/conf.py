"""The site's settings for Sphinx. The pages are plain Markdown, so that they read well in the repository too.

The source folder is the root of the repository: so a page of docs/ may link to CONTRIBUTING.md and to the examples, and
Sphinx checks that link like any other.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "Stepwell"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
root_doc = "docs/index"
extensions = ["myst_parser"]
include_patterns = [
    "docs/**.md",
    "examples/*/README.md",
    "examples/programs/*/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "**/.*", "**/node_modules", "cdk.out", "dist", "tests", "shared", "site"]  # not walked
templates_path = ["_templates"]

nitpicky = True  # a reference without a target is a warning, and the build takes warnings for errors
myst_heading_anchors = 4
myst_links_external_new_tab = False
highlight_language = "text"  # of a block without a language
smartquotes = False  # a command that is copied must work

html_theme = "furo"
html_title = "Stepwell"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_additional_pages = {"index": "to_docs.html"}
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
if repository := os.environ.get("GITHUB_REPOSITORY"):  # set by GitHub's workflows
    html_theme_options |= {
        "source_repository": f"https://github.com/{repository}/",
        "source_branch": "main",
        "source_directory": "",
    }


def setup(app: Sphinx) -> None:
    """Shows Mermaid diagrams as text: drawing them needs a script from elsewhere."""
    app.add_lexer("mermaid", TextLexer)
