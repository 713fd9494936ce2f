"""How values are shown: `show`, previews of large values, tables, and the limits per run."""
