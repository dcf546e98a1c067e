"""The order in which the steps of a plan are issued: dependences, runs, branches and loops."""
