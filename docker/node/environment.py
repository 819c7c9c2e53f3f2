"""Makes an image's Python fit for a Ray node of ours, and writes down which versions later layers have to keep.

    environment.py base         everything is installed already, from the lock
    environment.py check        only says whether the image's own Python and Ray will do
    environment.py framework    the image has its own Python: it stays as it is, only what is missing is added

What is there stays at its version, above all Ray. /opt/venv leads to that Python, so that paths agree in all images.
Runs on the image's own Python, which may be too old: hence the plain syntax. A line with DRYDOCK-REFUSED is what the
user is shown.
"""

import os
import platform
import re
import subprocess
import sys
import sysconfig

OLDEST_PYTHON = (3, 10)
# What wheels of Ray and of the debugging tools are built for nowadays: manylinux_2_28, that is Debian 10 and RHEL 8.
OLDEST_GLIBC = (2, 28)
# The first that can ask for a token: without one, whoever reaches the dashboard can run code.
OLDEST_RAY = (2, 52)
# Later layers keep exactly these; of the rest they keep what is at least as new as the harness needs.
KEPT = ("ray", "debugpy", "py-spy")
KEEP_FILE = "/opt/drydock/keep.txt"
HERE = os.path.dirname(os.path.abspath(__file__))
LOCK = "/locks/dev.txt"


def main():
    if sys.argv[1] == "check":
        refuse_if_unfit()
        return
    wanted = read_wanted(os.path.join(HERE, "wanted.txt"))
    if sys.argv[1] == "framework":
        add_missing(wanted)
        lead_to_python()
    write_keep(wanted)


def refuse(why):
    print("DRYDOCK-REFUSED: " + why, flush=True)
    sys.exit(1)


def refuse_if_unfit():
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        refuse(f"FRAMEWORK's image has Python {found}; 3.10 is the oldest that Drydock and current Ray run on.")
    library, version = platform.libc_ver()
    if library != "glibc":
        refuse("FRAMEWORK's image has another C library than glibc (Alpine?); Ray's wheels need glibc.")
    if numbers(version)[:2] < OLDEST_GLIBC:
        refuse(f"FRAMEWORK's image has glibc {version}; 2.28 is the oldest that wheels are built for.")
    if subprocess.call(
        [sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ):
        refuse(f"FRAMEWORK's image has Python {found} without pip, so nothing can be added to it.")
    ray = version_of("ray")
    if ray and numbers(ray)[:2] < OLDEST_RAY:
        refuse(
            f"FRAMEWORK's image has Ray {ray}; before 2.52 Ray has no token authentication, "
            "and whoever reaches its dashboard could run code on this machine."
        )


def add_missing(wanted):
    """Install what is missing or too old, with everything else held at the version that is there."""
    from importlib import metadata

    ray = version_of("ray")
    if ray:
        wanted = dict(wanted, ray=("ray[default]", "==" + ray))
    locked = {} if sys.version_info < (3, 11) else read_lock(LOCK)
    missing = []
    for name, (requirement, bound) in sorted(wanted.items()):
        present = version_of(name)
        if present and name != "ray" and numbers(present) >= numbers(bound):
            continue
        if present and name != "ray":
            print(f"the image's {name} {present} is older than the harness needs ({bound}): it is replaced")
        missing.append((name, requirement, bound))
    replaced = {name for name, _, _ in missing if name != "ray"}
    frozen = {}
    for distribution in metadata.distributions():
        name = plain(distribution.metadata["Name"] or "")
        if name and name not in replaced:
            frozen[name] = distribution.version
    pins = {name: version for name, version in locked.items() if name not in frozen}
    exact = [requirement + ("==" + locked[name] if name in pins else bound) for name, requirement, bound in missing]
    loose = [requirement + bound for _, requirement, bound in missing]
    # The lock's versions first, for they are tried together. The image's own packages may not go with them.
    if install(exact, dict(frozen, **pins)) != 0:
        print("the lock's versions don't go with what the image has; others are looked for", flush=True)
        if install(loose, frozen) != 0:
            sys.exit(1)


def install(requirements, constraints):
    path = "/dev/shm/constraints.txt"
    with open(path, "w") as file:
        # A distribution's own packages may have versions that pip can't read.
        readable = {name: version for name, version in constraints.items() if re.match(r"[\w.!+-]+$", version)}
        file.writelines(f"{name}=={readable[name]}\n" for name in sorted(readable))
    command = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--progress-bar", "off", "--constraint", path]
    command += ["--disable-pip-version-check", "--find-links", "/wheels"]
    help_text = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--help"], stdout=subprocess.PIPE
    ).stdout.decode()
    for option in ("--break-system-packages", "--root-user-action=ignore"):
        if option.split("=")[0] in help_text:
            command.append(option)
    environment = dict(os.environ)
    for name, secret in (("PIP_CONFIG_FILE", "pip_conf"), ("NETRC", "netrc")):
        if os.path.exists("/run/secrets/" + secret):
            environment[name] = "/run/secrets/" + secret
    return subprocess.call(command + requirements, env=environment)


def lead_to_python():
    """Make /opt/venv lead to this Python. A virtual environment works under another name; a system's Python doesn't."""
    if os.path.lexists("/opt/venv"):
        return
    os.makedirs("/opt", exist_ok=True)
    if sys.prefix not in ("/usr", "/usr/local") and os.path.exists(os.path.join(sys.prefix, "bin", "python")):
        os.symlink(sys.prefix, "/opt/venv")
        return
    os.makedirs("/opt/venv/bin")
    for name in ("python", "python3"):
        os.symlink(sys.executable, "/opt/venv/bin/" + name)
    # Programs that pip installs later find themselves here too.
    scripts = sysconfig.get_path("scripts")
    for name in ("pip", "ray", "py-spy", "ipython"):
        if os.path.exists(os.path.join(scripts, name)):
            os.symlink(os.path.join(scripts, name), "/opt/venv/bin/" + name)


def write_keep(wanted):
    """What the user's project must not change; docker/user/install hands it to pip as constraints."""
    os.makedirs(os.path.dirname(KEEP_FILE), exist_ok=True)
    with open(KEEP_FILE, "w") as file:
        for name, (_, bound) in sorted(wanted.items()):
            exact = f"=={version_of(name)}" if name in KEPT else bound
            if exact:
                file.write(name + exact + "\n")


def read_wanted(path):
    """Name to (requirement without version, bound)."""
    found = {}
    for line in lines_of(path):
        match = re.match(r"([A-Za-z0-9._-]+)(\[[^]]*\])?\s*(>=.*)?$", line.split("#")[0].strip())
        if match:
            found[plain(match.group(1))] = (match.group(1) + (match.group(2) or ""), match.group(3) or "")
    return found


def read_lock(path):
    """Name to version; lines for other Pythons and systems are left out by their rarity: the first one counts."""
    found = {}
    for line in lines_of(path):
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", line)
        if match:
            found.setdefault(plain(match.group(1)), match.group(2))
    return found


def lines_of(path):
    with open(path) as file:
        return file.readlines()


def version_of(name):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
