# Run in the guest: where it can write, execute, and what of the kernel's files it can read.
import errno
import json
import os

PLACES = ("/tmp", "/workspace", "/projects", "/dev/shm")

writable = []
for folder, folders, _ in os.walk("/", followlinks=False):
    if folder in ("/", "/dev"):
        folders[:] = [name for name in folders if name not in ("proc", "sys", "fd", "pts", "mqueue")]
    path = os.path.join(folder, ".probe")
    try:
        with open(path, "w") as file:
            file.write("x")
        os.remove(path)
        writable.append(folder)
    except OSError:
        pass

options, sizes, execution = {}, {}, {}
for line in open("/proc/self/mounts"):
    _, place, kind, flags, *_ = line.split()
    if place in PLACES:
        options[place] = sorted(set(flags.split(",")) & {"nodev", "noexec", "nosuid"})
for place in PLACES:
    room = os.statvfs(place)
    sizes[place] = room.f_blocks * room.f_frsize >> 20
    path = place + "/program"
    with open(path, "wb") as file, open("/usr/bin/python3.14", "rb") as original:
        file.write(original.read())
    os.chmod(path, 0o755)
    try:
        pid = os.posix_spawn(path, [path, "-c", ""], {})
        os.waitpid(pid, 0)
        execution[place] = "done"
    except OSError:
        execution[place] = "refused"
    os.remove(path)

filled = "unbounded"
try:
    with open("/tmp/filler", "wb", buffering=0) as file:
        for _ in range(80):
            if file.write(b"\0" * (1 << 20)) < 1 << 20:
                raise OSError(errno.ENOSPC, "short write")
except OSError as error:
    filled = errno.errorcode[error.errno]
os.remove("/tmp/filler")

readable = []
TELLING = (
    "/proc/cmdline", "/proc/config.gz", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/iomem", "/proc/ioports", "/proc/diskstats",
    "/proc/timer_list", "/proc/interrupts", "/proc/modules", "/proc/sched_debug", "/proc/partitions", "/proc/bus/pci", "/proc/acpi", "/proc/scsi",
    "/sys/firmware", "/sys/kernel", "/sys/block", "/sys/module", "/sys/class/net", "/sys/devices/virtual/powercap", "/dev/kmsg", "/dev/mem",
)
for path in TELLING:
    try:
        if os.path.isdir(path):
            if os.listdir(path):
                readable.append(path)
        else:
            with open(path, "rb") as file:
                if file.read(64):
                    readable.append(path)
    except OSError:
        pass
print(json.dumps({
    "writable": sorted(writable), "options": options, "sizes": sizes, "execution": execution, "filled": filled,
    "readable_kernel_files": readable,
}))
