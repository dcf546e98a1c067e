"""Objects are told of forks in the child, as long as they live."""

import subprocess
import sys

PROGRAM = """
import gc, os
from aotpack.runtime.devices.fork import register_after_fork

class One:
    def __init__(self, name):
        self.name = name
    def after_fork(self):
        print(self.name, "in the child" if os.getpid() != parent else "in the parent", flush=True)

parent = os.getpid()
kept, dropped = One("kept"), One("dropped")
for one in (kept, dropped):
    register_after_fork(one)
del dropped, one
gc.collect()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""


def told() -> list[str]:
    """What a process that forks once prints."""
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout.splitlines()


def test_the_child_alone_is_told_of_what_lives() -> None:
    assert told() == ["kept in the child"]
