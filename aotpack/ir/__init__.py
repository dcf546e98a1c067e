"""The loop IR: integers (sizes and indices), element types, the op table, nodes, and what reads them."""
