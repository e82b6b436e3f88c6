"""Folders under construction: gone after an error, and soon after a kill."""

import os
import signal
import subprocess
import sys

import pytest

from slim_mp.files.temporary_folders import temporary_folder

FILL = """
import signal, sys
from slim_mp.files.temporary_folders import temporary_folder
with temporary_folder(sys.argv[1], ".new-") as folder:
    open(folder + "/half", "w").close()
    print(folder, flush=True)
    signal.pause()
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_it_may_be_renamed_and_is_then_there(tmp_path):
    with temporary_folder(tmp_path, ".new-") as folder:
        (tmp_path / folder / "file").touch()
        (tmp_path / folder).rename(tmp_path / "1")
    assert names(tmp_path) == ["1"] and names(tmp_path / "1") == ["file"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_error(tmp_path, error):
    with pytest.raises(error), temporary_folder(tmp_path, ".new-") as folder:
        (tmp_path / folder / "file").touch()
        raise error
    assert names(tmp_path) == []


def test_what_a_killed_process_left_goes_with_the_next_and_what_is_in_use_stays(tmp_path):
    (tmp_path / ".new-file").touch()
    (tmp_path / "of-the-user").mkdir()
    others = {".new-file", "of-the-user"}
    with subprocess.Popen(
        [sys.executable, "-c", FILL, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        theirs = os.path.basename(process.stdout.readline().strip())
        with temporary_folder(tmp_path, ".new-") as folder:
            mine = os.path.basename(folder)
            assert set(names(tmp_path)) == {mine, theirs} | others
            process.send_signal(signal.SIGKILL)
            process.wait()
            with temporary_folder(tmp_path, ".new-") as last:
                assert set(names(tmp_path)) == {mine, os.path.basename(last)} | others
