"""Runs programs: each has a limit of time, and none is left behind."""

import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import time

GRACE_S = 5  # what a launcher has to end its ranks

# mpirun refuses to run as root, and with fewer cores than ranks, unless told. Open MPI 4 and 5 listen to other names.
LAUNCHER_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


class ProgramError(Exception):
    """A program failed, or said what nobody understands: its text is in the message."""


class ProgramHung(ProgramError):
    """A program did not end in time."""


def told(command, text):
    """The message for a program and what it printed."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    shown = "\n".join("    " + line for line in lines[-12:]) or "    (it printed nothing)"
    return f"{shlex.join(map(str, command))}\n{shown}"


def children():
    """{pid: [pids of its children]} of all processes."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            found.setdefault(parent, []).append(int(folder.name))
    return found


def descendants(pid):
    tree, found, waiting = children(), [], [pid]
    while waiting:
        for child in tree.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def started_at(pid):
    """Tells a process from a later one with the same id."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def end(process):
    """Ends a program and everything that it has started. A launcher ends its ranks when it is asked to end itself; what
    is left after that, in whatever process group, is killed."""
    family = {pid: started_at(pid) for pid in descendants(process.pid)}
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    if process.poll() is None:
        process.kill()
    for pid, start in family.items():
        if start is not None and started_at(pid) == start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def run_together(commands, timeout_s):
    """Runs programs at the same time, all of which must end well within timeout_s. Returns what the first printed."""
    environment = {**os.environ, **LAUNCHER_ENVIRONMENT}
    running = []
    deadline = time.monotonic() + timeout_s
    try:
        for command in commands:
            running.append(subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, errors="replace",
                                            env=environment, start_new_session=True))
        texts = []
        for command, process in zip(commands, running):
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                end(process)
                output, errors = process.communicate()
                raise ProgramHung(f"did not end in {timeout_s:g} s and was killed: "
                                  + told(command, output + "\n" + errors)) from None
            texts.append(output)
            if process.returncode != 0:
                raise ProgramError(f"failed with {process.returncode}: " + told(command, output + "\n" + errors))
        return texts[0]
    except FileNotFoundError as error:
        raise ProgramError(f"cannot be started: {error}") from None
    finally:
        for process in running:
            if process.poll() is None:
                end(process)
                process.communicate()


def run(command, timeout_s):
    return run_together([command], timeout_s)
