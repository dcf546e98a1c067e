"""Times the forms of each launch on the device that will serve; compiles nothing."""
