"""Builds the site of docs/: `uv run python -m tests.docs.site [FOLDER]` writes it to site/, or to the folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# -n: references are checked; -W: a warning fails the build, after all of them are printed.
SPHINX = (sys.executable, "-m", "sphinx", "-b", "html", "-n", "-W", "--keep-going", "-q", "-j", "2")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site, with its cache beside it. A broken link or a page without a place is an error."""
    cache = folder.with_name(f".{folder.name}-cache")
    words = [*SPHINX, "-c", str(ROOT / "docs"), "-d", str(cache), str(ROOT), str(folder)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own words


def main() -> int:
    """Builds the site, and prints what is wrong with it."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    built = build(folder)
    print(built.stderr or f"open {folder / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
