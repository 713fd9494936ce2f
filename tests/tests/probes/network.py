# Run in the guest: which sockets it gets.
import json
import socket


def attempt(family, kind=socket.SOCK_STREAM):
    try:
        socket.socket(family, kind).close()
    except OSError:
        return "refused"
    return "made"


try:
    interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]]
except OSError:
    interfaces = []
left, right = socket.socketpair()
left.sendall(b"works")
found = {
    "unix_pair": right.recv(10).decode(),
    "inet": attempt(socket.AF_INET),
    "inet6": attempt(socket.AF_INET6),
    "netlink": attempt(socket.AF_NETLINK, socket.SOCK_RAW),
    "packet": attempt(socket.AF_PACKET, socket.SOCK_RAW),
    "vsock": attempt(40),
    "interfaces": interfaces,
}
print(json.dumps(found))
