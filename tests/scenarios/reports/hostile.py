"""Texts that would do harm in a page that didn't escape them."""

from __future__ import annotations

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    '"><svg onload="document.title=\'owned\'">',
    "</title></style></script><script>document.title='owned'</script>",
    "<iframe src='http://127.0.0.1:9/'></iframe><link rel=stylesheet href='http://127.0.0.1:9/x.css'>",
    "{{ 7 * 7 }} {% raw %} ${alert(1)}",
    "javascript:alert(1)",
    "\u202eright to left\u202c \x1b[31mred\x1b[0m \x00 \ud800",
    "x" * 20_000,
]
