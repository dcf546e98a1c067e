"""Times the forms of each launch on the deployment device; compiles nothing.

In reading order: ``tune_sizes`` (the sizes to time at), ``tune``.
"""
