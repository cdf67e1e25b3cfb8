"""Becomes a server or a helper: a session of its own, another user if asked, then exec.

Run as a file by a bare interpreter, `python -I -S launch.py KIND IDENTITY FOLDER PROGRAM ARGUMENT...`, so that it
starts fast and has one thread, which entering a user namespace needs. KIND is `daemon`, which outlives its parent, or
`helper`, which does not (on Linux). IDENTITY is `same`, `namespace`, or `UID:GID`. The process keeps its pid through
the exec, so its parent knows it at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_INNER_ID = 1000


def _enter_namespace() -> None:
    """Root outside, user 1000 inside: a server that refuses root runs, and the files stay root's."""
    outer_user, outer_group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare(CLONE_NEWUSER): {os.strerror(number)}")
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"{_INNER_ID} {outer_user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"{_INNER_ID} {outer_group} 1", "ascii")


def _become(identity: str) -> None:
    if identity == "namespace":
        _enter_namespace()
    elif identity != "same":
        user, group = map(int, identity.split(":"))
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(kind: str, identity: str, folder: str, *command: str) -> None:
    """Does not return; a failure is one line on standard error and exit status 126."""
    # what the caller ignores, blocks or has open (librdkafka's sockets, for one) is not the server's business
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o077)
    try:
        os.setsid()
        _become(identity)
        if kind == "helper":  # after the change of user, which would undo it
            _die_with_parent()
        os.chdir(folder)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"can't start {command[0]} as {identity} in {folder}: {error}\n")
        sys.exit(126)


if __name__ == "__main__":
    main(*sys.argv[1:])
