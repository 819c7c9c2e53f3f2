"""Every error that Drydock raises on purpose, as one tree.

* DrydockError                 something is wrong; says what, what follows from it, and the command that mends it
  * UsageError                 the call itself is wrong (exit code 2)
    * BadSetting               a setting has a value that can't be used
      * UnknownModel           MODEL names nothing that exists
      * UnusableModel          MODEL names something that isn't a whole model, or not one for this engine
      * FloatingTag            an image is named by a tag that moves by its nature, as `latest`
      * GpuUnfit               GPUs are asked for that aren't there, or can't be handed to containers
    * RequirementsConflict     what the user's project asks for can't be had together with the image
    * FrameworkRefused         FRAMEWORK names an image that can't be a Ray node of ours
    * AgentNotFound            AGENT names no file, module or class
    * DataNotFound             DATA names no file
    * BadConfig                CONFIG names no training configuration that can be read
    * NothingToSample          a dump of stacks finds nobody who is meant
    * NoServerNamed            a check has no server to talk to
    * RecordingExists          RECORD names a folder that has something in it
    * RecordingUnusable        REPLAY names no recording, or one that can't be replayed
    * ReportExists             a report would be written over a file that is there
  * AgentUnreadable            the agent's file isn't Python that this interpreter can read
  * EnvironmentUnfit           the machine lacks something (exit code 3)
    * DockerMissing            no Docker client, Compose or Buildx
    * DockerUnreachable        the daemon doesn't answer, or this user may not talk to it
    * ToolTooOld               a program is there but too old for what is asked of it
    * NoSpace                  a disk is full, or would be
    * PortTaken                a port that is to be published belongs to somebody else
    * FolderClosed             the containers' user may not enter the workspace or the framework's checkout
    * Busy                     another command of ours is changing the same thing right now
    * StackOccupied            something of the user's runs in containers that would be made anew
    * LibraryMissing           a Python package is missing that only some verbs need
    * WeightsMissing           a model's weights aren't here, and they may not be downloaded
    * WeightsUnreadable        weights are here, but a container couldn't read them
    * HubUnreachable           the model hub doesn't answer
    * HubRefused               the model hub wants a licence accepted or another token
    * HubFaulty                the model hub answers with something that isn't an answer
    * DownloadFailed           weights didn't arrive whole
    * ImageUnavailable         an image isn't here and can't be pulled
    * BaseUnavailable          neither a registry answers nor can the base image be made here
    * BuildFailed              an image could not be built; carries the last lines of the build
      * EngineNetworkGone      the engine's own network is not there any more
      * PackagesUnreachable    a server with packages doesn't answer, or isn't trusted
      * DownloadMismatch       a package isn't the file that the lock names
    * DataUnreadable           the data set can't be read at all
    * ServerUnreachable        a stage needs the inference server, and it doesn't answer
    * NobodyAnswered           a dump finds nobody who is meant, and not everywhere could be asked
    * SamplingDenied           processes are there, and this user may read none of them
    * RunsNotWritable          results can't be kept where they should be
    * ReportNotWritable        a report for a bug can't be written where it should be
    * RayNotReachable          the cluster's dashboard can't be asked
    * NotJoined                a machine can't be a node of another's cluster
    * NoLogProbs               a server gives no log-probs, so nothing can be compared
    * ReferenceUnusable        the trainer's side of a comparison can't be computed
      * ReferenceTooBig        its model doesn't fit into memory
  * StackError                 the containers are not what they should be (exit code 1)
    * StackDown                a verb needs the stack, and it isn't up
    * ServiceFailed            a container crashed or never became healthy
    * ComposeFailed            docker compose itself gave up
    * CheckEnded               a check in `dev` was killed or stopped; agents can do that to it
  * LockUnreadable             docker/images.lock isn't what `make lock` writes
  * CatalogueUnreadable        docker/images.yaml isn't a catalogue of images
  * EngineUnreadable           a file of harness/engines doesn't describe an engine
  * ImageMoved                 a registry's tag leads to another image than the lock says
  * NoSuchRun                  a folder holds no run of a command, or its record can't be read
  * CommandNotStarted          the shell for a command could not be started
  * DebuggerError              a process can't be debugged as was asked
    * DebuggerGone             the process or its debugger has ended, or nobody listens
    * DebuggerBusy             another debugger is attached
    * DebuggerSilent           no answer within the time
    * DebuggerRefused          the debugger or the process says no
    * LaunchFileUnreadable     VS Code's launch.json isn't what it should be
    * NothingTraced            no process to trace, or none with that line
    * NothingPaused            no worker of that number is paused
  * Interrupted                Ctrl-C (exit code 130)

Rooms add their own classes here, under the branch whose exit code they share.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence


def without_descriptors(error: BaseException) -> str:
    """``[Errno 24] Too many open files`` where that is at the bottom of an error; "" where it isn't.

    HTTP libraries wrap it, and then say only that no connection could be made.
    """
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        if isinstance(inner, OSError) and inner.errno in (errno.EMFILE, errno.ENFILE):
            return f"[Errno {inner.errno}] {inner.strerror}"
        several = getattr(inner, "exceptions", None)  # a group: one for each address that was tried
        inner = several[0] if several else inner.__cause__ or inner.__context__
    return ""


def nearest(word: str, known: Sequence[str]) -> str:
    """The likeliest of the known words for a mistyped one; "" where none is near."""
    import difflib

    parts = [name for name in known if len(word) > 2 and word in name.split("-")]
    found = parts[:1] or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else ""


class DrydockError(Exception):
    """Something is wrong that a person can mend.

    Args:
        what: one sentence, what is wrong.
        consequence: one sentence, what follows from it.
        mend: the command to run, or what to change.
    """

    exit_code: int = 1
    consequence: str = ""
    mend: str = ""

    def __init__(self, what: str, *, consequence: str = "", mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        # An instance's words win over the class's; a class gives them where they are always the same.
        self.consequence = consequence or self.consequence
        self.mend = mend or self.mend

    def as_dict(self) -> dict[str, str]:
        """The same three sentences for ``--json``."""
        return {"error": type(self).__name__, "what": self.what, "consequence": self.consequence, "mend": self.mend}


class UsageError(DrydockError):
    """The call itself is wrong: an unknown stage, two options that exclude each other."""

    exit_code = 2


class BadSetting(UsageError):
    """A setting has a value that can't be used; names the setting and where the value came from."""

    consequence = "Nothing was started or changed."
    mend = "make settings   # shows every value and where it came from"


