"""The command ``harness``: finds the verb's file, runs it, and turns errors into three lines and an exit code.

A verb's file is imported only when that verb runs, so that a warm ``harness up`` doesn't pay for the others.
"""

from __future__ import annotations

import datetime
import errno
import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

import click

from harness import __version__, console
from harness.errors import BadSetting, DrydockError, Interrupted, NoSpace, UsageError, nearest
from harness.places import home
from harness.processes.leaving import leaving_on_signals
from harness.settings import environment_names, load_settings, settings_fields

# Verb to its module in this folder and its line in the help, in the order in which people meet them.
VERBS: dict[str, tuple[str, str]] = {
    "up": ("up", "Bring the stack up, or say that it is."),
    "down": ("down", "Stop the stack; weights, images and volumes stay."),
    "status": ("status", "What runs, how it is, and where to reach it."),
    "worker": ("worker", "Make this machine a node of another machine's cluster."),
    "ports": ("ports", "What a firewall between several machines has to let through."),
    "logs": ("logs", "Show the containers' logs."),
    "shell": ("shell", "Open a shell in the dev container."),
    "run": ("run", "Run a command in the dev container and keep its output."),
    "check": ("check", "Check an agent in stages."),
    "compare": ("compare", "Say whether engine and trainer agree, token by token, and why not."),
    "hang-dump": ("hang_dump", "Dump every stack of the system; say who hangs, who is the laggard and why."),
    "hang-watch": ("hang_watch", "Watch until something hangs, dump it once, tell somebody, watch on."),
    "hang-demo": ("hang_demo", "Run a program that hangs on purpose, dump it and explain it."),
    "lint": ("lint", "Say what will bite in training, from source and configuration alone."),
    "runs": ("runs", "List what was run, how it ended, and where it lies."),
    "open": ("open", "Open a run's page in the browser; without a name, the newest."),
    "compare-runs": ("compare_runs", "Hold two checks against each other."),
    "diagnose": ("diagnose", "Say who hangs, who is the laggard and why, from dumped stacks."),
    "breakpoints": ("breakpoints", "Say who waits at a breakpoint: name, node, PID, line, since when."),
    "attach": ("attach", "Debug a paused or running worker, in VS Code or in the terminal."),
    "trace": ("trace", "Note values at a line of running code, without stopping it."),
    "restart-ray": ("restart_ray", "Restart our Ray cluster and no other."),
    "doctor": ("doctor", "Find out what is wrong with this machine or the stack."),
    "report": ("report", "Pack what somebody needs to help into one file without secrets."),
    "init": ("init", "Let an editor open a project of your own in this stack."),
    "dev-container": ("dev_container", "Describe the stack for VS Code's Reopen in Container."),
    "lock": ("lock", "Write down the digest of every image, or show what would change."),
    "verify": ("verify", "Say whether what runs is what is locked."),
    "fingerprint": ("fingerprint", "Say what this stack is made of; show what differs from another."),
    "save": ("save", "Put the stack into one folder, for a machine without a network."),
    "load": ("load", "Bring in what `save` wrote; asks no network."),
    "gpu-selftest": ("gpu_selftest", "Try everything on a machine with a GPU; leaves one file."),
    "settings": ("settings", "Show each setting and where its value came from."),
    "clean": ("clean", "Remove everything that is ours."),
}

# Called by Drydock itself in containers: there, but not in the help.
INNER_VERBS: dict[str, str] = {"supervise": "supervise", "sample": "sample"}


