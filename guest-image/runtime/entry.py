import sys

sys.path.append(__file__.rpartition("/")[0])
__import__("mcp._guest.init", fromlist=["main"]).main()
