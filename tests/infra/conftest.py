"""Imported before any test here: it says which Node the CDK runs on, which must come before `aws_cdk`."""

from __future__ import annotations

import stepwell.cdk  # noqa: F401
