"""One file a verb of the command line: ``add_arguments(parser)`` and ``run(options) -> int``."""
