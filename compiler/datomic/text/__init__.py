"""From EDN text or Python data to the tree of a query, with the place of every part."""
