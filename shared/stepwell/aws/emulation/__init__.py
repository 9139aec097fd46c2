"""The emulator of AWS on this machine, and what is deployed to it."""