class Verbs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = VERBS[cmd_name][0] if cmd_name in VERBS else INNER_VERBS.get(cmd_name)
        if name is None:
            return None
        module = importlib.import_module(f"harness.cli.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As ever; who mistypes a verb is told which one it may be."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = nearest(args[0], [*VERBS])
            if not near:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}. Did you mean `{near}`?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Find out why an agent, a rollout or a training run misbehaves."""


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code (0 fine, 1 not fine, 2 wrong usage, 3 environment not fit), never raises.

    With ``--json`` an error is one JSON document on standard output as well, so that machines need not read prose.
    """
    as_json = _as_json(arguments)
    if as_json:
        console.to_stderr()

    def say(error: DrydockError) -> int:
        if as_json:
            console.emit_json(error.as_dict())
        console.show_error(error)
        return error.exit_code

    ended_by: list[int] = []

    def ended(number: int) -> BaseException:
        # What undoes half-made things at Ctrl-C does the same for a job manager's signal.
        ended_by.append(number)
        return KeyboardInterrupt()

    try:
        with leaving_on_signals(ended):
            result = cli.main(args=_as_for_make(arguments), prog_name="harness", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Interrupted as error:
        return say(_of_signal(error, ended_by))
    except DrydockError as error:
        return say(error)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        return say(UsageError(error.format_message(), mend=f"{context.command_path if context else 'harness'} --help"))
    except (KeyboardInterrupt, click.Abort):
        return say(
            _of_signal(Interrupted("Stopped by Ctrl-C.", mend="make status   # shows what is running"), ended_by)
        )
    except BrokenPipeError:
        # Somebody's `| head` has seen enough. Python would complain once more at exit when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  # the last door: a person gets a sentence, the file the traceback
        if (known := _of_docker(error) or _of_disk(error)) is not None:
            return say(known)
        path = _keep_traceback(arguments)
        where = f"The traceback is in {path}." if path else traceback.format_exc()
        return say(
            DrydockError(
                f"Drydock itself failed: {type(error).__name__}: {error}",
                consequence=where,
                mend="make doctor   # and please report it with that file",
            )
        )


def _of_signal(error: Interrupted, numbers: list[int]) -> Interrupted:
    """The same, if another signal than Ctrl-C's was it; its exit code is the one that a shell gives."""
    if numbers:
        error.what = f"Ended by {signal.Signals(numbers[0]).name}."
        error.exit_code = 128 + numbers[0]
    return error


def _as_for_make(arguments: list[str]) -> list[str]:
    """The arguments without ``NAME=value`` as make takes them; these go where make puts them, into the environment.

    Raises:
        UsageError: there is no such setting.
    """
    if not arguments or arguments[0] in INNER_VERBS:
        return arguments  # what follows is somebody's command line
    rest, typed = arguments[:1], os.environ.get("DRYDOCK_MAKE_VARS", "").split()
    known = sorted(environment_names().values())
    for place, argument in enumerate(arguments[1:], 1):
        name, equals, value = argument.partition("=")
        if arguments[place - 1] == "--":
            rest += arguments[place:]
            break
        theirs = name.isidentifier() and (name.isupper() or name.upper() in known)
        if not equals or not theirs or _takes_a_value(arguments[place - 1]):
            rest.append(argument)
            continue
        if name.upper() not in known:
            near = nearest(name.upper(), known)
            meant = f" Did you mean {near}={value}?" if near else ""
            raise UsageError(f"{name} is no setting.{meant}", mend="make settings   # all of them")
        os.environ[name.upper()] = value
        typed.append(name.upper())
    os.environ["DRYDOCK_MAKE_VARS"] = " ".join(typed)
    return rest


def _takes_a_value(argument: str) -> bool:
    """Whether what comes after an argument belongs to it."""
    if not argument.startswith("--") or "=" in argument or argument == "--json":
        return False
    own = settings_fields().get(argument[2:].replace("-", "_"))
    return own is None or own.type is not bool


def _as_json(arguments: list[str]) -> bool:
    """Whether one JSON document is wanted, by flag, environment or file; settings that can't be read decide nothing."""
    if "--json" in arguments or "JSON=1" in arguments:
        return True
    try:
        return load_settings().json_output
    except BadSetting:
        return os.environ.get("JSON", "") not in ("", "0")


def _of_docker(error: Exception) -> DrydockError | None:
    """A request to Docker that broke off can come up in any verb; the module is loaded where one was made."""
    module = sys.modules.get("harness.docker_engine")
    found: DrydockError | None = module.as_unreachable(error) if module else None
    return found


def _of_disk(error: Exception) -> NoSpace | None:
    """A disk can be full wherever something is written."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = f": {error.filename} could not be written" if error.filename else ""
    return NoSpace(
        f"A disk is full{where}.",
        consequence="What was asked for may be half done; the same command goes on from there.",
        mend="make doctor TOPIC=disk   # which one, and what takes the room\n" + NoSpace.mend,
    )


def _keep_traceback(arguments: list[str]) -> Path | None:
    """Append the traceback to a log file; None where no file can be written."""
    path = home() / ".drydock" / "harness.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(f"\n{datetime.datetime.now().isoformat(timespec='seconds')} harness {' '.join(arguments)}\n")
            log.write(traceback.format_exc())
    except OSError:
        return None
    return path
