"""Imported before any test here: `infra` says which Node the CDK runs on, which must come before `aws_cdk`."""

from __future__ import annotations

import infra  # noqa: F401
