"""One file a verb of the command line: ``add_arguments(parser)`` and ``run(options) -> int``.

In reading order: ``build``, ``show`` and ``verify`` with ``model_options`` and ``alike`` (a model
against a wheel); ``inspect`` with ``report`` and ``kernel_sources``; ``bench`` and ``tune``;
``wheel_file`` and ``shipped`` (wheels and their runtime); ``sign`` and ``signatures``; ``doctor``;
``completion``; ``verbs`` (their list), ``parser`` (one-line errors, common options) and
``settings`` (pyproject.toml).
"""
