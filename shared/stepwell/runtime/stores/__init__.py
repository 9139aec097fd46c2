"""The common parts of all stores: cursors and pages, JSON text, and references to blobs."""
