"""`python -m stepwell.cdk`: the app that cdk.json of a project names."""

from __future__ import annotations

import sys

from stepwell.errors import StepwellError
from stepwell.extras import require
from stepwell.reports import report

try:
    require("deploy", "a deployment")
except StepwellError as missing:
    sys.exit(report(missing))

from stepwell.cdk.app import main

sys.exit(main())
