"""This repository's own CDK app: the engine of `stepwell.cdk` over an example, checked by cdk-nag."""
