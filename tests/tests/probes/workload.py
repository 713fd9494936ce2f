# Run in the guest: the broad use that ordinary programs make of Python works under the hardening.
import asyncio
import concurrent.futures
import ctypes
import decimal
import hashlib
import json
import lzma
import mmap
import multiprocessing
import os
import pathlib
import pickle
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
import zlib
import zoneinfo
from datetime import datetime

total = []
threads = [threading.Thread(target=total.append, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(total) == list(range(8))


async def main():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('child')", stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert out == b"child\n"
    server = await asyncio.start_unix_server(lambda r, w: w.close(), "/tmp/server.sock")
    reader, writer = await asyncio.open_unix_connection("/tmp/server.sock")
    assert await reader.read() == b""
    writer.close()
    server.close()


await main()

with sqlite3.connect("/workspace/db.sqlite") as db:
    db.execute("pragma journal_mode=wal")
    db.execute("create table t (n)")
    db.executemany("insert into t values (?)", [(n,) for n in range(100)])
    assert db.execute("select sum(n) from t").fetchone() == (4950,)

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "a.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", "y" * 10_000)
    shutil.copy(path, folder + "/b.zip")
    with open(folder + "/b.zip", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert view[:2] == b"PK"

callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)
assert callback(41) == 42
assert decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")
assert hashlib.sha3_256(b"").hexdigest().startswith("a7ffc6f8")
assert lzma.decompress(lzma.compress(b"x" * 1000)) == b"x" * 1000 and zlib.crc32(b"a") == 3904355907
assert datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")).utcoffset().total_seconds() == 7200
ssl.create_default_context()
uuid.uuid4()
assert len(bytearray(64 << 20)) == 64 << 20

received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
os.kill(os.getpid(), signal.SIGUSR1)
while not received:
    time.sleep(0.001)

with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    assert list(pool.map(abs, [-3])) == [3]


class Point:
    def __init__(self, x):
        self.x = x


assert pickle.loads(pickle.dumps(Point(3))).x == 3
json.dumps({"a": 1})
print("all parts work")
