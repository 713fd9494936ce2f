# Run in the guest: forks until it may not.
import errno
import json
import os
import signal

children, failure = [], "none"
try:
    while len(children) < 1000:
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
except OSError as error:
    failure = errno.errorcode[error.errno]
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(json.dumps({"forks": len(children), "error": failure}))
