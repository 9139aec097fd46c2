"""What each route does: read the call, ask the service, show the answer."""
