import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
AWS = {
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
}


def test_code_with_boto3_places_an_order(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from stepwell.cli.entry import main; main()"]
    words = [*command, "dev", "workflows", "--data", str(tmp_path), "--port", "0", "--no-reload"]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own
        try:
            url = server.stdout.readline().split()[-1] if server.stdout else ""
            variables = {**os.environ, **AWS, "AWS_ENDPOINT_URL_SFN": f"{url}/aws/states", "NO_PROXY": "*"}
            code = [sys.executable, "place_order.py"]
            done = subprocess.run(  # noqa: S603 - our own
                code, cwd=PROJECT, env=variables, capture_output=True, text=True, check=True, timeout=60
            )
        finally:
            server.terminate()
    assert done.stdout.startswith("SUCCEEDED {")
    assert '"parcels":["parcel of a"]' in done.stdout
