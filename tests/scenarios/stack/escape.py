# mypy: ignore-errors
"""Tries to get out of a container, or to more rights in it; prints what came of each attempt, as one JSON object.

Run in the container that is attacked, by whatever Python it has; standard library only. An attempt reports
what it got, None where it was refused. Nothing is harmed where one succeeds: what is opened for
writing is not written to.
"""

import ctypes
import errno
import json
import os
import socket
import stat
import struct
import subprocess

LIBC = ctypes.CDLL(None, use_errno=True)
# Numbers of system calls: x86_64, aarch64.
CALLS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "mknodat": (259, 33),
    "unshare": (272, 97), "setns": (308, 268), "init_module": (175, 105), "finit_module": (313, 273),
    "kexec_load": (246, 104), "bpf": (321, 280), "perf_event_open": (298, 241), "swapon": (167, 224),
    "settimeofday": (164, 170), "sethostname": (170, 161), "open_by_handle_at": (304, 265), "keyctl": (250, 219),
    "add_key": (248, 217), "userfaultfd": (323, 282), "ptrace": (101, 117), "setuid": (105, 146), "setgid": (106, 144),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, 0),
    "process_vm_readv": (310, 270), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429),
}  # fmt: skip
ARM = os.uname().machine == "aarch64"


def call(name, *arguments):
    """Make a system call; what it returned, or OSError."""
    ctypes.set_errno(0)
    packed = [
        ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a for a in arguments
    ]
    result = LIBC.syscall(ctypes.c_long(CALLS[name][ARM]), *packed)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"{name} returned {result}"


def works(function):
    """Whether it raises nothing."""
    try:
        function()
    except OSError:
        return False
    return True


ATTEMPTS = {}


def attempt(name):
    def keep(function):
        ATTEMPTS[name] = function
        return function

    return keep


@attempt("a socket of a container engine")
def engine_socket():
    found = []
    for place in ("/run", "/var/run", "/tmp", "/var/lib", "/mnt", "/host"):
        for folder, folders, names in os.walk(place):
            folders[:] = [one for one in folders if one != "secrets"]
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if stat.S_ISSOCK(os.stat(path).st_mode) and any(
                        w in path for w in ("docker", "containerd", "podman", "crio")
                    ):
                        found.append(path)
                except OSError:
                    pass
    return found


@attempt("an abstract socket of the machine")
def abstract():
    with open("/proc/net/unix") as file:
        return [line.split()[-1] for line in file if "@" in line and ("containerd" in line or "docker" in line)]


@attempt("the engine's port on the machine")
def engine_port():
    gateway = None
    with open("/proc/net/route") as file:
        for line in file:
            fields = line.split()
            if fields[1] == "00000000":
                gateway = socket.inet_ntoa(struct.pack("<I", int(fields[2], 16)))
    found = []
    for port in (2375, 2376, 2377, 4243, 10250) if gateway else ():
        with socket.socket() as one:
            one.settimeout(2)
            if one.connect_ex((gateway, port)) == 0:
                found.append(f"{gateway}:{port}")
    return found


@attempt("mount a file system")
def mount():
    return call("mount", b"none", b"/mnt", b"tmpfs", 0, 0)


@attempt("mount by the newer calls")
def mount_new():
    return call("fsopen", b"tmpfs", 0)


@attempt("take a mount along")
def take_mount():
    return call("open_tree", -100, b"/", 1)


@attempt("make a read-only mount writable")
def remount():
    return [
        where
        for where in ("/", "/proc/sys", "/sys", "/run/secrets/api_key", "/models")
        if works(lambda where=where: call("mount", b"none", where.encode(), b"", 32, 0))
    ]


@attempt("unmount what hides the machine")
def unmount():
    return call("umount2", b"/proc/kcore", 2)


@attempt("change the root")
def pivot():
    return call("chroot", b"/tmp")


@attempt("a user namespace of one's own")
def user_namespace():
    return call("unshare", 0x10000000)


@attempt("other namespaces of one's own")
def namespaces():
    flags = (("mnt", 0x20000), ("net", 0x40000000), ("pid", 0x20000000), ("cgroup", 0x2000000))
    return [kind for kind, flag in flags if works(lambda flag=flag: call("unshare", flag))]


@attempt("a namespace of another process")
def enter():
    found = []
    for kind in ("mnt", "pid", "net", "user"):
        try:
            descriptor = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
            call("setns", descriptor, 0)
            found.append(kind)
        except OSError:
            pass
    return found


@attempt("make a device")
def device():
    return [
        name
        for name, major, minor in (("sda", 8, 0), ("vda", 254, 0), ("mem", 1, 1))
        if works(
            lambda name=name, major=major, minor=minor: call(
                "mknodat", -100, f"/tmp/{name}".encode(), stat.S_IFBLK | 0o600, os.makedev(major, minor)
            )
        )
    ]


@attempt("open a device of the machine")
def open_device():
    usual = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
    found = []
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            try:
                kind = os.lstat(path).st_mode
                if stat.S_ISBLK(kind) or (
                    stat.S_ISCHR(kind)
                    and name not in usual
                    and not path.startswith("/dev/pts/")
                    and not name.startswith("nvidia")
                ):
                    found.append(path)
            except OSError:
                pass
    return found


