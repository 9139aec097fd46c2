"""What gives another result when a durable function is replayed, by its full name, and what to use instead."""

from __future__ import annotations

import re

from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of what is not the same twice."""

    kind: str
    does: str
    hint: str
    names: re.Pattern[str]
    unless_given: re.Pattern[str] | None = None  # names that are the same twice, if they get an argument


_STEP = "put it into a step"
_HARMLESS = re.compile(  # errors and values of these modules, which do nothing when they are made
    r".*\.(\w*(Error|Exception|Expired|Disconnected|Timeout)|error|gaierror|herror)|subprocess\.(CompletedProcess|list2cmdline)"
    r"|socket\.(inet_\w+|[hn]to[hn][sl])|httpx\.(URL|Headers|QueryParams|Limits)|glob\.escape"
)
_LOOP = r"asyncio\.get_(running|event)_loop\."
SOURCES = (
    Source(
        "clock", "reads the clock", "use ctx.now()",
        re.compile(r"time\.(time|monotonic|perf_counter|process_time|thread_time|clock_gettime)(_ns)?"
                   r"|time\.(localtime|gmtime|ctime|strftime)|datetime\.datetime\.(now|utcnow|today)"
                   r"|datetime\.date\.today"),
        re.compile(r"time\.(localtime|gmtime|ctime)"),
    ),
    Source("clock", "blocks the function", "await ctx.sleep(…)", re.compile(r"time\.sleep")),
    Source(
        "chance", "is random", "use ctx.random() or ctx.uuid()",
        re.compile(r"random\.(?!Random\b)\w+|random\.Random|(secrets\.(?!compare_digest)|numpy\.random\.)\w.*|uuid\.uuid[14678]|os\.(urandom|getrandom)"),
        re.compile(r"random\.Random"),
    ),
    Source(
        "thread", "starts a thread or a process", _STEP,
        re.compile(r"(threading\.(Thread|Timer)|_thread\.start|multiprocessing\.|subprocess\.)\w*.*"
                   r"|concurrent\.futures\.((thread|process)\.)?\w+Executor.*"
                   r"|os\.(fork|system|popen|spawn\w*|exec\w*|posix_spawn\w*)"
                   r"|asyncio\.(to_thread|create_subprocess_\w+|run|Runner|new_event_loop|run_coroutine_threadsafe|wrap_future)"
                   r"|anyio\.((to_thread|from_thread|to_process)\.\w+|run|run_process|open_process)"
                   rf"|.*\.run_in_executor|{_LOOP}(call_soon_threadsafe|subprocess_\w+|\w+_signal_handler|run_\w+)"),
    ),
    Source(
        "file", "uses the file system", _STEP,
        re.compile(r"open|io\.open|anyio\.open_file|os\.(listdir|scandir|stat|walk|remove|unlink|rename|replace|makedirs|mkdir|getcwd)"
                   r"|os\.path\.(exists|getsize|getmtime|isfile|isdir)|(shutil|tempfile|glob)\.\w.*"
                   r"|pathlib\.Path(\.\w+)*\.(cwd|home|read_\w+|write_\w+|open|exists|is_file|is_dir|iterdir|glob|rglob|stat"
                   r"|unlink|mkdir|touch|rename)"),
    ),
    Source(
        "environment", "reads the environment", "pass it as input, or read it in a step",
        re.compile(r"os\.(getenv|environ\.get|getpid|getppid|getlogin|uname|cpu_count)|getpass\.\w+|platform\.\w+"),
    ),
    Source("address", "is an address of this process", "compare with `is`, or go by a key of the data",
           re.compile(r"(builtins\.)?id")),
    Source("file", "reads from the terminal", "wait for an event, an approval or an update",
           re.compile(r"(builtins\.)?input")),
    Source(
        "socket", "uses the network", _STEP,
        re.compile(r"(socket|ssl|urllib\.request|http\.client|smtplib|ftplib|httpx|requests|aiohttp|urllib3|boto3"
                   r"|openai|anthropic|redis|psycopg|sqlite3)\.\w.*"
                   r"|asyncio\.(open_connection|open_unix_connection|start_server|start_unix_server)"
                   r"|anyio\.(connect_\w+|create_(tcp|udp|unix|connected)\w+|getaddrinfo|getnameinfo)"
                   rf"|{_LOOP}(create_(connection|server|unix_\w+|datagram_endpoint)|get\w+info|sock_\w+"
                   r"|(add|remove)_(reader|writer)|connect_\w+_pipe|start_tls)"),
    ),
)  # fmt: skip


def source_of(name: str, has_arguments: bool) -> Source | None:
    """The kind of a call by its full name. None: it is the same in every replay, as far as is known.

    `pathlib.Path().read_text` is a method of what a call makes.
    """
    name = name.replace("().", ".")
    if _HARMLESS.fullmatch(name):
        return None
    for source in SOURCES:
        is_fixed = has_arguments and source.unless_given is not None and source.unless_given.fullmatch(name)
        if source.names.fullmatch(name) and not is_fixed:
            return source
    return None
