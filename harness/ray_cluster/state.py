"""Nodes, actors, tasks and workers of a cluster, as its dashboard's state API tells them."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal

from harness.ray_cluster.address import RayUnreachable

Kind = Literal["nodes", "actors", "tasks", "workers", "placement_groups", "jobs"]
MOST = 10_000


@dataclass(frozen=True)
class Dashboard:
    """A cluster's dashboard.

    Attributes:
        url: ``http://HOST:PORT``.
        token: "" where the cluster asks for none.
    """

    url: str
    token: str = ""

    def list(self, kind: Kind, *, detail: bool = True, limit: int = MOST, seconds: float = 10.0,
             **filters: tuple[Literal["=", "!="], str]) -> list[dict[str, Any]]:  # fmt: skip
        """Rows of the state API.

        Args:
            filters: column to comparison and value, all of which must hold: ``state=("!=", "FINISHED")``.

        Raises:
            RayUnreachable: it can't be asked, or answers something else.
        """
        query: list[tuple[str, str]] = [("detail", str(int(detail))), ("limit", str(limit))]
        for column, (comparison, value) in filters.items():
            query += [("filter_keys", column), ("filter_predicates", comparison), ("filter_values", value)]
        answer = self.get(f"/api/v0/{kind}?{urllib.parse.urlencode(query)}", seconds=seconds)
        rows: Any = answer
        # The state API wraps its answer twice.
        for key in ("data", "result", "result"):
            rows = rows.get(key) if isinstance(rows, dict) else None
        if not isinstance(rows, list):
            said = answer.get("msg") if isinstance(answer, dict) else ""
            raise RayUnreachable(f"the dashboard's state API has no answer on {kind}: {str(said)[:200]}")
        return [row for row in rows if isinstance(row, dict)]

    def get(self, path: str, *, seconds: float = 10.0) -> Any:
        """The JSON that a path answers.

        Raises:
            RayUnreachable: it can't be asked, or answers something else.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        # A cluster's address isn't for proxies.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(self.url + path, headers=headers), timeout=seconds) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            reason = "it wants another token" if error.code in (401, 403) else f"HTTP {error.code}"
            raise RayUnreachable(f"the dashboard at {self.url} refuses: {reason}") from None
        except OSError as error:
            reason = str(getattr(error, "reason", "")) or str(error)
            raise RayUnreachable(f"the dashboard at {self.url} doesn't answer: {reason}") from None
        except ValueError:
            raise RayUnreachable(f"what answers at {self.url} is no dashboard") from None
