"""The loop IR: integers (sizes and indices), types, the op table, nodes, what reads them."""
