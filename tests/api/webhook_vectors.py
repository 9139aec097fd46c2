"""Deliveries with signatures that others made.

Published examples, and bodies of the senders' documents signed by their own SDKs (stripe 16.1, slack_sdk 3.47,
twilio 9.13) or, where a sender publishes neither, by OpenSSL.
"""

from __future__ import annotations

from dataclasses import dataclass

JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Vector:
    """A genuine delivery. `source` is the line of webhooks.yaml, `event_id` what it becomes."""

    source: str
    secret: str
    headers: dict[str, str]
    body: str
    event_id: str
    seconds: int = 1_800_000_000  # when it came
    query: str = ""
    status: int = 202
    signature: str = ""  # the header that proves it; else the first
    covers_body: bool = True
    timed: bool = False
    versioned: bool = False
    reads_fields: bool = False  # signs what a form says, not how it is written

    @property
    def proof(self) -> str:
        return self.signature or next(iter(self.headers))


def _source(scheme: str, more: str = "") -> str:
    return f"{{scheme: {scheme}, secret: [env:OTHER, env:SECRET], event: \"'came'\"{more}}}"


SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # noqa: S105 - published
SLACK_SECONDS = 1_531_420_618
TWILIO_URL = "https://mycompany.com/myapp.php"
TWILIO_FORM = "CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309"
TWILIO_HASH = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
DOCUSIGN_BODY = (
    '{"event":"envelope-completed","apiVersion":"v2.1","uri":"/restapi/v2.1/accounts/'
    'b123a4e6-094f-43aa-b2d9-30076d0af3c7/envelopes/6b0cff6d-1def-40c3-9684-1587c8fcaa2c","retryCount":0,'
    '"configurationId":123456,"generatedDateTime":"2024-02-13T14:34:42.2740396Z","data":{"accountId":'
    '"b123a4e6-094f-43aa-b2d9-30076d0af3c7","userId":"861d2a78-7e55-42a1-ba7f-7501cc1a0d28","envelopeId":'
    '"6b0cff6d-1def-40c3-9684-1587c8fcaa2c"}}'
)
STRIPE_BODY = """{
  "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
  "object": "event",
  "api_version": "2019-02-19",
  "created": 1686089970,
  "data": {
    "object": {
      "id": "seti_1NG8Du2eZvKYlo2C9XMqbR0x",
      "object": "setup_intent",
      "client_secret": null,
      "payment_method": "pm_1NG8Du2eZvKYlo2CYzzldNr7",
      "status": "requires_confirmation"
    }
  },
  "livemode": false,
  "pending_webhooks": 0,
  "request": {"id": null, "idempotency_key": null},
  "type": "setup_intent.created"
}"""
SLACK_EVENT = (
    '{"token":"XXYYZZ","team_id":"T123ABC456","api_app_id":"A123ABC456","event":{"type":"reaction_added",'
    '"user":"U123ABC456","reaction":"thumbsup","item":{"type":"message","channel":"C123ABC456",'
    '"ts":"1464196127.000002"},"event_ts":"1465244570.336841"},"type":"event_callback",'
    '"event_id":"Ev123ABC456","event_time":1531420610}'
)

VECTORS = {
    "standard-webhooks": Vector(  # the specification's example
        _source("standard-webhooks"),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            "webhook-timestamp": "1614265330",
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        },
        '{"test": 2432232314}',
        "source:msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        timed=True,
        versioned=True,
    ),
    "stripe": Vector(
        _source("stripe"),
        "whsec_test_secret",
        {"stripe-signature": "t=1686089970,v1=e10dded2df9d73fad313cd9d5f5c8e91c851744811dff0b09bffb6097eec4b6c"},
        STRIPE_BODY,
        "source:evt_1NG8Du2eZvKYlo2CUI79vXWy",
        1_686_089_970,
        timed=True,
        versioned=True,
    ),
    "github": Vector(  # OpenSSL
        _source("github"),
        "It's a Secret to Everybody",
        {
            "x-hub-signature-256": "sha256=4f420584029410367bfadf165b9ef38d649e7109736597bb299f70070b71958c",
            "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        },
        '{"zen":"Keep it logically awesome.","hook_id":42,"hook":{"type":"Repository"}}',
        "source:72d3162e-cc78-11e3-81ab-4c9367dc0958",
        versioned=True,
    ),
    "slack: a command": Vector(  # Slack's published example
        _source("slack"),
        SLACK_SECRET,
        {
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "x-slack-request-timestamp": "1531420618",
            "content-type": FORM,
        },
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        "source:sha256:",
        SLACK_SECONDS,
        status=200,
        timed=True,
        versioned=True,
    ),
    "slack: an event": Vector(
        _source("slack"),
        SLACK_SECRET,
        {
            "x-slack-signature": "v0=c1182e8c902b9ac76e4bd20af61c1b9b41c5a4ed5b259bc31f387024fafaa1c5",
            "x-slack-request-timestamp": "1531420618",
        },
        SLACK_EVENT,
        "source:Ev123ABC456",
        SLACK_SECONDS,
        status=200,
        timed=True,
        versioned=True,
    ),
    "shopify": Vector(  # the example of SQLPage's hmac function
        _source("shopify"),
        "test-webhook-secret",
        {
            "x-shopify-hmac-sha256": "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw=",
            "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
        },
        '{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}',
        "source:b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    ),
    "twilio: a form": Vector(  # from the tests of Twilio's SDKs
        _source("twilio", f", url: '{TWILIO_URL}'"),
        "12345",
        {
            "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
            "i-twilio-idempotency-token": "5a2c1b1e-0d0a-4d0a-9f0a-7f7a6a3c1d2e",
            "content-type": FORM,
        },
        TWILIO_FORM,
        "source:5a2c1b1e-0d0a-4d0a-9f0a-7f7a6a3c1d2e",
        query="foo=1&bar=2",
        status=200,
        reads_fields=True,
    ),
    "twilio: JSON": Vector(  # the same
        _source("twilio", f", url: '{TWILIO_URL}'"),
        "12345",
        {"x-twilio-signature": "a9nBmqA0ju/hNViExpshrM61xv4="},
        '{"property": "value", "boolean": true}',
        f"source:sha256:{TWILIO_HASH}",
        query=f"foo=1&bar=2&bodySHA256={TWILIO_HASH}",
        status=200,
    ),
    "docusign": Vector(  # OpenSSL
        _source("docusign"),
        "sample-hmac-key",
        {"x-docusign-signature-1": "X32++lyNysKhLO0zHcK6wOxSAwAoxJtK/zZDuKQwnjs="},
        DOCUSIGN_BODY,
        "source:sha256:",
    ),
    "hmac": Vector(  # RFC 4231, test case 2
        _source("hmac", ", header: X-Signature"),
        "Jefe",
        {
            "x-signature": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "content-type": FORM,
        },
        "what do ya want for nothing?",
        "source:sha256:",
    ),
    "basic": Vector(  # RFC 7617
        _source("basic"),
        "Aladdin:open sesame",
        {"authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
        "{}",
        "source:sha256:",
        covers_body=False,
    ),
}
