import sys

# The runtime, then what wheels brought: none of them may stand in front of it.
sys.path += [__file__.rpartition("/")[0], f"{sys.prefix}/lib/python{sys.version[:4]}/site-packages"]
__import__("mcp._guest.init", fromlist=["main"]).main()
