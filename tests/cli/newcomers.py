"""The mistakes that newcomers make: what each types, and what Stepwell says. docs/troubleshooting.md shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ORDER = """workflow: order
timeline:
  - {name: charge, run: "python:shop.charge", input: {amount: "{{ input.amount }}"}, timeout: 1m}
"""
SHOP = """def charge(amount: float) -> str:
    return f"{amount:.2f}"
"""
REMIND = """from stepwell import workflow


@workflow
async def remind(order_id: str) -> str:
    return order_id
"""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in the project above.

    `files` replaces files of the project; `around` names what is wrong around it, which the test arranges. `said` is
    all that the command prints, with `…` for what differs. `then` is the command that comes next, a part of `said`.
    """

    title: str
    why: str
    typed: str
    said: str
    then: str
    status: int
    files: Mapping[str, str] = field(default_factory=dict)
    around: str = ""


MISTAKES = (
    Mistake(
        "A function that is not there",
        "A definition names a step by its module and its function.",
        "stepwell check",
        """workflows/order.yaml:3:20: error there is no function 'chrage' in shop [unknown_function]
    3 |   - {name: charge, run: "python:shop.chrage", input: {amount: "{{ input.amount }}"}, timeout: 1m}
                           ^
  hint: did you mean `charge`?
1 workflow, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/order.yaml": ORDER.replace("shop.charge", "shop.chrage")},
    ),
    Mistake(
        "A module that is not there",
        "Modules are imported from the workflow folder, the project's root, and `packages` of `[tool.stepwell]`.",
        "stepwell check",
        """workflows/order.yaml:3:20: error there is no module 'shops' [unknown_module]
    3 |   - {name: charge, run: "python:shops.charge", input: {amount: "{{ input.amount }}"}, timeout: 1m}
                           ^
  hint: did you mean `shop`?
1 workflow, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/order.yaml": ORDER.replace("shop.charge", "shops.charge")},
    ),
    Mistake(
        "An import that fails",
        "The package is not installed here, or it is not among the project's dependencies, which Lambda gets.",
        "stepwell check",
        """workflows/shop.py:1:1: error there is no module 'striped', so this import fails [unknown_import]
    1 | import striped
        ^
  hint: pip install the package that has it, and add it to the project's dependencies; or is striped.py elsewhere?
1 workflow, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/shop.py": f"import striped\n\n\n{SHOP}"},
    ),
    Mistake(
        "A parameter that gets no value",
        "A step gets what `input:` gives, by name. Without `input:` it gets the run's input and state.",
        "stepwell check",
        """workflows/order.yaml:3:20: error charge needs 'currency' [bad_arguments]
    3 |   - {name: charge, run: "python:shop.charge", input: {amount: "{{ input.amount }}"}, timeout: 1m}
                           ^
  hint: add it to `input`
1 workflow, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/shop.py": SHOP.replace("amount: float", "amount: float, currency: str")},
    ),
    Mistake(
        "A workflow without `ctx`",
        "A durable function does everything that must be remembered through `ctx`, its first parameter.",
        "stepwell check",
        """workflows/remind.py:5: error the first parameter of the workflow remind is not `ctx` [missing_ctx]
    5 | async def remind(order_id: str) -> str:
  hint: async def remind(ctx, …)
2 workflows, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/remind.py": REMIND},
    ),
    Mistake(
        "YAML that cannot be read",
        "In YAML a value that contains a colon and a space, or begins with a special character, needs quotes.",
        "stepwell check",
        """workflows/order.yaml:2:23: error not readable as YAML: mapping values are not allowed in this \
context [bad_syntax]
    2 | description: charge it: at once
                              ^
  hint: quote text that contains `: `
1 workflow, 1 error, 0 warnings
mend them, then: stepwell check
""",
        "stepwell check",
        1,
        {"workflows/order.yaml": ORDER.replace("timeline:", "description: charge it: at once\ntimeline:")},
    ),
    Mistake(
        "An extra that is not installed",
        "`pip install stepwell` gives the engine, the command and the client; servers and the CDK are extras.",
        "stepwell dev",
        """error: the local server needs uvicorn, which is not installed [not_installed]
  hint: pip install "stepwell[dev]"
""",
        'pip install "stepwell[dev]"',
        2,
        around="no extra",
    ),
    Mistake(
        "A port that is taken",
        "Only one program can listen on a port, and `stepwell dev` takes 8787 unless `--port` says otherwise.",
        "stepwell dev",
        """error: cannot listen on port 8787: another program does, perhaps another `stepwell dev` [port_in_use]
  hint: end that one, or take a free port: stepwell dev --port 0
""",
        "stepwell dev --port 0",
        2,
        around="port",
    ),
    Mistake(
        "No server",
        "The command calls `http://127.0.0.1:8787`, unless `--url` or `STEPWELL_URL` names another API.",
        "stepwell runs",
        """error: cannot reach http://127.0.0.1:8787: … [unreachable]
  hint: start it with: stepwell dev; for another API, check --url or STEPWELL_URL
""",
        "stepwell dev",
        4,
    ),
    Mistake(
        "A run that is not there",
        "The id is wrong, or the run is on another server. `last` names the newest run.",
        "stepwell show run_01J9",
        """error: Unknown run: there is no run 'run_01J9' [unknown_run]
  hint: stepwell runs lists them
""",
        "stepwell runs",
        3,
        around="server",
    ),
    Mistake(
        "A call that is refused",
        "An API on AWS lets in who signs and has `execute-api:Invoke`, or who shows its key or token.",
        "stepwell runs",
        """error: the API refused the call: Forbidden [forbidden]
  hint: aws sts get-caller-identity shows your identity and whether your credentials have expired; \
the identity needs execute-api:Invoke on this API
""",
        "aws sts get-caller-identity",
        3,
        around="gateway",
    ),
    Mistake(
        "No AWS credentials",
        "boto3 finds none: no variables, no profile, no login.",
        "stepwell deploy --yes",
        """error: there are no AWS credentials [no_credentials]
  hint: run aws sso login, or set AWS_PROFILE, or an access key; then: stepwell doctor
""",
        "stepwell doctor",
        2,
        around="no credentials",
    ),
    Mistake(
        "An account that is not bootstrapped",
        "The CDK needs a bucket and roles of its own, once for each account and region.",
        "stepwell deploy --yes",
        """account 111122223333, eu-west-1, as arn:aws:iam::111122223333:user/ana
nobody is told of alarms; stepwell deploy --alarms-to ADDRESS
error: the CDK is not bootstrapped in aws://111122223333/eu-west-1 [not_bootstrapped]
  hint: once for each account and region: stepwell deploy --bootstrap, or npx … bootstrap aws://111122223333/eu-west-1
""",
        "stepwell deploy --bootstrap",
        2,
        around="bare account",
    ),
    Mistake(
        "A package without a wheel for Lambda",
        "Lambda runs on Linux and arm64. Wheels are installed for it as they are; nothing is compiled.",
        "stepwell deploy --dry-run",
        """error: the dependencies: fastmath 1.0 has no wheel for Lambda (arm64, Python 3.13)
…fastmath==1.0…
  hint: choose a version that has one, or another package (nothing is compiled here); then: stepwell deploy --dry-run
""",
        "stepwell deploy --dry-run",
        2,
        around="no wheel",
    ),
    Mistake(
        "A full disk",
        "Nothing of the call was written. What `stepwell dev` had acknowledged is safe.",
        "stepwell graph workflows/order.yaml -o /dev/full",
        """error: cannot write /dev/full: no space left on device [disk_full]
  hint: free some space (df -h shows how much each disk has), then run the same command again
""",
        "df -h",
        2,
    ),
)


def troubles() -> str:
    """The mistakes as sections of a page."""
    sections = (
        f"## {one.title}\n\n{one.why}\n\n<!-- not run: output -->\n```\n$ {one.typed}\n{one.said}```\n"
        for one in MISTAKES
    )
    return "\n".join(sections).rstrip()
