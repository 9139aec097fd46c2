"""The template, and what the handlers needed while they did everything: once for all tests of this folder."""

from __future__ import annotations

import logging
import sys

import pytest

import stepwell.cdk  # noqa: F401 - before `aws_cdk`: it says which Node the CDK runs on
from tests.iam.scenarios import play
from tests.iam.stack import CONTEXT, Played, standing
from tests.iam.template import Template
from tests.infra.kit import made


@pytest.fixture(scope="session")
def template() -> Template:
    return Template(made(CONTEXT))


@pytest.fixture(scope="session")
def played(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """What happened on a stack on which everything did. It is gone, and what its handlers changed is back."""
    package = tmp_path_factory.mktemp("package")
    modules, root = set(sys.modules), logging.getLogger()
    handlers, level, path = list(root.handlers), root.level, list(sys.path)
    try:
        with pytest.MonkeyPatch.context() as patch, standing(template, package, patch) as stack:
            play(stack)
            return Played(frozenset(stack.recorder.needs), tuple(stack.called))
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(package)):
                del sys.modules[name]
