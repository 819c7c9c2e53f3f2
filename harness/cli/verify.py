"""``harness verify``: is what runs what is locked?"""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.verifying import Finding, decide, drifted, gather


@click.command("verify")
@json_option
def command(**flags: Any) -> int:
    """Hold the rendered configuration, images and containers against docker/images.lock."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    findings = decide(gather(guard.docker_fit(), settings))
    code = int(drifted(findings))
    if settings.json_output:
        console.emit_json({"exit_code": code, "findings": [finding.as_dict() for finding in findings]})
    else:
        _show(findings)
    return code


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        say = {"ok": console.ok, "note": console.warn, "drift": console.bad}[finding.state]
        say(f"{finding.subject}: {finding.text}")
        if finding.expected or finding.found:
            console.note(f"expected {finding.expected or 'nothing'}")
            console.note(f"found    {finding.found or 'nothing'}")
    if drifted(findings):
        console.mend("make up   # brings the stack to what is locked; make lock shows what registries have")
    elif any(finding.state == "note" for finding in findings):
        console.mend("make lock   # asks the registries")
