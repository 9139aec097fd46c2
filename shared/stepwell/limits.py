"""Every limit in one place. Units are last in each name; a limit has the error it leads to beside it."""

from __future__ import annotations

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS

# What comes in
BODY_BYTES = 1_000_000  # an HTTP body: `body_too_large`
OPEN_CALLS_PER_SECOND = 100  # of webhooks and links, which nobody signs for the API: `too_many_requests`
OPEN_CALLS_BURST = 200  # of them at once
JSON_DEPTH = 64  # nesting of any JSON that comes in: `too_deep`
NAME_CHARACTERS = 128  # workflow, node, event and run names: `bad_name`
KEY_CHARACTERS = 512  # an event's key: `bad_key`
TAGS = 50  # tags of a run: `too_many_tags`

# Definitions
DEFINITION_BYTES = 1_000_000  # a definition file: `definition_too_large`
DEFINITION_NODES = 1_000  # nodes of one workflow: `too_many_nodes`
HISTORY_WINDOW = 20  # messages of an agent's conversation that its state keeps, unless its definition says otherwise
HISTORY_WINDOW_MAX = 200  # what a definition may ask for: `bad_value`
WAIT_ARMS = 100  # waits in one `any` or `all`: `too_many_waits`
DOCUMENTS = 100  # documents that one wait asks for: `bad_value`
APPROVERS = 100  # names of one approval: `bad_value`
TRIGGERS = 20  # of one workflow: `too_many_triggers`
EXPRESSION_CHARACTERS = 10_000  # one expression: `expression_too_long`
EXPRESSION_RESULT_BYTES = 1_000_000  # what one expression or template may make: `bad_expression`

