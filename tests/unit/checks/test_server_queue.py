from __future__ import annotations

from harness.checks import server_queue
from harness.checks.stage3_data import CallRow


def answered(seconds: float) -> CallRow:
    return CallRow(run=0, number=1, path="/v1/chat/completions", started=0, sent=0, ended=seconds, status=200)


def broken_off(seconds: float, sent: float | None = 0.0) -> CallRow:
    return CallRow(run=0, number=1, path="/", started=0, sent=sent, ended=seconds, failure="CancelledError")


def test_what_a_bare_client_waits_beyond_a_call_alone_is_the_servers_queue() -> None:
    bare = server_queue.of([answered(2.0)] * 10)
    assert server_queue.in_queue(5.0, bare, 0.5) == (1.5, False)
    assert server_queue.in_queue(1.0, bare, 0.5) == (0.5, False)  # no more than the agent's own calls took


def test_calls_that_were_broken_off_have_waited_too() -> None:
    """The first few were served at once; most still stood in the queue when the time was up."""
    bare = server_queue.of([answered(1.0)] * 3 + [broken_off(60.0)] * 7)
    assert (bare.latency["p50"], bare.broken_off) == (60.0, 7)
    assert server_queue.in_queue(84.0, bare, 1.0) == (59.0, True)
    assert server_queue.in_queue(50.0, bare, 1.0) == (49.0, False)


def test_a_few_broken_off_calls_leave_the_median_known() -> None:
    bare = server_queue.of([answered(1.0)] * 9 + [broken_off(60.0)])
    assert server_queue.in_queue(84.0, bare, 0.5) == (0.5, False)
    assert bare.is_bound("max")


def test_what_never_went_out_says_nothing_of_the_server() -> None:
    assert server_queue.of([broken_off(60.0, sent=None)]).latency == {}