class UnknownModel(BadSetting):
    """``MODEL`` names nothing that exists: no such alias, folder, file, repository or revision."""


class UnusableModel(BadSetting):
    """``MODEL`` names something that isn't a whole model, or not in the format that the engine reads."""


class FloatingTag(BadSetting):
    """An image is named without a version: ``:latest``, or without any tag."""

    mend = "give it a version: NAME:TAG, or NAME@sha256:…; then make lock"


class GpuUnfit(BadSetting):
    """GPUs are asked for that aren't there, twice, too few for the model's parts, or that Docker can't hand on."""

    mend = "make doctor TOPIC=gpu   # what this machine has"


class RequirementsConflict(UsageError):
    """The user's project asks for a version that doesn't go with what the image keeps (Ray, debugpy, …)."""

    consequence = "The project can't be installed, so nothing was started."
    mend = "loosen that pin in your requirements, or give an image that has the version: make up FRAMEWORK=IMAGE"


class FrameworkRefused(UsageError):
    """``FRAMEWORK`` names an image that can't be a Ray node of ours: no Python or an old one, or an old Ray."""

    consequence = "Nothing was started."
    mend = "make up FRAMEWORK=ANOTHER_IMAGE   # or without FRAMEWORK="


class EnvironmentUnfit(DrydockError):
    """The machine lacks something; nothing is wrong with what was to be checked."""

    exit_code = 3


class DockerMissing(EnvironmentUnfit):
    """No Docker client, or no Compose or Buildx plugin."""

    consequence = "The stack can't be started."
    mend = "make docker   # installs what is missing, after asking"


class DockerUnreachable(EnvironmentUnfit):
    """The daemon doesn't answer, or this user may not talk to it."""

    consequence = "Nothing can be started, and what runs can't be seen."
    mend = "make docker   # starts the daemon, or says what to do"


class ToolTooOld(EnvironmentUnfit):
    """A program is there but too old for what is asked of it."""


class NoSpace(EnvironmentUnfit):
    """A disk is full, or would be after what was asked for."""

    mend = "make clean   # removes images, weights and build cache of ours; or free space by other means"


class PortTaken(EnvironmentUnfit):
    """A port that is to be published belongs to somebody else."""

    consequence = "The service could not be reached, so nothing was started."


class FolderClosed(EnvironmentUnfit):
    """The containers' user may not enter the workspace or the framework's checkout."""

    consequence = "Every process of the stack starts there: Ray would end at once. Nothing was started."


