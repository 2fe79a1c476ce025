"""Golden scripts: text files with commands and the output that they must give (`script` describes the format)."""
