"""What people see: runs, lists, histories and times as text."""