class LimitRefused(EnvironmentUnfit):
    """Docker isn't allowed to give a container a limit (``ulimit``) that it needs."""

    consequence = "The containers were made, and those with that limit didn't start."


class Busy(EnvironmentUnfit):
    """Another command of ours is changing the same thing right now."""

    consequence = "Two at once would undo each other's work, so this one did nothing."


class StackOccupied(EnvironmentUnfit):
    """Something of the user's runs in containers that would be made anew, and nobody has said that it may end."""


class LibraryMissing(EnvironmentUnfit):
    """A Python package is missing that only some verbs need."""


class WeightsMissing(EnvironmentUnfit):
    """A model's weights aren't on this machine, and ``HF_HUB_OFFLINE`` forbids asking the hub for them."""

    consequence = "There is nothing for the inference server to serve."


class WeightsUnreadable(EnvironmentUnfit):
    """Weights are here, but the user that the container runs as couldn't read them."""

    consequence = "The inference server runs as another user and could not open them."


class HubUnreachable(EnvironmentUnfit):
    """The model hub doesn't answer: no name, no connection, or silence."""

    consequence = "The model's weights aren't here and can't be downloaded."


class HubRefused(EnvironmentUnfit):
    """The model hub wants a licence accepted or another token first."""

    consequence = "The model's weights can't be downloaded."


class HubFaulty(EnvironmentUnfit):
    """The model hub, or what answers in its place, gives errors or no sense."""

    consequence = "The model's weights can't be downloaded."


class DownloadFailed(EnvironmentUnfit):
    """Weights didn't arrive whole; what has arrived is kept and the next attempt goes on from there."""

    consequence = "Nothing half-written will be served."


class ImageUnavailable(EnvironmentUnfit):
    """An image isn't on this machine and can't be pulled."""

    consequence = "Nothing was started."


class BaseUnavailable(EnvironmentUnfit):
    """Neither a registry answers nor can the base image be made on this machine."""

    consequence = "Without a base image no other can be built."


class BuildFailed(EnvironmentUnfit):
    """An image could not be built; carries the last lines of the build.

    Args:
        logs: those lines.
    """

    consequence = "Without this image the stack can't be started."

    def __init__(self, what: str, *, consequence: str = "", mend: str = "", logs: str = "") -> None:
        super().__init__(what, consequence=consequence, mend=mend)
        self.logs = logs


class EngineNetworkGone(BuildFailed):
    """The engine's own network isn't there any more: somebody, or another engine, has removed its bridge."""

    mend = "systemctl restart docker   # without systemd: end dockerd, then make docker; containers end with it"


class PackagesUnreachable(BuildFailed):
    """A server with packages doesn't answer, or its certificate isn't trusted."""


class DownloadMismatch(BuildFailed):
    """A package isn't the file that the lock names: a mirror rebuilt it, or something is wrong on the way."""

    mend = "look at the mirror that pip is told to use: python3 -m pip config list"


class AgentNotFound(UsageError):
    """AGENT names no file, module or class; names those that could be meant."""


class DataNotFound(UsageError):
    """DATA names no file; names those that could be meant."""


class BadConfig(UsageError):
    """``CONFIG`` names no file, no YAML, or a configuration with a value that can't be used."""

    consequence = "Nothing was checked."
    mend = "CONFIG=FILE.yaml   # the training configuration of AReaL or verl"


class NoServerNamed(UsageError):
    """A check has no server to talk to: neither the stack's nor one that was named."""

    consequence = "There is nothing to check."
    mend = "make check   # against the stack's server; or set OPENAI_BASE_URL and OPENAI_API_KEY, or --base-url"


class RecordingExists(UsageError):
    """RECORD names a folder that has something in it."""

    consequence = "Nothing was run or recorded: what is there would be mixed up with what comes."


class ReportExists(UsageError):
    """A report would be written over a file that is there."""

    consequence = "Nothing was written: what is there might be all that somebody has."
    mend = "make report OUT=another-name.tar.gz"


class RecordingUnusable(UsageError):
    """REPLAY names no recording, or one that can't be replayed."""

    consequence = "There is nothing to replay."
    mend = "make check RECORD=runs/recording   # records one; REPLAY=runs/recording replays it"


class SavedUnusable(UsageError):
    """FROM names no folder that `make save` wrote, or one that isn't whole, or one for another machine."""

    consequence = "Nothing was loaded or changed."
    mend = "make save OUT=FOLDER   # on the machine that has it; then copy the whole folder"


