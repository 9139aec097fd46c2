"""Draws a workflow and its runs: shapes, their places, and the picture as SVG, Mermaid or Graphviz."""
