"""What makes programs and schedules legal: one ``check_<property>`` for each invariant."""
