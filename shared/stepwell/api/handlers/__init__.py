"""The handlers of the routes: parse the call, ask the service, build the answer."""
