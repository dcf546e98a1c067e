"""What a package must not do is seen: programs, files, sockets."""

import os
import subprocess
import sys
from pathlib import Path

from aotpack.runtime.checks.audit import watch


def test_forbidden_actions_are_seen(tmp_path: Path) -> None:
    with watch() as actions:
        (tmp_path / "new").write_text("x")
        os.close(os.open(tmp_path / "raw", os.O_CREAT | os.O_WRONLY))
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert [action.split(":")[0].split()[0] for action in actions if "pipe" not in action][:2] == [
        "open",
        "open",
    ]
    assert any(action.startswith("subprocess.Popen") for action in actions)


def test_reading_is_allowed(package: Path) -> None:
    with watch() as actions:
        (package / "manifest.json").read_text()
    assert actions == []
