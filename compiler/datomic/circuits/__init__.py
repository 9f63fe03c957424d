"""From the checked rules of a query to its circuit, and the form of its results."""