# Runs
MAX_VISITS = 1_000  # visits of one node unless it says otherwise: `loop_limit`
RUN_STEPS = 100_000  # slots of one token's log, unless a deployment says fewer: `step_limit`
HOPS = 10  # messages about one record without a further record, before the run is given up: `hop_limit`
LOCKS = 10  # that a run, or a step, takes together: `bad_expression`
LOCK_QUEUE = 1_000  # who hold and wait for one lock: `lock_queue_full`
LOCK_TRIES = 100  # to change a lock's queue that others change too, before the message is to come again
CONCURRENCY = 1_000  # runs at once that a limit may allow: `bad_value`
LEDGERS_KEPT = 1_000  # runs of which a worker remembers what they have cost, where that has a limit
OPEN_COST_KEPT_MS = 10_000  # how long a worker relies on the last known cost of a run with an open fork, at most
BATCH_STARTS = 100  # starts that become one run: each of them reads the ones before: `bad_value`
PERMITS_TOGETHER = 20  # holders of a limit in one item: what a write of it costs does not grow with the limit
TURN_GRACE_MS = 5 * SECOND_MS  # how late one may come to its turn under a rate limit before it takes another
REMIND_MS = MINUTE_MS  # after which a holder is woken again that another lets in, and may have died before it told it
PRIORITY_MS = HOUR_MS  # the age that a point of priority is worth, so that no waiting run is overtaken for ever
FORK_WIDTH = 10_000  # branches of one fork: `fork_too_wide`
OUTPUT_PENDING = 100_000  # pieces of live output of one run, in an hour
OUTPUT_HELD_BYTES = 1_000  # of an operation of tasks: a larger one stands in its branch's record, and not in both
TASKS_BEGUN = 1_000  # operations of a durable function's tasks that one record begins
ITEMS_COMPARED = 1_000  # of `ctx.map` over a step: those of a wider one are not compared when it is replayed
FORK_CHUNK = 10  # branches that one message wakes
BATCH_RECORDS = 10  # of a token, in one append, with `durability: batch`
BATCH_BYTES = 16_000  # of them: what is larger is appended sooner
BATCH_OPEN_MS = SECOND_MS // 4  # how long the first of them waits
FORK_LANE = 10  # branches that share a lane, where the setting says so
LANE_ALONE_BYTES = 4_096  # of a record that would be alone in its batch: a larger one goes to its branch's own log
FORK_SHARED_MS = SECOND_MS // 5  # how long they may share it; those not begun by then get messages of their own
FORKS_KEPT = 8  # forks that a process keeps for its next messages: a warm worker does not read their parents again
FORKS_KEPT_BYTES = 2_000_000  # all of them, as text; Python's objects take several times that
LARGE_FORKS_KEPT = 2  # beside them, each larger than that: a fork, and one that a branch of it made
LARGE_FORKS_KEPT_BYTES = 20_000_000  # both, as text: what an ItemReader reads, with its columns' names in each item
LONG_LOG_RECORDS = 16  # from so many records after its snapshot on, a token is kept as a fork is, and read on
ID_HELD_MS = HOUR_MS  # how long a deleted run's id is refused: nobody works for the run then, nor has read of it
FORKS_KEPT_MS = 5 * MINUTE_MS  # less than a deleted run's id is held, which may then be another run's
PAGE_BRANCHES = 100  # branches that share a partition and a join set
CHILDREN = 100  # child runs that one node starts together: `too_many_children`
CHILD_DEPTH = 20  # runs above a run: `child_depth`
CHECK_RUNS_MS = 10 * MINUTE_MS  # how soon the sweeper looks whether other runs that a run waits for have moved on
TRACEBACK_FRAMES = 10  # of users' code, of an error and of each of its causes; those between are left out
TRACEBACK_BYTES = 1_000  # of an error's traceback, which is kept with its record
TRACEBACK_CAUSES = 3  # of an error, that its traceback tells
STEP_TIMEOUT_MS = 5 * MINUTE_MS  # a step without its own timeout: `step_timeout`
ATTEMPT_MAX_MS = 15 * MINUTE_MS  # of a step on AWS: no invocation lasts longer
CALL_MS = 30 * SECOND_MS  # of the API's function: API Gateway waits for 29 s
CLOCKS_APART_MS = 5 * SECOND_MS  # how far two machines' clocks may differ before one takes the other for dead
DEPLOYED_KEPT_MS = MINUTE_MS  # how long a deploy still wakes those that begin to wait for code
SESSION_SECONDS = 10  # from one operation of a durable function to the next: `function_stuck`
SESSION_RECORDS = 100  # of a log: so many are replayed within that time
CLEANUP_MS = 30 * SECOND_MS  # that a cancelled durable function has, unless it says otherwise
CLEANUP_MAX_MS = YEAR_MS  # what it may ask for: `bad_value`
SESSIONS_KEPT = 1_000  # that a process keeps: a warm worker goes on without a replay
WAIT_RETRIES = 3  # `on_timeout: retry`
DELIVERIES = 5  # a message that killed its worker so often becomes `worker_lost`
NEWER_FORMAT_MS = MINUTE_MS  # until a message for newer code comes again, as often as it takes
PUT_OFFS = 10  # a message whose handler found the world not answering comes anew so often, later and later
REPUBLISHED = 24  # times that the sweeper takes one message out of the dead-letter queue: at least 5 hours
EVENT_KEPT_MS = 7 * DAY_MS  # an event that nobody waited for
WAITS_COUNTED = 100  # waits that the answer to an event counts; of more it says so many
SEEN_EVENTS = 100  # events of a topic that a token remembers, of those that are not consumed; older ones are past
EVENT_PENDING = 10_000  # events kept per name and key: `too_many_pending`
EVENT_KEPT_MAX_MS = YEAR_MS  # what a definition may ask for: `bad_value`
RETENTION_MS = 30 * DAY_MS  # an ended run's history

# HTTP and Lambda steps
URL_CHARACTERS = 8_000  # of an HTTP step's URL with its values: `bad_url`
HEADER_CHARACTERS = 8_000  # of one header that it sends: `bad_header`
HEADERS = 50  # that it sends: `bad_header`
ANSWER_BYTES = 1_000_000  # of the body that comes back, or of a Lambda function's answer: `answer_too_large`
PAYLOAD_BYTES = 6_000_000  # what Lambda takes in a synchronous call: `payload_too_large`
READ_BYTES = 5_000_000  # of a file that an ItemReader reads; a list of objects is cut off there: `dataset_too_large`
CONNECT_MS = 10 * SECOND_MS  # one address of a host that does not answer, before the next one is tried

