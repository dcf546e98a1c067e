"""What a call checks: guards, assertions, arguments it changes, and the debugging modes."""
