"""The packages of the functions, built without Docker: what a project needs, and nothing that no function reads."""
