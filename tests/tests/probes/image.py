# Run in the guest: what the image holds.
import importlib
import json
import os
import sys

total, not_compiled, seen = 0, [], set()
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "tmp", "workspace", "projects", "run")]
    for name in files:
        path = os.path.join(folder, name)
        facts = os.lstat(path)
        if (facts.st_dev, facts.st_ino) in seen:
            continue
        seen.add((facts.st_dev, facts.st_ino))
        total += facts.st_size
        if name.endswith(".py") and name != "entry.py" and not os.path.islink(path):
            compiled = os.path.join(folder, "__pycache__", name.removesuffix(".py") + ".cpython-314.pyc")
            if not os.path.exists(compiled):
                not_compiled.append(path)

failed = []
MODULES = "ssl sqlite3 ctypes lzma bz2 zoneinfo decimal uuid asyncio json hashlib compression.zstd zlib csv xml.etree.ElementTree tomllib"
for module in MODULES.split():
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed.append(f"{module}: {error}")
print(json.dumps({
    "bytes": total, "not_compiled": not_compiled, "failed_imports": failed, "python": "{}.{}".format(*sys.version_info),
}))
