"""The legality of programs and schedules: one ``check_<property>`` for each invariant.

In reading order: ``invalid`` (the error), ``program`` (its ``verify`` runs all checks of a program)
with ``control`` (branches and loops) and ``borders`` (memory orders), ``schedule`` (its
``verify_schedule`` runs all checks of a schedule) with ``memory`` and ``tiles``, each from one of
the ``phases`` on. Neither trusts the passes that made its input.
"""
