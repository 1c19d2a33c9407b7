"""The artifact cache: what is put is got, damage and failures cost speed only, the disk stays bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import pytest

from refcompiler import cache as cache_module
from refcompiler.cache import ArtifactCache, artifact_key, compiler_fingerprint

KEY = artifact_key("cubin", "source", "sm_90a", toolchain="t")


def entry_file(cache: ArtifactCache, key: str = KEY):
    (path,) = cache.root.glob(f"{key[:2]}/{key[2:]}.*")
    return path


def test_get_gives_what_was_put(tmp_path):
    cache = ArtifactCache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, b"\0data\xff", {"regs": 10})
    assert cache.get(KEY) == b"\0data\xff"
    assert cache.entry(KEY).metadata == {"regs": 10}


def test_another_process_sees_the_entry(tmp_path):
    ArtifactCache(tmp_path).put(KEY, b"data", {"shape": (1, 2)})
    code = (
        "import sys; from refcompiler.cache import ArtifactCache; "
        "entry = ArtifactCache(sys.argv[1]).entry(sys.argv[2]); print(entry.data, entry.metadata)"
    )
    out = subprocess.run([sys.executable, "-c", code, tmp_path, KEY], capture_output=True, text=True, check=True)
    assert out.stdout == "b'data' {'shape': [1, 2]}\n"
    assert ArtifactCache(tmp_path).entry(KEY).metadata == {"shape": [1, 2]}


def test_put_replaces(tmp_path):
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert ArtifactCache(tmp_path).get(KEY) == b"new"


def test_a_hit_in_memory_touches_no_file(tmp_path):
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, b"data")
    entry_file(cache).unlink()
    assert cache.get(KEY) == b"data"


def test_memory_is_bounded_and_the_disk_still_answers(tmp_path):
    cache = ArtifactCache(tmp_path, memory_bytes=2000)
    for i in range(10):
        cache.put(artifact_key("k", str(i), toolchain=""), bytes([i]) * 500)
    assert cache._recent_bytes <= 2000 and len(cache._recent) <= 4
    for i in range(10):
        assert cache.get(artifact_key("k", str(i), toolchain="")) == bytes([i]) * 500


@pytest.mark.parametrize(
    "others",
    [
        ("cubin", "source", "sm_80"),
        ("ptx", "source", "sm_90a"),
        ("cubin", "sources", "m_90a"),
        ("cubin", "sm_90a", "source"),
    ],
)
def test_each_part_and_its_place_change_the_key(others):
    assert artifact_key(*others, toolchain="t") != KEY


def test_toolchain_changes_the_key_and_the_same_parts_do_not():
    assert artifact_key("cubin", "source", "sm_90a", toolchain="u") != KEY
    assert artifact_key("cubin", b"source", "sm_90a", toolchain="t") == KEY


def test_the_compiler_source_changes_the_fingerprint(tmp_path, monkeypatch):
    (tmp_path / "passes").mkdir()
    (tmp_path / "cache.py").write_text("")
    module = tmp_path / "passes" / "fold.py"
    monkeypatch.setattr(cache_module, "__file__", str(tmp_path / "cache.py"))

    def fingerprint(text: str) -> str:
        module.write_text(text)
        return compiler_fingerprint.__wrapped__()

    assert fingerprint("x = 1") == fingerprint("x = 1") != fingerprint("x = 2")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "of another key"])
def test_a_damaged_entry_is_absent_and_removed(tmp_path, damage):
    ArtifactCache(tmp_path).put(KEY, b"data" * 100, {"a": 1})
    cache = ArtifactCache(tmp_path)
    path = entry_file(cache)
    raw = path.read_bytes()
    flipped = raw[:-1] + bytes([raw[-1] ^ 1])
    other = ArtifactCache(tmp_path / "other")
    other.put(KEY[::-1], b"data" * 100, {"a": 1})
    damaged = {"truncated": raw[:-7], "flipped": flipped, "empty": b"", "foreign": b"hello\n" * 40}
    path.write_bytes({**damaged, "of another key": entry_file(other, KEY[::-1]).read_bytes()}[damage])
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, b"again")
    assert ArtifactCache(tmp_path).get(KEY) == b"again"


def test_a_folder_that_cannot_be_written_warns_once_and_caches_in_memory(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    cache = ArtifactCache(occupied)
    with pytest.warns(RuntimeWarning, match="TILESPEC_CACHE_DIR") as seen:
        cache.put(KEY, b"data")
        cache.put(artifact_key("k", toolchain=""), b"more")
        assert cache.get(artifact_key("absent", toolchain="")) is None
    assert len(seen) == 1
    assert cache.get(KEY) == b"data"
    assert occupied.read_text() == "not a folder"


def test_a_full_disk_warns_and_leaves_no_partial_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.os, "replace", full)
    cache = ArtifactCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(KEY, b"data")
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() and p.name not in ("evicted", "evict.lock")] == []
    assert cache.get(KEY) == b"data"


def test_eviction_removes_the_entries_used_longest_ago(tmp_path):
    cache = ArtifactCache(tmp_path, limit_bytes=5000, memory_bytes=0)
    keys = [artifact_key("k", str(i), toolchain="") for i in range(8)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1000)
        os.utime(entry_file(cache, key), (1e9 - age, 1e9 - age))
    assert cache.get(keys[7]) is not None  # the oldest, used just now
    cache.evict()
    kept = [key for key in keys if cache.get(key) is not None]
    assert sum(p.stat().st_size for p in tmp_path.rglob("*.artifact")) <= 5000
    assert keys[7] in kept and keys[0] in kept and keys[6] not in kept


def test_eviction_removes_abandoned_writes_but_not_those_under_way(tmp_path):
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, b"data")
    abandoned, under_way = entry_file(cache).parent / ".part-old", entry_file(cache).parent / ".part-new"
    abandoned.write_bytes(b"half")
    under_way.write_bytes(b"half")
    os.utime(abandoned, (1e9, 1e9))
    cache.evict()
    assert not abandoned.exists() and under_way.exists() and cache.get(KEY) == b"data"


def test_clear_forgets_entries_and_leaves_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, b"data")
    cache.clear()
    assert cache.get(KEY) is None and ArtifactCache(tmp_path).get(KEY) is None
    assert (tmp_path / "notes.txt").read_text() == "mine"


_WRITER = """
import sys
from refcompiler.cache import ArtifactCache
who = int(sys.argv[3])
for round in range(60):
    cache = ArtifactCache(sys.argv[1], memory_bytes=0, limit_bytes=20_000)
    cache.put(sys.argv[2], bytes([who]) * (1000 + 500 * who), {"who": who})
    entry = cache.entry(sys.argv[2])
    if entry is not None:  # another process may have evicted it
        w = entry.metadata["who"]
        assert entry.data == bytes([w]) * (1000 + 500 * w), (w, len(entry.data))
    if round % 20 == 0:
        cache.evict()
