"""The builds of a process take turns: each changes functions and settings of torch for a while.

A build that ended within another one would put back what that one has changed, or leave it.
"""

import threading

ONE_AT_A_TIME = threading.RLock()
