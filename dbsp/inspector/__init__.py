"""The inspector: a local web page that shows a running circuit and steps it."""
