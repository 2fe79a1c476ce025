"""On the path of a process, lets a source forget the files that it has read at once, and not after hundreds of them."""

from headrace.connectors.files import index

index.FOLDED, index.FOLD_INTERVAL = 2, 0
