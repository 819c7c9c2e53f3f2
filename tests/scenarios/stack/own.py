"""What a user brings along: a project with a requirement, a framework's checkout, a server of their own."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

from tests.support.harness import Stack

# Small, pure Python, and not in our images.
REQUIREMENT = "python-slugify==8.0.4"
UID = 1234


def make_workspace(folder: Path) -> Path:
    """A project that asks for a package; where we are root it belongs to somebody else."""
    folder.mkdir()
    (folder / "requirements.txt").write_text(f"# what the agent needs\n{REQUIREMENT}\n")
    (folder / "my_agent.py").write_text(
        textwrap.dedent("""
        import os

        from openai import AsyncOpenAI
        from slugify import slugify

        class MyAgent:
            async def run(self, data, *, base_url, api_key, http_client, **extra_kwargs):
                client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client)
                answer = await client.chat.completions.create(
                    model=os.environ["OPENAI_MODEL"], messages=data["messages"], max_tokens=16, temperature=1.0
                )
                return float(data["answer"] in slugify(answer.choices[0].message.content))
        """)
    )
    sample = {"messages": [{"role": "user", "content": "The capital of France?"}], "answer": "paris"}
    (folder / "my_data.jsonl").write_text(json.dumps(sample) + "\n")
    belongs_to(folder, UID)
    return folder


def make_checkout(folder: Path, module: str) -> Path:
    """A framework's source, as `git clone` leaves it."""
    (folder / module).mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        textwrap.dedent(f"""
        [build-system]
        requires = ["setuptools>=68"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "{module}"
        version = "1.0"
        """)
    )
    (folder / module / "__init__.py").write_text("def version():\n    return 'as cloned'\n")
    return folder


def belongs_to(folder: Path, uid: int) -> None:
    """Give a folder and all in it to a user, where we may."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid)


def in_dev_and_in_a_task(stack: Stack, expression: str, *, before: str = "") -> tuple[Any, Any]:
    """The value of a Python expression in a driver in `dev`, and in a Ray task that the driver starts.

    Args:
        before: statements that the expression needs.
    """
    script = f"import json, ray\n\ndef look():\n{textwrap.indent(before, '    ')}\n    return {expression}\n\n"
    script += "ray.init()\nprint(json.dumps([look(), ray.get(ray.remote(look).remote())]))\n"
    said = stack.execute("dev", "/opt/drydock/with-env", "python", "-c", script)
    driver, task = json.loads(said.splitlines()[-1])
    return driver, task
