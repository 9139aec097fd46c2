"""The CDK app of a shop: the engine of Stepwell, and beside it a function and a table of the shop's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stepwell.cdk import EngineProps, Pool, StepwellEngine  # first: it chooses the Node of stepwell[deploy]

from aws_cdk import App, CfnOutput, Duration, RemovalPolicy, Stack  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_lambda as lambda_  # isort: skip
from constructs import Construct  # isort: skip

HERE = Path(__file__).parent
# What an AWS emulator lacks; an app that goes to AWS alone needs none of this.
EMULATOR: dict[str, Any] = {
    "platform": "local",
    "alarms": False,
    "schedule_group": False,
    "auto_delete_objects": False,
    "removal_policy": RemovalPolicy.DESTROY,
}


class Shop(Stack):
    """Orders come to a function, which starts a run for each; the steps read what an article costs."""

    def __init__(self, scope: Construct, construct_id: str, *, bundle: bool = True) -> None:
        super().__init__(scope, construct_id)
        pools = {"default": Pool(memory_mb=512, timeout_seconds=30)}
        more = EMULATOR if os.environ.get("SHOP_STAGE") == "emulator" else {}
        engine = StepwellEngine(
            self, "Stepwell", EngineProps(folder=HERE / "workflows", pools=pools, bundle=bundle, **more)
        )
        orders = lambda_.Function(
            self,
            "Orders",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="orders.handler",
            code=lambda_.Code.from_asset(str(HERE / "orders")),
            timeout=Duration.seconds(30),
            environment={"STEPWELL_URL": engine.api_url},
        )
        engine.grant_start(orders)
        prices = dynamodb.Table(
            self, "Prices", partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING)
        )
        prices.grant_read_data(engine.workers["default"])
        CfnOutput(self, "OrdersName", value=orders.function_name)
        CfnOutput(self, "ApiUrl", value=engine.api_url)


if __name__ == "__main__":
    app = App()
    Shop(app, "Shop")
    app.synth()