WRITABLE = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/panic_on_oom",
    "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/bus/pci",
    "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/yama/ptrace_scope", "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/rdma/release_agent",
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/devices/devices.allow",
    "/sys/power/state", "/sys/module/kernel/parameters/panic", "/etc/passwd", "/etc/shadow",
    "/etc/ld.so.preload", "/usr/bin/env", "/opt/venv/bin/python", "/opt/drydock/with-env", "/opt/drydock/sampler.py",
    "/opt/gateway/bin/python", "/opt/engine/bin/python",
)  # fmt: skip


@attempt("write what the kernel or another user runs")
def write():
    found = []
    for path in WRITABLE:
        if os.path.isfile(path) and works(lambda path=path: os.close(os.open(path, os.O_WRONLY))):
            found.append(path)
    return found


@attempt("read the machine's memory or log")
def kernel_memory():
    found = []
    for path in (
        "/proc/kcore",
        "/dev/mem",
        "/dev/kmem",
        "/proc/kmsg",
        "/dev/kmsg",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/sched_debug",
    ):
        try:
            with open(path, "rb") as file:
                if file.read(64):
                    found.append(path)
        except OSError:
            pass
    if works(lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64)):
        found.append("the kernel's log")
    return found


@attempt("load code into the kernel")
def module():
    return [
        name
        for name, arguments in (
            ("init_module", (b"x", 1, b"")),
            ("finit_module", (0, b"", 0)),
            ("kexec_load", (0, 0, 0, 0)),
        )
        if got_in(name, *arguments)
    ]


def got_in(name, *arguments):
    """Whether a call was refused for its arguments at most, and not for a lack of rights."""
    try:
        call(name, *arguments)
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS)
    return True


@attempt("calls that need a privilege")
def privileged():
    return [
        name
        for name, arguments in (
            ("bpf", (0, 0, 0)), ("perf_event_open", (0, 0, -1, -1, 0)), ("swapon", (b"/tmp/x", 0)),
            ("sethostname", (b"x", 1)), ("acct", (b"/tmp/x",)),
            ("keyctl", (0, -4, 0)), ("add_key", (b"user", b"x", b"y", 1, -4)),
            ("userfaultfd", (0,)), ("open_by_handle_at", (-100, 0, 0)),
            ("pivot_root", (b"/tmp", b"/tmp")), ("settimeofday", (0, 0)),
        )
        if got_in(name, *arguments)
    ]  # fmt: skip


@attempt("become root")
def root():
    return [name for name in ("setuid", "setgid") if works(lambda name=name: call(name, 0))]


@attempt("a program that runs as root for everybody")
def setuid_programs():
    found = []
    for program in ("su", "sudo", "mount", "passwd", "chsh", "newgrp", "pkexec", "newuidmap"):
        for folder in [*os.environ["PATH"].split(":"), "/usr/bin", "/bin", "/usr/sbin"]:
            path = os.path.join(folder, program)
            if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
                # Any command of it will do: what counts is as whom it runs.
                said = subprocess.run([path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, check=False)
                shown = subprocess.run(
                    ["/bin/sh", "-c", f"{path} -c id 2>/dev/null </dev/null"], capture_output=True, check=False
                )
                if b"uid=0" in shown.stdout + said.stdout:
                    found.append(path)
                break
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" not in file.read():
            found.append("no-new-privileges is off")
    return found


@attempt("rights of the process, and groups")
def rights():
    found = []
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") and int(value, 16):
                found.append(f"{name} {value.strip()}")
            if name == "Seccomp" and value.strip() != "2":
                found.append("no seccomp filter")
    if os.getuid() == 0:
        found.append("root")
    groups = set(os.getgroups()) - {os.getgid()}
    return found + [f"group {one}" for one in groups]


@attempt("forge packets")
def raw():
    found = []
    for name, arguments in (
        ("packet", (socket.AF_PACKET, socket.SOCK_RAW, 0)),
        ("raw", (socket.AF_INET, socket.SOCK_RAW, 1)),
    ):
        try:
            socket.socket(*arguments).close()
            found.append(name)
        except OSError:
            pass
    return found


@attempt("see processes that aren't the container's")
def processes():
    """PID 1 is the container's own init; the machine's would be systemd or another."""
    found = []
    with open("/proc/1/comm") as file:
        if (first := file.read().strip()) not in ("docker-init", "tini"):
            found.append(f"PID 1 is {first}")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                if (name := file.read().strip()) in ("dockerd", "containerd", "systemd", "kthreadd", "sshd"):
                    found.append(name)
        except OSError:
            pass
    return found


@attempt("see the machine's files")
def mounts():
    """Folders of the machine that aren't meant to be here."""
    meant = (
        "/workspace",
        "/runs",
        "/models",
        "/run/secrets/",
        "/run/drydock-",
        "/etc/resolv.conf",
        "/etc/hostname",
        "/etc/hosts",
        "/framework/",
        "/cache",
        "/usr/sbin/docker-init",
        "/sbin/docker-init",
    )
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            where, kind = left.split()[4], right.split()[0]
            inside = kind in ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "tmpfs", "overlay")
            if not inside and not where.startswith(meant):
                found.append(where)
    return found


def alone(function):
    """Make an attempt in a process of its own, which it may change for good; what it got, None for nothing."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        try:
            got = function() or None
        except OSError:
            got = None
        os.write(write, json.dumps(got).encode())
        os._exit(0)
    os.close(write)
    said = b""
    while more := os.read(read, 65536):
        said += more
    os.close(read)
    os.waitpid(child, 0)
    # One that died of it got nothing that we know of, and is to be looked at.
    return json.loads(said) if said else "the attempt died"


print(json.dumps({name: alone(function) for name, function in ATTEMPTS.items()}))
