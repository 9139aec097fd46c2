"""An example for the help page of each command; a test parses them all."""

from __future__ import annotations

EXAMPLES = {
    "init": "stepwell init shop --template saga",
    "dev": "stepwell dev workflows --port 8790",
    "check": "stepwell check workflows/order.yaml",
    "graph": "stepwell graph workflows/order.yaml --format svg -o order.svg",
    "schema": "stepwell schema > workflows/.schema.json",
    "deploy": "stepwell deploy --stack Shop --region eu-west-1 --bootstrap",
    "doctor": "stepwell doctor",
    "console": "stepwell console --url https://abc123.execute-api.eu-west-1.amazonaws.com",
    "run": "stepwell run order -i '{\"order_id\": \"A-1\"}' --tag team=shop --watch",
    "runs": "stepwell runs --status failed --since 2d --workflow order",
    "show": "stepwell show last --branches failed",
    "history": "stepwell history run_01J9",
    "watch": "stepwell watch last",
    "explain": "stepwell explain last",
    "query": "stepwell query run_01J9 progress",
    "stats": "stepwell stats --costs",
    "limits": "stepwell limits stripe --key ana",
    "schedules": "stepwell schedules",
    "logs": "stepwell logs last --follow",
    "failures": "stepwell failures --workflow order --since 7d",
    "versions": "stepwell versions order",
    "alias": "stepwell alias order stable",
    "verify": "stepwell verify order -i order.json --approve",
    "simulate": "stepwell simulate order --step charge=800ms,5% --wait approve=2h,10%",
    "estimate": "stepwell estimate order",
    "diff": "stepwell diff run_01J9 run_01JA",
    "export": "stepwell export run_01J9 > run.jsonl",
    "replay": "stepwell replay run.jsonl",
    "gate": "stepwell gate",
    "event": "stepwell event order.paid --key A-1 --payload '{\"amount\": 80}'",
    "update": "stepwell update run_01J9 offer -i '{\"price\": 81}'",
    "approve": "stepwell approve last --by ana --data '{\"limit\": 500}'",
    "reject": "stepwell reject last --reason \"too dear\"",
    "delegate": "stepwell delegate last --to ben",
    "cancel": "stepwell cancel run_01J9 --reason \"not wanted\"",
    "terminate": "stepwell terminate run_01J9 --reason \"it hangs\"",
    "pause": "stepwell pause order --reason \"the bank is down\"",
    "unpause": "stepwell unpause order",
    "redrive": "stepwell redrive run_01J9 --from ship",
    "rerun": "stepwell rerun last",
    "fork": "stepwell fork run_01J9 --at 2 --state '{\"limit\": 500}'",
    "batch": "stepwell batch redrive --workflow order --canary --watch",
    "delete": "stepwell delete run_01J9",
    "purge": "stepwell purge --tag customer=c7 --dry-run",
    "alarms": "stepwell alarms --stack Shop --region eu-west-1",
    "recover": "stepwell recover --all",
    "dlq list": "stepwell dlq list",
    "dlq show": "stepwell dlq show 0f7d",
    "dlq redrive": "stepwell dlq redrive --all",
    "webhook test": "stepwell webhook test payments -f delivery.json",
    "webhook deliveries": "stepwell webhook deliveries",
    "webhook replay": "stepwell webhook replay payments 01J9",
}  # fmt: skip


def epilog(command: str) -> str | None:
    """The end of the command's help page."""
    example = EXAMPLES.get(command)
    return f"\b\nExample: {example}" if example else None
