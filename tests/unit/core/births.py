"""Runs a program, stops its descendants at a moment of their birth that is otherwise over in microseconds, and sends it a signal.

    python births.py child COUNT PROGRAM...     processes that the program's children start are held before they run at all
    python births.py parent COUNT PROGRAM...    they are held when they have started a process and do not know its number yet

SIGTERM goes to the program when COUNT of them are held (child), or when as many processes that *their* children started
are there (parent). What is held is let go when the program has ended and SIGTERM waits for all of them. So an order of events that takes
a busy machine and bad luck comes about each time. Exit code: the program's; 77 where the kernel lets nobody trace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

TRACEME, CONT, DETACH, SETOPTIONS, GETEVENTMSG = 0, 7, 17, 0x4200, 0x4201
FORK, VFORK, CLONE, EXEC = 1, 2, 3, 4  # events, and the numbers of their bits among the options
ANY_CHILD = 0x40000000  # __WALL
UNTRACEABLE = 77

_libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request: int, pid: int, data: int | ctypes.c_void_p = 0) -> int:
    return int(_libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, data))


class Family:
    """The program, at depth 0, and what it starts."""

    def __init__(self, program: int, mode: str, count: int) -> None:
        self.program, self.mode, self.count = program, mode, count
        self.depth = {program: 0}
        self.early: set[int] = set()  # stopped at birth before their parent's fork was reported
        self.begun = {program}
        self.held: set[int] = set()
        self.reached = 0

    def forked(self, parent: int) -> None:
        number = ctypes.c_ulong()
        ptrace(GETEVENTMSG, parent, ctypes.cast(ctypes.byref(number), ctypes.c_void_p))
        child, depth = number.value, self.depth[parent] + 1
        self.depth[child] = depth
        if self.mode == "child" and depth == 2:
            self.held.add(child)
        if self.mode == "parent" and depth == 3:
            self.held.add(parent)
        else:
            ptrace(CONT, parent)
        if child in self.early:
            self.born(child)
        self.reached += depth == (2 if self.mode == "child" else 4)
        if self.reached == self.count:
            self.reached = -1
            self.let_it_wait()
            os.kill(self.program, signal.SIGTERM)

    def let_it_wait(self) -> None:
        """Until the program sleeps in its read: a shell that gets a signal just before takes no notice until that ends."""
        while Path(f"/proc/{self.program}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)

    def born(self, child: int) -> None:
        self.begun.add(child)
        if child not in self.held:
            ptrace(CONT, child)

    def signalled(self) -> bool:
        """Whether the program has ended, and the signal is on its way to everything that is held."""
        return self.program not in self.depth and all(map(_pending, self.held))

    def let_go(self) -> None:
        for pid in self.held:
            if self.mode == "child" and pid not in self.begun | self.early:
                os.waitpid(pid, ANY_CHILD)  # else it would take the stop at its birth for a stop that somebody asked for
            ptrace(DETACH, pid)

    def follow(self) -> int:
        code = -1
        while not self.signalled():
            pid, status = os.waitpid(-1, ANY_CHILD | os.WNOHANG)
            if pid == 0:
                time.sleep(0.001)
            elif os.WIFEXITED(status) or os.WIFSIGNALED(status):
                self.depth.pop(pid, None)
                code = os.waitstatus_to_exitcode(status) if pid == self.program else code
            elif status >> 16 in (FORK, VFORK, CLONE):
                self.forked(pid)
            elif pid not in self.depth:
                self.early.add(pid)
            elif pid not in self.begun:
                self.born(pid)
            else:
                ptrace(CONT, pid, 0 if status >> 16 == EXEC else os.WSTOPSIG(status))
        self.let_go()
        return code


def _pending(pid: int) -> bool:
    masks = [int(line.split()[1], 16) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Pnd:" in line]
    return any(mask >> signal.SIGTERM - 1 & 1 for mask in masks)


def main() -> int:
    mode, count, argv = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    program = os.fork()
    if program == 0:
        if ptrace(TRACEME, 0) != 0:
            os._exit(UNTRACEABLE)
        os.execvp(argv[0], argv)
    _, status = os.waitpid(program, 0)
    if not os.WIFSTOPPED(status):
        return UNTRACEABLE
    ptrace(SETOPTIONS, program, 1 << FORK | 1 << VFORK | 1 << CLONE | 1 << EXEC)
    ptrace(CONT, program)
    return Family(program, mode, count).follow()


if __name__ == "__main__":
    sys.exit(main())
