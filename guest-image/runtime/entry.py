import sys

# The runtime, then installed packages: none of them may shadow the standard library.
sys.path += [__file__.rpartition("/")[0], f"{sys.prefix}/lib/python{sys.version[:4]}/site-packages"]
__import__("_mcp_guest.init.main", fromlist=["main"]).main()