def _scripts(commands: Sequence[str]) -> list[str]:
    """What command lines of Python can be told by: the script, without its folders."""
    words = (word.rpartition("/")[2] for command in commands for word in command.split()[1:3])
    return list(dict.fromkeys(word for word in words if word.endswith(".py") and word.isascii() and " " not in word))


# So many processes are named where somebody has to choose one.
_CANDIDATES = 6


class NothingToSample(UsageError):
    """A dump of stacks finds nobody who is meant; names those that could be."""

    @classmethod
    def of(cls, asked: str, others: list[str], containers: Sequence[str] = ()) -> NothingToSample:
        """The error for what was asked for (``PIDS=7``; "" for everything that trains or serves)."""
        different = list(dict.fromkeys(other if len(other) <= 100 else f"{other[:99]}…" for other in others))
        shown = "\n  ".join(different[:_CANDIDATES])
        more = f"\n  and {len(different) - _CANDIDATES} more: ps -eo pid,args" if len(different) > _CANDIDATES else ""
        return cls(
            f"there is no process for {asked}" if asked else "nothing that looks like training or serving runs here",
            consequence=f"Python processes that are there:\n  {shown}{more}"
            if others
            else "There is nothing to sample.",
            mend="\n".join(
                [f"make hang-dump MATCH={script}   # with all that it has started" for script in _scripts(others)[:2]]
                + [f"make hang-dump CONTAINERS={name}   # Python runs in it" for name in containers[:2]]
            )
            or "ps -eo pid,args   # who is meant? then make hang-dump PIDS=NUMBER, or MATCH=NAME",
        )


class NobodyAnswered(EnvironmentUnfit):
    """A dump of stacks finds nobody who is meant where it could ask, and it could not ask everywhere."""

    mend = "make doctor   # says what keeps it from being asked, where that is this machine or the stack"

    @classmethod
    def of(cls, asked: str, unreachable: Mapping[str, str]) -> NobodyAnswered:
        """The error for what was asked for (as above), and for each place that can't be asked the reason."""
        found = f"there is no process for {asked}" if asked else "nothing that trains or serves was found"
        reasons = [f"{name} couldn't be asked: {reason}" for name, reason in unreachable.items()]
        paused = [name for name, reason in unreachable.items() if reason.startswith("it is paused")]
        # The doctor would find nothing wrong with what somebody has paused.
        mend = "\n".join(f"docker unpause {name}" for name in paused) if len(paused) == len(unreachable) else ""
        return cls(f"{found} where that could be asked", consequence="; ".join(reasons), mend=mend)


class AgentUnreadable(DrydockError):
    """The agent's file isn't Python that this interpreter can read; names the line."""


class DataUnreadable(EnvironmentUnfit):
    """The data set can't be read at all; a malformed line in it is a finding, not this."""


class ServerUnreachable(EnvironmentUnfit):
    """A stage needs the inference server, and it doesn't answer; stage 1 itself reports that as a finding."""

    mend = "make status   # is it up?\nmake check STAGE=1   # says what the server can and can't do"


class SamplingDenied(EnvironmentUnfit):
    """Processes are there, and this user may read none of them; the mend names setting and command."""


class RunsNotWritable(EnvironmentUnfit):
    """Results can't be kept where they should be."""

    consequence = "The report could not be written."


class ReportNotWritable(EnvironmentUnfit):
    """A report for a bug can't be written where it should be."""

    consequence = "No report was written."
    mend = "make report OUT=/tmp/drydock-report.tar.gz   # or another folder of yours"


class RayNotReachable(EnvironmentUnfit):
    """The cluster's dashboard can't be asked: nothing listens, another token, no Ray."""

    consequence = "Who is paused can't be known."
    mend = "make status   # is it up?\nRAY_API_SERVER_ADDRESS=http://HOST:8265   # another cluster's dashboard"


class NotJoined(EnvironmentUnfit):
    consequence = "This machine is no node of that cluster; nothing was left running here."
    mend = "make ports   # what a firewall has to let through"


class NoLogProbs(EnvironmentUnfit):
    """A server gives no log-probs of what it samples, in no dialect that is known."""

    mend = "make up ENGINE=vllm   # gives all that a comparison needs; or OPENAI_BASE_URL= of another server"


class ReferenceUnusable(EnvironmentUnfit):
    """The trainer's side of a comparison can't be computed: no weights, no chat template, no interpreter."""

    consequence = "The engine can't be compared with the trainer's model."
    mend = "REFERENCE=FOLDER   # weights, configuration, tokenizer; COMPARE_PYTHON=PYTHON with torch and transformers"