# Webhooks that came in, of sources with `keep`
DELIVERY_KEPT_MAX_MS = 30 * DAY_MS  # what a source may ask for: `bad_value`
DELIVERIES_KEPT = 2_000  # of one source in one day; what comes beyond is taken and not kept
DELIVERY_BYTES = 16_000  # a body above it goes to the blob store: to list deliveries reads no bodies from there
REPLAYS = 100  # of one delivery: `too_many_replays`

# Webhooks out
ENDPOINTS = 50  # of one folder: `too_many_endpoints`
ENDPOINT_SECRETS = 5  # of one endpoint, while one is replaced by another: `too_many_secrets`
NOTIFICATION_BYTES = 60_000  # of a notification to an endpoint; a larger one leaves the entry's data out
NOTIFICATION_MS = 15 * SECOND_MS  # that an endpoint may take to answer one
NOTIFICATION_DELAYS_MS = (  # before each further try, and up to a fifth more: the last one comes after about a day
    5 * SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS,
    6 * HOUR_MS, 10 * HOUR_MS,
)  # fmt: skip
NOTIFICATION_REFUSALS = 5  # of one notification (400 and the like), before it is dead

# Schedules
SCHEDULES = 100  # made by callers, beside those of definitions: `too_many_schedules`
SCHEDULE_INPUT_BYTES = 20_000  # of one that a caller made: `input_too_large`
FIRINGS_MADE_UP = 1_000  # of one schedule at once: the latest of those that were missed
FIRING_LATE_MS = 2 * MINUTE_MS  # what takes no longer was not missed: a scheduler is a minute late, a queue another

# Links
LINK_CHARACTERS = 4_000  # of a signed link's token: beyond it none is ours
LINK_KEY_CHARACTERS = 32  # a key that signs links has at least so many: `bad_link_key`
BEATS = 10  # heartbeats of a callback that are written down in each interval; more change nothing
DELEGATIONS = 100  # of one wait for an approval: `too_many_delegations`

# The sweeper
SWEEPS_AT_ONCE = 8  # runs that it looks at side by side on AWS: each is four requests, one after the other

