#!/usr/bin/env python3
"""Makes a small Debian root of this machine's own packages, for installing others into.

Promises  only the essential packages, those that are named, and what they depend on; dpkg in the root knows just these
          the network is not asked, and nothing of this machine's accounts or services gets into the root
Assumes   root; Debian with dpkg; packages whose files are as they were installed
Not here  what maintainer scripts of these packages do, but for accounts, PAM and the C library's cache
Usage     base-root.py ROOT PACKAGE...      ROOT is made, or must be empty
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

INFO = Path("/var/lib/dpkg/info")
# Nobody reads them in there, and they are most of the files.
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
# What the packages' scripts would have made of their own files.
COPIES = {
    "etc/passwd": "usr/share/base-passwd/passwd.master",
    "etc/group": "usr/share/base-passwd/group.master",
    "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
}


def stop(why):
    sys.exit(f"base-root: {why}")


def installed():
    """Stanzas of what is installed here, by name, in dpkg's order."""
    stanzas = {}
    for text in Path("/var/lib/dpkg/status").read_text().strip().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", text, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            stanzas.setdefault(fields["Package"], (fields, text))
    return stanzas


def names(field):
    """Names in a relation, each with its alternatives: "a (>= 1) | b, c" is [["a", "b"], ["c"]]."""
    return [[re.split(r"[ :(]", one.strip())[0] for one in group.split("|")] for group in field.split(",") if group.strip()]


def closure(stanzas, wanted):
    """What `wanted` and the essential packages come to. Of alternatives that are installed the first."""
    provided = {}
    for name, (fields, _) in stanzas.items():
        for group in names(fields.get("Provides", "")):
            provided.setdefault(group[0], name)
    todo = [name for name, (fields, _) in stanzas.items() if fields.get("Essential") == "yes"] + wanted
    chosen = set()
    while todo:
        name = todo.pop()
        if name in chosen:
            continue
        if name not in stanzas:
            stop(f"{name} is not installed on this machine: apt-get install {name}")
        chosen.add(name)
        fields = stanzas[name][0]
        for group in names(fields.get("Pre-Depends", "")) + names(fields.get("Depends", "")):
            here = [one if one in stanzas else provided.get(one) for one in group]
            todo += [one for one in here if one][:1]
    return chosen


def copy(root, path):
    """One path of a package's list, with owner and mode. What an administrator has removed stays away."""
    source, target = Path(path), root / path.lstrip("/")
    if not os.path.lexists(source) or os.path.lexists(target):
        return
    facts = source.lstat()
    if stat.S_ISDIR(facts.st_mode):
        target.mkdir(parents=True, exist_ok=True)
    elif stat.S_ISLNK(facts.st_mode):
        target.symlink_to(os.readlink(source))
        return
    else:
        shutil.copyfile(source, target)
    os.chown(target, facts.st_uid, facts.st_gid)
    target.chmod(stat.S_IMODE(facts.st_mode))


def database(root, stanzas, chosen):
    """What dpkg knows: these packages, as installed."""
    dpkg = root / "var/lib/dpkg"
    for folder in ("info", "updates", "triggers"):
        (dpkg / folder).mkdir(parents=True, exist_ok=True)
    (dpkg / "status").write_text("".join(f"{text}\n\n" for name, (_, text) in stanzas.items() if name in chosen))
    for file in INFO.iterdir():
        if file.name == "format" or re.split(r"[:.](?=[a-z0-9-]+(?:\.|$))", file.name)[0] in chosen:
            shutil.copy2(file, dpkg / "info" / file.name)


def main():
    if len(sys.argv) < 3:
        stop("say a folder and packages: base-root.py ROOT PACKAGE...")
    if os.geteuid() != 0:
        stop("files of other owners are made: run this as root")
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        stop(f"{root} is not empty")
    # /bin and its like are links that no package has.
    for name in os.listdir("/"):
        if os.path.islink(f"/{name}") and os.readlink(f"/{name}").startswith("usr/"):
            (root / os.readlink(f"/{name}")).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(os.readlink(f"/{name}"))
    stanzas = installed()
    chosen = closure(stanzas, sys.argv[2:])
    for name in sorted(chosen):
        lists = [file for file in (INFO / f"{name}.list", INFO / f"{name}:{stanzas[name][0]['Architecture']}.list") if file.exists()]
        for path in lists[0].read_text().splitlines() if lists else []:
            if path != "/." and not path.startswith(LEFT_OUT):
                copy(root, path)
    database(root, stanzas, chosen)
    for target, source in COPIES.items():
        shutil.copyfile(root / source, root / target)
    environment = {"PATH": "/usr/sbin:/usr/bin", "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["pwconv"], ["grpconv"], ["ldconfig"], ["pam-auth-update", "--package", "--force"]):
        subprocess.run(["chroot", str(root), *command], check=True, env=environment)
    print(f"base-root: {root}: {len(chosen)} packages of this machine")


main()