"""


def test_processes_writing_one_key_never_see_a_mixture(tmp_path):
    running = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", _WRITER, tmp_path, KEY, str(i)]) for i in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]


def test_threads_share_one_cache(tmp_path):
    cache = ArtifactCache(tmp_path, memory_bytes=3000)
    wrong: list = []

    def work(who: int) -> None:
        for i in range(50):
            key = artifact_key("k", str(i % 7), toolchain="")
            cache.put(key, bytes([i % 7]) * 700)
            if cache.get(key) != bytes([i % 7]) * 700:
                wrong.append((who, i))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_remove_and_size(tmp_path):
    cache = ArtifactCache(tmp_path)
    other = artifact_key("k", toolchain="")
    cache.put(KEY, b"data")
    cache.put(other, b"more")
    entries, size = cache.size()
    assert entries == 2 and size > 8
    cache.remove(KEY)
    cache.remove(KEY)
    assert cache.get(KEY) is None and cache.get(other) == b"more" and ArtifactCache(tmp_path).size()[0] == 1


_DIES = """
import os, sys
from refcompiler import cache as module
def announce(*_):
    print("writing", flush=True)
    sys.stdin.read()
where = sys.argv[3]
if where == "before the move":
    module.os.replace = announce
elif where == "half written":
    class Half:
        def __init__(self, descriptor, mode):
            self.descriptor = descriptor
        def __enter__(self):
            return self
        def __exit__(self, *_):
            pass
        def write(self, data):
            os.write(self.descriptor, data[:40])
            announce()
    module.os.fdopen = Half
else:
    import filelock
    lock = filelock.FileLock(sys.argv[1] + "/evict.lock")
    lock.acquire()
    announce()
module.ArtifactCache(sys.argv[1]).put(sys.argv[2], b"x" * 1000)
"""


def dying(tmp_path, where: str) -> subprocess.Popen:
    """A process that is in the middle of something to do with the cache, for ever."""
    words = [sys.executable, "-c", _DIES, str(tmp_path), KEY, where]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.parametrize("where", ["half written", "before the move"])
def test_a_process_killed_while_it_writes_leaves_nothing_that_counts(tmp_path, where):
    process = dying(tmp_path, where)
    process.kill()
    process.wait()
    cache = ArtifactCache(tmp_path)
    (left,) = tmp_path.rglob(".part-*")
    assert cache.get(KEY) is None
    cache.put(KEY, b"data")
    assert ArtifactCache(tmp_path).get(KEY) == b"data"
    os.utime(left, (1e9, 1e9))
    cache.evict()
    assert not left.exists() and ArtifactCache(tmp_path).get(KEY) == b"data"


def test_no_lock_is_waited_for(tmp_path):
    cache = ArtifactCache(tmp_path)
    cache.put(KEY, b"data")
    cache.limit_bytes = 1
    process = dying(tmp_path, "lock")
    try:
        cache.evict()  # another process is at it: nothing to do
        assert ArtifactCache(tmp_path).get(KEY) == b"data"
        cache.put(KEY, b"more")
        assert ArtifactCache(tmp_path).get(KEY) == b"more"
    finally:
        process.kill()
        process.wait()
    cache.evict()  # the system gave the lock of the dead process back
    assert ArtifactCache(tmp_path).get(KEY) is None


def test_a_disk_that_fills_while_writing(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    cache = ArtifactCache(tmp_path)
    real = cache_module.tempfile.mkstemp

    def full(prefix, dir):
        descriptor, name = real(prefix=prefix, dir=dir)
        os.close(descriptor)
        return os.open("/dev/full", os.O_WRONLY), name

    with pytest.MonkeyPatch.context() as patch, pytest.warns(RuntimeWarning, match="No space left") as seen:
        patch.setattr(cache_module.tempfile, "mkstemp", full)
        cache.put(KEY, b"data" * 10_000)
        cache.put(artifact_key("k", toolchain=""), b"data")
    assert len(seen) == 1 and not list(tmp_path.rglob(".part-*"))
    assert cache.get(KEY) == b"data" * 10_000 and ArtifactCache(tmp_path).get(KEY) is None


def test_one_shared_cache_for_each_folder(tmp_path, monkeypatch):
    from refcompiler.cache import shared_cache

    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path / "a"))
    first = shared_cache()
    assert shared_cache() is first and first.root == tmp_path / "a" / "artifacts"
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path / "b"))
    assert shared_cache() is not first