# Answers
PAGE_ITEMS = 50
PAGE_ITEMS_MAX = 500
ANSWERED_BYTES = 5_000_000  # of an answer: Lambda sends at most 6 MB; what is larger stands as its size and a link
LARGE_VALUE_BYTES = 100_000  # a smaller value is never replaced
SENT_BYTES = 5_900_000  # of any answer, its headers beside: Lambda sends no more; `answer_too_large`
LINK_SECONDS = 300  # for so long a link to a large value works
LIVE_FRAME_BYTES = 30_000  # of one message to a watcher: API Gateway's frames hold 32 KB
LIVE_MESSAGE_BYTES = 1_000  # of one message from a watcher: `bad_message`
LIVE_PAGE_ENTRIES = 100  # that one message from a watcher brings
LIVE_WATCHERS = 500  # connections of one deployment; a further one is refused
LIVE_TICKET_MS = MINUTE_MS  # from asking for the address of a stream to opening it: `stream_expired`
PENDING_SHOWN = 1_000  # of a pending run that is shown: its place among so many that wait for the same limit
TOKENS_SHOWN = 100  # live tokens of a run that is shown
SURVEY_RECORDS = 1_000  # of a run that is shown: its newest records, in which forks are looked for, and
SURVEY_BRANCHES = 1_000  # branches of its newest forks
SURVEY_WIDTH = 500  # a wider fork is shown by what its joins count, without its branches
LEDGER_RECORDS = 200  # of a run that is shown: its first records, from which the cost of a longer one is scaled
HISTORY_BRANCHES = 100  # a wider fork is told in a history without its branches
WAIT_ANSWER_SECONDS = 25  # `?wait=`
EXPORT_BYTES = 3_000_000  # of an export's page, about: Lambda answers with at most 6 MB
CHILD_STATUSES = 25  # of a run that is shown: children whose own headers are read for their status
LOCK_OWNERS = 10  # of a run that is shown: branches that wait for a lock, and are shown who has it
FAILURE_CHARACTERS = 120  # of what a run's header keeps of its error: the fingerprint, the type and the step
HELD_PAGES = 10  # of a fork that a pause marks before it answers; those of a wider fork are marked by messages
PAUSES_KEPT_MS = 5 * SECOND_MS  # for how long a worker takes what it has read of paused workflows for true
WORKFLOW_PAUSES = 100  # workflows that are paused at once: `too_many_pauses`
UNPAUSED_RUNS = 50  # that one message has go on, when their workflow does
UNPAUSED_AGAIN_MS = MINUTE_MS  # after which it looks again, for a list that did not have a run yet
ALIASES = 20  # of a workflow: `too_many_aliases`
OPEN_RUNS, OPEN_RUNS_MAX = 1_000, 10_000  # that are counted by version: by default, and at most
# A redrive answers before API Gateway's 29 s are over. Of each write, the API's function computes for 0.6 ms: it has
# 0.58 processors, and a record takes 0.1 ms of one to read and 0.23 ms to write (measured). So 25,000 take 15 s; the
# queries take 5 s more, one of 20 ms for each hundred branches. Sixteen connections, each with an answer in 8 ms, write
# 2,000 a second, half of what the smallest table takes.
REDRIVE_WRITES = 25_000  # of a redrive: one for each record that is kept, and for each branch: `log_too_long`
COPIES_AT_ONCE = 16  # of these writes
BATCH_RUNS = 100  # that a step of a batch acts on, and
BATCH_MS = 20 * SECOND_MS  # for how long: it begins no other run after that
BATCH_RATE = 1_000  # runs a second that a batch may ask for: `less_than_equal`
BATCH_SHOWN = 10  # ids of runs that a batch's report has, of each sort
CANARY_MS = HOUR_MS  # that a batch waits for what its canary redrove, before it stops
ROLLBACK_RECORDS = 1_000  # of a run's own log, and
ROLLBACK_PAGES = 10  # pages of its branches, that are read to show what was undone and what was not

LOG_FILE_BYTES = 5_000_000  # of each of the two files in which `stepwell dev` keeps what steps log
LOG_LINE_CHARACTERS = 20_000  # of one such line
LOG_CALLS = 5  # of CloudWatch Logs, for one page of a run's lines
LOG_LATE_MS = 60_000  # CloudWatch takes a line in so much later at the most

# Storage
SNAPSHOT_RECORDS = 200  # a fold is saved each time so many records follow the last one saved
BLOB_DAYS = (14, 60, 400)  # how long blobs of events and deliveries are kept: the first that is long enough
BLOB_SPARE_MS = 7 * DAY_MS  # that a blob outlives what refers to it: DynamoDB deletes days after an item has expired
CLAIM_CHECK_BYTES = 100_000  # a value above it goes to the blob store by content hash
# On AWS, a text above it goes to S3 and not into its DynamoDB item. By cost S3 is better from 7 KB on, or from 19 KB if
# the text is read 20 times; but each write and each read takes 100 ms more, where an item takes 8 (docs/decisions.md).
ITEM_BYTES = 32_000

# Transactions of durable functions with the user's own tables: what DynamoDB takes
TRANSACT_WRITES = 99  # and the record: `too_many_writes`
TRANSACT_BYTES = 4_000_000  # of all writes, so that the record has room beside them: `too_large`
TRANSACT_DEPTH = 32  # of lists and maps in an attribute, their values counted: `too_deep`
TABLE_ITEM_BYTES = 400 * 1_024  # of an item: `too_large`
TABLE_KEY_BYTES = 2_048  # of a partition key; a sort key has half: `bad_key`
