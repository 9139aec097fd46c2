"""How runs begin: by a call, an event, a schedule; and the folder of workflows."""
