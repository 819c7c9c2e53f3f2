"""What one run and many runs are told in the same words: findings that differ only in where they were seen; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.checks.findings import Finding
from harness.openai_api.calls import Call

# Beyond this output is a flood: 512 runs of it fill a disk or stall on the pipe.
FLOOD = 1024 * 1024

# Of a reward. What the source shows is told in the words of what a run shows.
NOT_KEPT = "AReaL takes only a float or a dict of rewards: it drops this trajectory, and only a worker's log says so."

ENDS_ALL = "In a rollout worker this ends the process, and every other run in it."
DROPPED = "A framework drops the trajectory; training goes on without it."
WAITED_FOR = "A rollout waits for it until a framework's own limit, an hour by default in AReaL."
RETRIED = "A failed call is made again by the SDK or lost; either costs time in every run."

# Tokens in which no answer fits.
FEW_TOKENS = 8
CUT = ("length", "max_tokens")

# So many calls of a run that doesn't end are turns without an end, rather than one that waits.
MANY_TURNS = 5
ENDLESS_TURNS = "give the turns an end: for turn in range(max_turns)\nTIMEOUT=600   # if it is only slow"

OUT_OF_DESCRIPTORS = "Every connection is a file descriptor; a worker with as many runs needs more than it may have."
MORE_DESCRIPTORS = "ulimit -n 65536   # in the shell that starts the workers; and close clients that a run makes"


def lacks_descriptors(text: str) -> bool:
    """Whether an error says that the process may open no more files, and so no connections."""
    return "Too many open files" in text or "[Errno 24]" in text


# Of so many calls of a run that doesn't end, nearly all failing alike is a loop that tries again without an end.
NEARLY_ALL = 0.9
ENDLESS_TRIES = "for attempt in range(5), and raise what the last one raised; `except: pass` hides what is wrong"


def call_problem(call: Call) -> str:
    """What went wrong with a call, in the server's words where it has some."""
    if call.failure:
        return call.failure
    said = call.response.get("error") if isinstance(call.response, dict) else None
    said = said.get("message") if isinstance(said, dict) else said
    return f"HTTP {call.status} for {call.path}" + (f": {str(said)[:160]}" if said else "")


def tried_again(calls: Sequence[Call]) -> tuple[int, Call] | None:
    """How many calls of many failed in the same way, and the first of them; None where not nearly all did."""
    failed = [call for call in calls if not call.ok and not call.abandoned]
    if len(failed) <= MANY_TURNS or len(failed) < NEARLY_ALL * sum(not call.abandoned for call in calls):
        return None
    (problem, count), *_ = Counter(call_problem(call) for call in failed).most_common(1)
    first = next(call for call in failed if call_problem(call) == problem)
    return (count, first) if count >= NEARLY_ALL * len(failed) else None


def choked(longest: int) -> tuple[str, str]:
    """What follows where every answer was cut after so few tokens, and what mends it."""
    tokens = f"{longest} token{'' if longest == 1 else 's'}"
    return f"No answer has more than {tokens}: the reward is on what nobody could say.", "raise max_tokens"


def no_call(id_: str, hint: str = "") -> Finding:
    """The model was never asked."""
    return Finding(
        id=id_,
        title="calls to the model",
        status="fail",
        detail=f"none was made at the server that run() is given{hint}",
        consequence="AReaL has nothing to train on: “No interactions in session”, and drops the trajectory.",
        mend="call the model at the base_url that run() gets",
    )


def strayed(id_: str, count: int, where: str) -> Finding:
    """Calls went to another server than the one that was given."""
    return Finding(
        id=id_,
        title="calls go where they should",
        status="fail",
        detail=f"{count} went to {where}",
        consequence="A framework doesn't see such calls: nothing is trained on them, and their cost is real.",
        mend="take base_url from run()'s arguments, or OPENAI_BASE_URL from the environment at each run",
    )


def closed_client(id_: str, who: str) -> Finding:
    """The client that all runs share was closed."""
    return Finding(
        id=id_,
        title="shared http_client",
        status="fail",
        detail=f"{who} closed it",
        consequence="Every later run that uses it fails with “the client has been closed”; hundreds share one.",
        mend="don't use `async with AsyncOpenAI(http_client=...)`: make the client without `with`, and don't close it",
    )


def flooded(id_: str, detail: str, total: int) -> Finding:
    """More was printed than anybody reads."""
    return Finding(
        id=id_,
        title="output",
        status="warn",
        detail=detail,
        consequence="Hundreds of runs share one pipe or disk; printing becomes what they wait for.",
        mend="print less, or log to a file that rotates",
        facts={"bytes": total},
    )


def path_mend(status: int | None, path: str) -> str:
    """What to change where a call failed because of its path; empty where it didn't.

    Anthropic's SDK puts ``/v1/messages`` behind the address that it gets. AReaL's proxy has no ``/v1`` in its own, so
    an agent that was written for it alone asks every other server for ``/v1/v1/messages``.
    """
    if status != 404:
        return ""
    if "/v1/v1/messages" in path:
        return (
            'AsyncAnthropic(base_url=base_url.removesuffix("/v1"), ...)'
            "   # its SDK adds /v1 by itself; that is right here and in AReaL, whose proxy has no /v1"
        )
    if "/v1/v1/" in path:
        return "the base URL ends in /v1 already: don't append it"
    if not path.startswith("/v1/"):
        return "/v1 is missing: take base_url as it comes; it ends in /v1"
    return ""
