"""Asks an engine's socket for `/_ping`; exit status 0 when it answers 200. (No curl on a minimal Debian.)"""

import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
    connection.settimeout(5)
    connection.connect(sys.argv[1])
    connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n")
    sys.exit(0 if b" 200 " in connection.recv(64) else 1)