class ReferenceTooBig(ReferenceUnusable):
    """The reference's weights don't fit into memory, or its process was killed for it."""


class RewardUnusable(EnvironmentUnfit):
    """A reward function can't be imported where the reference computes."""

    consequence = "Nothing was judged by it."
    mend = "REWARD=file.py:function   # or without it: log-probs alone are compared"


class StackError(DrydockError):
    """The containers are not what they should be."""


class StackDown(StackError):
    """A verb needs the stack, and it isn't up."""

    mend = "make up"


class ServiceFailed(StackError):
    """A container crashed or never became healthy; carries its state and its last log lines.

    Args:
        logs: the container's last lines, shown unasked below the message.
    """

    def __init__(self, what: str, *, consequence: str = "", mend: str = "", logs: str = "") -> None:
        super().__init__(what, consequence=consequence, mend=mend)
        self.logs = logs


class ComposeFailed(StackError):
    """docker compose itself gave up; carries what it printed last.

    Args:
        logs: the last lines of its output.
    """

    consequence = "The containers are as it left them."
    mend = "make down up   # makes them anew; make doctor looks for the cause"

    def __init__(self, what: str, *, consequence: str = "", mend: str = "", logs: str = "") -> None:
        super().__init__(what, consequence=consequence, mend=mend)
        self.logs = logs


class CheckEnded(StackError):
    """A check in ``dev`` was killed, or stopped and then ended by us."""

    consequence = (
        "It leaves no report. An agent can do that to what watches it, since both run as one user in `dev`; "
        "and so does the kernel where memory runs out."
    )
    mend = "make up   # heals `dev`, if more of it was hit\nmake status   # says what dev may take (MEMORY_LIMIT=)"


class LockUnreadable(DrydockError):
    """The lock of images was changed by hand into something that can't be read."""

    consequence = "No image can be pulled or checked."
    mend = "git checkout docker/images.lock   # or correct that entry; make lock writes it"


class CatalogueUnreadable(DrydockError):
    """The catalogue of images was changed by hand into something that can't be read."""

    consequence = "Nobody knows which images there are, so nothing was started."
    mend = "git diff docker/images.yaml   # what was changed; git checkout docker/images.yaml takes it back"


class EngineUnreadable(DrydockError):
    """A file of harness/engines doesn't describe an inference engine; the text says which file, and why."""

    consequence = "No engine can be started by it."
    mend = "git diff harness/engines   # what was changed; git checkout harness/engines takes it back"


class ImageMoved(DrydockError):
    """A tag leads to another image than the lock says, and nobody has confirmed the lock's."""

    consequence = "Nothing was pulled."
    mend = "make lock UPDATE=1   # if you want what the registry has now"


class NoSuchRun(DrydockError):
    """A folder holds no run of a command, or its record can't be read."""

    mend = "ls runs/   # runs of commands end in -run"


class CommandNotStarted(DrydockError):
    """The shell for a command could not be started; a command that the shell doesn't find is the command's own 127."""

    consequence = "Nothing ran."


class DebuggerError(DrydockError):
    """A process can't be debugged as was asked."""


class DebuggerGone(DebuggerError):
    """The process has ended, or its debugger has, or nobody listens at its port."""

    mend = "make breakpoints   # who is paused now"


class DebuggerBusy(DebuggerError):
    """debugpy lets one debugger in at a time, and there is one."""

    consequence = "A second debugger would have to wait until the first has left."
    mend = "disconnect the other one (VS Code: the plug in the debug bar; terminal: quit)"


class DebuggerSilent(DebuggerError):
    """No answer within the time."""


class DebuggerRefused(DebuggerError):
    """The debugger or the process itself says no; the message is theirs."""


class LaunchFileUnreadable(DebuggerError):
    """VS Code's launch.json can't be read or written; it is left as it is."""

    consequence = "It was left as it is, so VS Code has no entry for this worker."
    mend = "mend or remove that file; or debug in the terminal, with TUI=1 behind the same command"


class NothingTraced(DebuggerError):
    """There is no process to trace, or none of them has code at that line."""


class NothingPaused(DebuggerError):
    """No worker is paused, or none that goes by that number."""

    mend = "make breakpoints   # who is paused now"


class Interrupted(DrydockError):
    """Ctrl-C; what was half-made has been taken back by the time this is shown."""

    exit_code = 130
